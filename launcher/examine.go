package launcher

import (
	"context"
	"crypto/rand"
	"net/netip"
	"sync"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/hostlist"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/network"
	"github.com/mpiup/mpiup/launcher/doctor"
)

// DoctorConfig is one look at all hosts before a job.
type DoctorConfig struct {
	Reach
	Argv     []string // the program, for its MPI library; nil: what images have
	Ranks    int      // on every host; 0: one a slot
	Net      network.Wish
	MPIPorts network.Ports
	Measure  bool // bandwidth of every way too
	Strict   bool // a warning is a failure
	JSON     bool
	Fabric   FabricConfig
}

// examined is what a look at all hosts gave.
type examined struct {
	report  *doctor.Report
	code    int         // not 0: a host was not reached
	reached []benchHost // who answered, in the job's order
}

// exitUnfit is the code of Doctor, and of a run that Preflight stopped, when something fails.
const exitUnfit = 1

// Doctor prints what agents find and returns 0, 1 when something failed, or the code of why hosts could not
// be reached.
func Doctor(ctx context.Context, cfg DoctorConfig) int {
	cfg.fill()
	baseline, err := readBaseline(cfg.Fabric.Baseline)
	if err != nil {
		return cfg.end(failf(job.ExitUsage, "%v", err))
	}
	e, err := cfg.examine(ctx)
	if err == nil && cfg.Fabric.Run {
		err = cfg.fabric(ctx, e, baseline)
	}
	if err != nil {
		return cfg.end(err)
	}
	report, code := e.report, e.code
	if cfg.JSON {
		err = printJSON(cfg.Stdout, report)
	} else {
		err = report.Text(cfg.Stdout, false)
	}
	switch {
	case err != nil:
		return cfg.end(failf(job.ExitInternal, "standard output: %v", err))
	case code != 0:
		return code
	case report.Verdict == doctor.Fail, cfg.Strict && report.Verdict == doctor.Warn:
		return exitUnfit
	}
	return 0
}

// Preflight looks at the hosts, prints what is worth a warning to standard error, and returns 0 when a job may
// start. Hosts that are not there yet are no failure: the job waits for them.
func Preflight(ctx context.Context, cfg DoctorConfig) int {
	cfg.fill()
	e, err := cfg.examine(ctx)
	switch {
	case err != nil:
		return cfg.end(err)
	case e.code != 0:
		cfg.say("--preflight: not all hosts can be looked at yet; the job waits for them")
		return 0
	}
	if err := e.report.Text(cfg.Stderr, true); err != nil {
		return cfg.end(failf(job.ExitInternal, "standard error: %v", err))
	}
	if e.report.Verdict == doctor.Fail {
		return cfg.end(failf(exitUnfit, "the job is not started, since --preflight found what will not work; mend it, or leave --preflight away"))
	}
	return 0
}

// examine asks all hosts, and then each of all others.
func (c *DoctorConfig) examine(ctx context.Context) (*examined, error) {
	var token [16]byte
	if _, err := rand.Read(token[:]); err != nil {
		return nil, err
	}
	set, err := c.others(ctx)
	if err != nil {
		if c.Here == nil || c.Entries != nil {
			return nil, err
		}
		reply, hereErr := c.Here(ctx, c.request(nil))
		if hereErr != nil {
			return nil, hereErr
		}
		name := reply.Host.Name
		return &examined{report: doctor.Judge([]doctor.Host{{Name: name, Reply: reply}}, nil),
			reached: []benchHost{{wanted{entry: hostlist.Entry{Name: name}}, reply}}}, nil
	}
	hosts := make(map[string]*doctor.Host)
	var mu sync.Mutex
	found := c.visit(ctx, set.hosts, func(ctx context.Context, v *visited, conn *agentConn) error {
		begun := time.Now()
		reply, err := conn.client.Checkup(ctx, c.request(token[:]))
		if err != nil {
			return err
		}
		took := time.Since(begun)
		skew := time.Unix(0, reply.Host.GetClockNs()).Sub(begun.Add(took / 2))
		mu.Lock()
		defer mu.Unlock()
		hosts[v.entry.Name] = &doctor.Host{Name: v.entry.Name, Reply: reply, Skew: skew, Doubt: took / 2}
		return nil
	})
	list := make([]doctor.Host, 0, len(found))
	causes := make([]*cause, len(found))
	reached := found[:0:0]
	e := &examined{}
	for i, v := range found {
		if v.cause != nil && v.bare && v.cause.refused {
			continue // a pod of the service that has no agent, such as a launcher's
		}
		causes[i] = v.cause
		if v.cause != nil {
			list = append(list, doctor.Host{Name: v.entry.Name, Error: v.cause.Error()})
			continue
		}
		list = append(list, *hosts[v.entry.Name])
		reached = append(reached, v)
		w := wanted{entry: v.entry, fixed: at(v.addr)}
		e.reached = append(e.reached, benchHost{w, hosts[v.entry.Name].Reply})
	}
	if c := telling(causes); c != nil {
		e.code = c.stage.exitCode()
	}
	e.report = doctor.Judge(list, c.ways(ctx, reached, hosts, token[:]))
	return e, nil
}

