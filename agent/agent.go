package agent

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/mpiup/mpiup/agent/gpuwatch"
	"github.com/mpiup/mpiup/agent/host"
	"github.com/mpiup/mpiup/agent/lives"
	"github.com/mpiup/mpiup/agent/member"
	"github.com/mpiup/mpiup/agent/metrics"
	"github.com/mpiup/mpiup/agent/mpilib"
	"github.com/mpiup/mpiup/agent/outfit"
	"github.com/mpiup/mpiup/agent/port"
	"github.com/mpiup/mpiup/agent/ports"
	"github.com/mpiup/mpiup/agent/reap"
	"github.com/mpiup/mpiup/agent/survey"
	"github.com/mpiup/mpiup/gpu"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/wire"
	"golang.org/x/sync/singleflight"
)

// Agent is one host's part of all jobs on it.
type Agent struct {
	cfg     Config
	clock   *wire.Clock
	super   *reap.Supervisor
	lives   lives.Book
	kept    kept
	idle    idle
	gossip  *member.Gossip // nil when embedded or switched off
	front   *port.Port     // nil when embedded
	metrics *metrics.Metrics
	host    *host.Host
	libs    *mpilib.Memory
	haste   haste
	lull    lull
	ports   ports.Table        // that ranks will meet at
	watch   *gpuwatch.Watch    // nil: nobody can tell how busy GPUs are; set before anybody asks
	looks   singleflight.Group // at what ranks do
	traces  chan struct{}      // holds one while ranks' stacks are looked at

	refusals port.Refusals
	survey   *survey.Survey

	stopping chan struct{}  // closed when the agent is to end
	running  sync.WaitGroup // sessions
	readers  sync.WaitGroup // goroutines that wait for a stream's first frame

	mu       sync.Mutex
	sessions map[string]*session // by id, guarded by mu
	stopWhy  string              // guarded by mu
	stopCode int                 // exit code of an ended agent, guarded by mu
}

// New builds an agent; nothing runs until Run.
func New(cfg Config) (*Agent, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if cfg.Slots == 0 {
		cfg.Slots = max(cfg.Inventory.GPUs, 0)
	}
	if cfg.Slots == 0 {
		cfg.Slots = max(cfg.Inventory.CPUs, 1)
	}
	a := &Agent{
		cfg:      cfg,
		clock:    wire.NewClock(0),
		stopping: make(chan struct{}),
		sessions: make(map[string]*session),
		traces:   make(chan struct{}, 1),
		idle:     idle{after: cfg.IdleExit},
		libs:     mpilib.NewMemory(os.DirFS("/")),
		haste:    haste{tell: cfg.Hasten},
		lull:     lull{tell: cfg.Rest},
	}
	a.host = host.New(host.Config{Env: cfg.Env, GPUHelper: cfg.GPUHelper, Run: a.runForOutput, RunDir: cfg.RunDir, Log: cfg.Log})
	a.super = reap.New(reap.Config{Log: cfg.Log, Subreaper: true, GuardExe: cfg.Executable, SessionDirs: a.host.RunDir()})
	a.survey = survey.New(survey.Config{Hello: a.hello, Host: a.host, Libs: a.libs, Inventory: cfg.Inventory, Slots: cfg.Slots,
		Env: outfit.Environment(cfg.Env, nil, nil, nil), Dir: cfg.Dir, Address: a.address, Ending: a.stopping})
	a.metrics = metrics.New(metrics.Config{Address: cfg.HTTP, Log: cfg.Log, Ending: a.isStopping, Sessions: a.sessionCount, Peers: a.peersIn,
		Ranks: a.ranksByState, Version: cfg.Version})
	return a, nil
}

// Run serves until ctx ends (a signal, in the agent's own process) or Shutdown is called, then
// ends all sessions and returns when nothing is left. The exit code is 0 for an idle agent and
// after Shutdown, 143 (128+SIGTERM) when processes of a job were running.
func (a *Agent) Run(ctx context.Context) (code int, err error) {
	superCtx, endSuper := context.WithCancel(context.Background())
	superErr := make(chan error, 1)
	go func() { superErr <- a.super.Run(superCtx) }()

	clockCtx, endClock := context.WithCancel(context.Background())
	var clock sync.WaitGroup
	clock.Go(func() { a.clock.Run(clockCtx, a.tick) })

	if !a.cfg.Embedded {
		err = a.serve(ctx)
	} else {
		a.readMachine()
		select {
		case <-ctx.Done():
		case <-a.stopping:
		}
	}
	if err != nil {
		a.stop("it cannot serve: "+err.Error(), 0) // Run's error counts
	}
	a.stop("the agent was told to end (SIGTERM)", a.termCode())
	a.running.Wait()
	if a.front != nil {
		a.front.Close()
	}
	a.readers.Wait()
	endSuper()
	err = errors.Join(err, <-superErr)
	endClock()
	clock.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.stopCode, err
}

func (a *Agent) peersIn(state member.State) (n int) {
	if a.gossip == nil {
		return 0
	}
	for _, p := range a.gossip.View().Members {
		if p.State == state {
			n++
		}
	}
	return n
}

func (a *Agent) sessionCount() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.sessions)
}

const sigtermCode = 128 + 15

func (a *Agent) termCode() int {
	if a.activeSessions() > 0 || a.keptLive() {
		return sigtermCode
	}
	return 0
}

// stop begins the agent's end; the first reason and code count.
func (a *Agent) stop(why string, code int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.isStopping() {
		return
	}
	a.cfg.Log.Info("agent ends", "why", why, "code", code)
	a.stopWhy, a.stopCode = why, code
	close(a.stopping)
}

func (a *Agent) isStopping() bool {
	select {
	case <-a.stopping:
		return true
	default:
		return false
	}
}

// stopText says why the agent ends. It is set before stopping is closed and never after.
func (a *Agent) stopText() string { return a.stopWhy }

// Hello is what the agent says of itself.
func (a *Agent) Hello() *apiv1.HelloReply { return a.hello() }

// Survey is the agent's part in a launcher's look at the hosts.
func (a *Agent) Survey() *survey.Survey { return a.survey }

// address is where peers reach this agent, or would.
func (a *Agent) address() netip.Addr {
	if a.front != nil {
		return a.front.Advertised.Addr()
	}
	return port.Advertise(netip.AddrPortFrom(netip.IPv4Unspecified(), 0)).Addr()
}

// hello is what the agent says of itself.
func (a *Agent) hello() *apiv1.HelloReply {
	r := &apiv1.HelloReply{
		Protocol:    apiv1.Protocol,
		Version:     a.cfg.Version,
		Name:        a.cfg.Name,
		Incarnation: a.cfg.Incarnation,
		Slots:       int32(a.cfg.Slots),
		Cpus:        int32(a.cfg.Inventory.CPUs),
		Gpus:        int32(a.cfg.Inventory.GPUs),
		GpuUnits:    a.gpuUnits(),
		Node:        a.cfg.Node,
		Arch:        a.cfg.Inventory.Arch,
		Digest:      a.cfg.Inventory.Digest(),
		ClockNs:     time.Now().UnixNano(),
		Sessions:    int32(a.sessionCount()),
	}
	if a.cfg.Identity != nil {
		r.Scope = a.cfg.Identity.Scope()
	}
	if a.front != nil {
		r.Address = a.front.Advertised.String()
	}
	return r
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

// readMachine begins to read the machine, so that it is known when the first job comes.
func (a *Agent) readMachine() {
	a.running.Go(func() { a.host.XML() }) // who needs it asks again and gets the error
}
