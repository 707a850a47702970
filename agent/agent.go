package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/mpiup/mpiup/agent/gpuwatch"
	"github.com/mpiup/mpiup/agent/host"
	"github.com/mpiup/mpiup/agent/member"
	"github.com/mpiup/mpiup/agent/metrics"
	"github.com/mpiup/mpiup/agent/mpilib"
	"github.com/mpiup/mpiup/agent/outfit"
	"github.com/mpiup/mpiup/agent/port"
	"github.com/mpiup/mpiup/agent/ranks"
	"github.com/mpiup/mpiup/agent/reap"
	"github.com/mpiup/mpiup/agent/session"
	"github.com/mpiup/mpiup/agent/survey"
	"github.com/mpiup/mpiup/gpu"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/wire"
	"golang.org/x/sync/singleflight"
)

// Agent is one host's part of all jobs on it.
type Agent struct {
	cfg      Config
	clock    *wire.Clock
	super    *reap.Supervisor
	host     *host.Host
	sessions *session.Table
	survey   *survey.Survey
	metrics  *metrics.Metrics
	watch    *gpuwatch.Watch // nil: nobody can tell how busy GPUs are
	gossip   *member.Gossip  // nil when embedded or switched off
	front    *port.Port      // nil when embedded
	refusals port.Refusals
	looks    singleflight.Group // at what ranks do
	traces   chan struct{}      // holds one while ranks' stacks are looked at

	ending context.Context         // ends when the agent is to end; the cause is an *end
	stop   context.CancelCauseFunc // the first cause counts
	asked  sync.WaitGroup          // goroutines of questions
}

// end is why an agent ends.
type end struct {
	why  string
	code int // of its exit
}

// Error is the reason.
func (e *end) Error() string { return e.why }

// New builds an agent; nothing runs until Run.
func New(cfg Config) (*Agent, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	a := &Agent{cfg: cfg, clock: wire.NewClock(0), traces: make(chan struct{}, 1)}
	a.ending, a.stop = context.WithCancelCause(context.Background())
	a.host = host.New(host.Config{Env: cfg.Env, GPUHelper: cfg.GPUHelper, Run: a.runForOutput, RunDir: cfg.RunDir, Log: cfg.Log})
	a.super = reap.New(reap.Config{Log: cfg.Log, Subreaper: true, GuardExe: cfg.Executable, SessionDirs: a.host.RunDir()})
	a.watch = a.watchGPUs()
	libs := mpilib.NewMemory(os.DirFS("/"))
	a.survey = survey.New(survey.Config{Hello: a.Hello, Host: a.host, Libs: libs, Inventory: cfg.Inventory, Slots: cfg.Slots,
		Env: outfit.Environment(cfg.Env, nil, nil, nil), Dir: cfg.Dir, Address: a.address, Ending: a.ending.Done()})
	a.metrics = metrics.New(metrics.Config{Address: cfg.HTTP, Log: cfg.Log, Ending: func() bool { return a.ending.Err() != nil },
		Sessions: func() int { return a.sessions.Count() }, Peers: a.peersIn, Ranks: a.ranksByState, Version: cfg.Version})
	a.sessions = session.New(session.Config{Version: cfg.Version, Log: cfg.Log, Clock: a.clock, Policy: cfg.Policy, Grace: cfg.Grace,
		Stdout: cfg.Stdout, Stderr: cfg.Stderr, Ending: a.ending, Hello: a.Hello, Settle: func(from net.Addr) { a.front.Settle(from) }, Unread: a.unread,
		Gossip: func() *member.Gossip { return a.gossip }, Hasten: cfg.Hasten, Rest: cfg.Rest, IdleExit: cfg.IdleExit,
		Config: ranks.Config{Name: cfg.Name, Env: cfg.Env, Dir: cfg.Dir, Embedded: cfg.Embedded, Inventory: cfg.Inventory, GPUs: cfg.GPUs,
			Host: a.host, Super: a.super, Libs: libs, Metrics: a.metrics, Watch: a.watch}})
	return a, nil
}