// answerTime is how long agents answer each other: every round of a large job takes its time.
const answerTime = 5 * time.Minute

func (c *DoctorConfig) request(token []byte) *apiv1.CheckupRequest {
	r := &apiv1.CheckupRequest{Ranks: uint32(c.Ranks), Argv: c.Argv, Token: token, Net: c.Net.String(), MpiPorts: c.MPIPorts.String()}
	if c.Fabric.Run {
		r.Programs, r.LookIn = doctor.ProgramNames(), c.Fabric.Dirs
	}
	if token != nil {
		r.AnswerMs = uint32(answerTime.Milliseconds())
	}
	return r
}

// ways lets each host ask all others. With rates it goes in rounds in which no host is in two pairs.
func (c *DoctorConfig) ways(ctx context.Context, reached []visited, hosts map[string]*doctor.Host, token []byte) (ways []doctor.Way) {
	if len(reached) < 2 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	target := make([]*apiv1.Target, len(reached))
	for i, v := range reached {
		target[i] = &apiv1.Target{Host: v.entry.Name, Addresses: addressesOf(v.addr, hosts[v.entry.Name].Reply)}
	}
	d := newDialer(c.Identity, len(reached))
	ask := func(from int, to []*apiv1.Target, rate bool) []doctor.Way {
		return d.ask(ctx, reached[from], to, token, rate)
	}
	results := make([][]doctor.Way, len(reached))
	if !c.Measure {
		inParallel(len(reached), func(i int) {
			others := append(append([]*apiv1.Target{}, target[:i]...), target[i+1:]...)
			results[i] = ask(i, others, false)
		})
	} else {
		for _, round := range doctor.Rounds(len(reached)) {
			inParallel(len(round), func(k int) {
				from, to := round[k][0], round[k][1]
				results[from] = append(results[from], ask(from, target[to:to+1], true)...)
			})
		}
	}
	for _, r := range results {
		ways = append(ways, r...)
	}
	return ways
}

// addressesOf is where a host answers: at its addresses for MPI, else at the one its agent has.
func addressesOf(agent netip.AddrPort, reply *apiv1.CheckupReply) (list []string) {
	for _, text := range reply.Addresses {
		if a, err := netip.ParseAddr(text); err == nil {
			list = append(list, netip.AddrPortFrom(a, uint16(reply.Port)).String())
		}
	}
	if len(list) == 0 {
		list = []string{netip.AddrPortFrom(agent.Addr().Unmap(), uint16(reply.Port)).String()}
	}
	return list
}

// ask lets one host measure the way to others. What goes wrong on the way to the host itself is the answer
// for all.
func (d *dialer) ask(ctx context.Context, from visited, to []*apiv1.Target, token []byte, rate bool) (ways []doctor.Way) {
	var reply *apiv1.AskReply
	conn, err := d.question(ctx, from.addr)
	if err == nil {
		defer conn.close()
		reply, err = conn.client.Ask(ctx, &apiv1.AskRequest{Targets: to, Token: token, Rate: rate})
	}
	for i, t := range to {
		w := doctor.Way{From: from.entry.Name, To: t.Host}
		switch {
		case err != nil:
			w.Error = "the host could not be asked: " + err.Error()
		case i >= len(reply.Ways):
			w.Error = "the host did not say"
		default:
			a := reply.Ways[i]
			w.Error, w.RTT, w.Rate, w.MTU = a.Error, time.Duration(a.RttNs), a.Rate, int(a.Mtu)
		}
		ways = append(ways, w)
	}
	return ways
}
