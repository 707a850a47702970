// Package survey looks at hosts before a job. It asks each agent what its host is like, lets the agents answer each
// other, and gathers what package doctor judges.
//
//	Checkup  every agent by itself                        ─▶ findings, facts, clocks
//	Answer   every agent opens ports of MPI's range       ┐
//	Ask      every agent measures the way to the others   ├▶ ways
//	close    every agent says that its ports are closed   ┘
//
// When Look returns, no agent holds a port on its account, so that a job may take them. Else it says which host did not
// say so. What Look could not look at is in the result, with the reason.
//
// It does not find or reach hosts, and does not judge.
package survey

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"net/netip"
	"sync"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/awake"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher/doctor"
)

// Agent is what is asked of one host. It may be asked from several goroutines.
type Agent interface {
	Hello(context.Context) (*apiv1.HelloReply, error)
	Checkup(context.Context, *apiv1.CheckupRequest) (*apiv1.CheckupReply, error)
	Ask(context.Context, *apiv1.AskRequest) (*apiv1.AskReply, error)
	// Answer opens ports and says which, as address:port. done closes them, and has an error when they may still be
	// open. The end of the context closes them too.
	Answer(context.Context, *apiv1.AnswerRequest) (addresses []string, done func() error, err error)
}

// UsageError is an agent's word that the command line does not fit its host.
type UsageError struct{ Text string }

func (e *UsageError) Error() string { return e.Text }

// Host is one to look at.
type Host struct {
	Name  string
	Ranks int   // that are to run there
	Agent Agent // nil: it was not reached, and Error says why, or it gets no ranks
	Error error
}

// Config is what is looked for.
type Config struct {
	Argv        []string // the program, for its MPI library; nil: what images have
	GPUsPerRank int      // 0: ranks see all
	Net         job.Network
	MPIPorts    job.Ports
	Measure     bool     // bandwidth of every way too
	Programs    []string // benchmarks that are looked for
	Dirs        []string // where first
}

// Seen is what was found; Hosts are in the order of the hosts that were given.
type Seen struct {
	Hosts []doctor.Host
	Ways  []doctor.Way
	Usage bool // a host says that the command line is wrong
}

// Bounds of a look. Agents may ask programs for GPUs and search images; rounds of a large job take their time.
const (
	lookTime   = 30 * time.Second
	answerTime = 5 * time.Minute
)

// Look asks all hosts, and then each of all others.
func Look(ctx context.Context, hosts []Host, cfg Config) *Seen {
	s := &Seen{Hosts: make([]doctor.Host, len(hosts))}
	InParallel(len(hosts), func(i int) { s.Hosts[i] = lookAt(ctx, &hosts[i], cfg) })
	var there []int // indices of those that were looked at
	for i := range s.Hosts {
		s.Usage = s.Usage || s.Hosts[i].Wrong
		if s.Hosts[i].Found != nil {
			there = append(there, i)
		}
	}
	if len(there) > 1 {
		w := &ways{cfg: cfg, hosts: hosts, there: there}
		rand.Read(w.token[:]) // never fails (crypto/rand)
		w.run(ctx)
		s.Ways = w.found
		for k, i := range there {
			s.Hosts[i].Open = w.open[k]
		}
	}
	return s
}

// lookAt is one host by itself.
func lookAt(ctx context.Context, h *Host, cfg Config) doctor.Host {
	d := doctor.Host{Name: h.Name, Ranks: h.Ranks}
	if h.Error != nil {
		d.Error = h.Error.Error()
	}
	if h.Agent == nil {
		return d
	}
	ctx, cancel := awake.Within(ctx, lookTime)
	defer cancel()
	begun := time.Now()
	hello, err := h.Agent.Hello(ctx) // quick, so that it says what the clock is
	took := time.Since(begun)
	var reply *apiv1.CheckupReply
	if err == nil {
		d.Skew, d.Doubt = time.Unix(0, hello.GetClockNs()).Sub(begun.Add(took/2)), took/2
		reply, err = h.Agent.Checkup(ctx, &apiv1.CheckupRequest{
			Ranks: uint32(h.Ranks), GpusPerRank: uint32(cfg.GPUsPerRank), Argv: cfg.Argv, Net: cfg.Net.String(), MpiPorts: cfg.MPIPorts.String(),
			Programs: cfg.Programs, LookIn: cfg.Dirs})
	}
	if err != nil {
		d.Error, d.Wrong = err.Error(), errors.As(err, new(*UsageError))
		return d
	}
	d.Found = foundOf(reply)
	return d
}

// verdicts are the agents'; one of a later version is not known here.
var verdicts = map[apiv1.Verdict]string{apiv1.Verdict_PASS: doctor.Pass, apiv1.Verdict_WARN: doctor.Warn, apiv1.Verdict_FAIL: doctor.Fail}

func foundOf(m *apiv1.CheckupReply) *doctor.Found {
	f := &doctor.Found{Version: m.GetHost().GetVersion(), GPUs: int(m.GetHost().GetGpus()), Programs: map[string]string{}}
	for _, one := range m.GetFindings() {
		f.Findings = append(f.Findings, doctor.Finding{
			Check:   one.GetName(),
			Verdict: cmp.Or(verdicts[one.GetVerdict()], doctor.Unknown),
			Text:    one.GetText(),
			Fix:     one.GetFix(),
		})
	}
	for _, one := range m.GetFacts() {
		f.Facts = append(f.Facts, doctor.Fact{Name: one.GetName(), Value: one.GetValue()})
	}
	for _, text := range m.GetAddresses() {
		if a, err := netip.ParseAddr(text); err == nil {
			f.Addresses = append(f.Addresses, a)
		}
	}
	for _, one := range m.GetPrograms() {
		f.Programs[one.GetName()] = one.GetPath()
	}
	for _, p := range m.GetRdma() {
		f.Ports = append(f.Ports, doctor.Port{Device: p.GetDevice(), Number: int(p.GetPort()), Ethernet: p.GetEthernet(), GID: int(p.GetGid())})
	}
	return f
}

// InParallel calls f with 0 to n-1 at once, some dozens at a time, and waits for all.
func InParallel(n int, f func(int)) {
	const atOnce = 64
	var running sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for i := range n {
		slots <- struct{}{}
		running.Go(func() { defer func() { <-slots }(); f(i) })
	}
	running.Wait()
}