// Run serves until ctx ends (a signal, in the agent's own process) or a launcher shuts the agent down, then
// ends all sessions and returns when nothing is left. The exit code is 0 for an idle agent and
// after Shutdown, 143 (128+SIGTERM) when processes of a job were running.
func (a *Agent) Run(ctx context.Context) (code int, err error) {
	superCtx, endSuper := context.WithCancel(context.Background())
	superErr := make(chan error, 1)
	go func() { superErr <- a.super.Run(superCtx) }()

	clockCtx, endClock := context.WithCancel(context.Background())
	var clock sync.WaitGroup
	clock.Go(func() {
		a.clock.Run(clockCtx, func() {
			if a.sessions.Tick() {
				a.stop(&end{why: fmt.Sprintf("no session for %v (--idle-exit)", a.cfg.IdleExit)})
			}
		})
	})

	if a.cfg.Embedded {
		clock.Go(func() { a.host.XML() }) // is known when the first job comes; who needs it asks again and gets the error
		a.awaitEnd(ctx)
	} else if err = a.serve(ctx); err != nil {
		a.stop(&end{why: "it cannot serve: " + err.Error()}) // Run's error counts
	}
	if a.front != nil {
		a.front.Close()
	}
	a.sessions.WaitStreams()
	a.asked.Wait()
	endSuper()
	err = errors.Join(err, <-superErr)
	endClock()
	clock.Wait()
	return a.end().code, err
}

const sigtermCode = 128 + 15

// awaitEnd returns when the agent is to end, because ctx does or a launcher or the clock said so, and its sessions have.
func (a *Agent) awaitEnd(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-a.ending.Done():
	}
	e := &end{why: "the agent was told to end (SIGTERM)"}
	if a.sessions.Busy() {
		e.code = sigtermCode
	}
	a.stop(e)
	a.cfg.Log.Info("agent ends", "why", a.end().why, "code", a.end().code)
	a.sessions.Wait()
}

// end is why the agent ends, the first reason of all.
func (a *Agent) end() *end { return context.Cause(a.ending).(*end) }

// Attach serves one stream of a session of this process, whose launcher's name is host. It blocks until the stream breaks
// or the session is over.
func (a *Agent) Attach(ctx context.Context, stream wire.Stream, host string) error {
	return a.sessions.Attach(ctx, stream, session.Caller{Name: host})
}

// Survey is the agent's part in a launcher's look at the hosts.
func (a *Agent) Survey() *survey.Survey { return a.survey }

// address is where peers reach this agent, or would.
func (a *Agent) address() netip.Addr {
	if a.front != nil {
		return a.front.Advertised.Addr()
	}
	return port.Advertise(netip.AddrPortFrom(netip.IPv4Unspecified(), 0)).Addr()
}

// Hello is what the agent says of itself.
func (a *Agent) Hello() *apiv1.HelloReply {
	r := &apiv1.HelloReply{
		Protocol:    apiv1.Protocol,
		Version:     a.cfg.Version,
		Name:        a.cfg.Name,
		Incarnation: a.cfg.Incarnation,
		Slots:       int32(a.cfg.Slots),
		Cpus:        int32(a.cfg.Inventory.CPUs),
		Gpus:        int32(a.cfg.Inventory.GPUs),
		GpuUnits:    gpuUnits(a.cfg.GPUs),
		Node:        a.cfg.Node,
		Arch:        a.cfg.Inventory.Arch,
		Digest:      a.cfg.Inventory.Digest(),
		ClockNs:     time.Now().UnixNano(),
		Sessions:    int32(a.sessions.Count()),
	}
	if a.cfg.Identity != nil {
		r.Scope = a.cfg.Identity.Scope()
	}
	if a.front != nil {
		r.Address = a.front.Advertised.String()
	}
	return r
}

// gpuUnits is what launchers are told of the GPUs that ranks here can be given.
func gpuUnits(inv gpu.Inventory) (units []*apiv1.GpuUnit) {
	for _, u := range inv.Units() {
		m := &apiv1.GpuUnit{Vendor: string(inv.Vendor), Uuid: u.Name(), Model: u.GPU.Model, NearCpus: u.GPU.Near.String()}
		if u.GPU.Located() {
			m.Pci = u.GPU.At.String()
		}
		units = append(units, m)
	}
	return units
}

// runForOutput runs a program as one of this agent's processes.
func (a *Agent) runForOutput(ctx context.Context, c gpu.Command) (gpu.Result, error) {
	o, err := reap.Collect(ctx, a.super, reap.Command{Argv: c.Argv, Env: a.cfg.Env}, c.Limit)
	code := o.Exit.Code
	if o.Exit.Signal != 0 {
		code = 128 + o.Exit.Signal
	}
	return gpu.Result{Out: o.Out, Err: o.Err, Code: code}, err
}
