package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/mpiup/mpiup/agent/host"
	"github.com/mpiup/mpiup/agent/member"
	"github.com/mpiup/mpiup/agent/metrics"
	"github.com/mpiup/mpiup/agent/mpilib"
	"github.com/mpiup/mpiup/agent/outfit"
	"github.com/mpiup/mpiup/agent/ranks"
	"github.com/mpiup/mpiup/agent/reap"
	"github.com/mpiup/mpiup/agent/session"
	"github.com/mpiup/mpiup/agent/ways"
	"github.com/mpiup/mpiup/internal/bounded"
	"github.com/mpiup/mpiup/internal/wire"
)

// shortRun is a run without other hosts that needs no guard.
const shortRun = 100 * time.Millisecond

// New builds an agent; nothing runs until Run.
func New(cfg Config) (*Agent, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	a := &Agent{cfg: cfg, clock: wire.NewClock(), traces: make(chan struct{}, 1)}
	a.ending, a.stop = context.WithCancelCause(context.Background())
	a.host = host.New(host.Config{Env: cfg.Env, GPUHelper: cfg.Helpers.GPU, Run: a.runForOutput, RunDir: cfg.RunDir, Log: cfg.Log})
	guardAfter := time.Duration(0)
	if cfg.Inside != nil {
		guardAfter = shortRun
	}
	a.super = reap.New(reap.Config{Log: cfg.Log, Subreaper: true, Urgent: true, GuardExe: cfg.Executable, GuardAfter: guardAfter, SessionDirs: a.host.SessionsDir()})
	a.watch = a.watchGPUs()
	libs := mpilib.NewMemory(bounded.Tree("/"))
	a.survey = ways.New(ways.Config{Hello: a.Hello, Host: a.host, Libs: libs, Inventory: cfg.Inventory, Slots: cfg.Slots,
		Env: outfit.Environment(cfg.Env, nil, nil, nil), Dir: cfg.Dir, Address: a.address, Ending: a.ending.Done(), WatchLibrary: cfg.Helpers.Waits})
	a.metrics = metrics.New(metrics.Config{Address: cfg.HTTP, Unshown: cfg.NoMetrics, Log: cfg.Log, Ending: func() bool { return a.ending.Err() != nil },
		Sessions: func() int { return a.sessions.Count() }, Peers: a.peersIn, Ranks: a.ranksByState, Version: cfg.Version,
		Name: cfg.Name, Host: a.host})
	starts := cfg.Policy
	if cfg.Inside != nil { // its launcher starts what it wants
		starts = nil
	}
	a.sessions = session.New(session.Config{Version: cfg.Version, Log: cfg.Log, Clock: a.clock, Policy: starts, Grace: cfg.Grace,
		Stdout: cfg.Stdout, Stderr: cfg.Stderr, Ending: a.ending, Hello: a.Hello, Settle: func(from net.Addr) { a.front.Settle(from) },
		Left: func(from net.Addr) bool { return a.front.HasLeft(from) }, Unread: a.unread,
		Gossip: func() *member.Gossip { return a.gossip }, Hasten: cfg.Hasten, Rest: cfg.Rest, IdleExit: cfg.IdleExit,
		Config: ranks.Config{Name: cfg.Name, Env: cfg.Env, Dir: cfg.Dir, Embedded: cfg.Inside != nil, Inventory: cfg.Inventory, GPUs: cfg.GPUs,
			Host: a.host, Super: a.super, Libs: libs, Metrics: a.metrics, Watch: a.watch, Stacks: a.stacks(0), WatchLibrary: cfg.Helpers.Waits}})
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

	if a.cfg.Inside != nil {
		clock.Go(func() { a.host.XML() }) // is known when the first job comes; who needs it asks again and gets the error
		near, away := context.WithCancel(ctx)
		clock.Go(func() { a.showNearby(near) })
		var gpus sync.WaitGroup // their helper is reaped by super
		if a.watch != nil {
			gpus.Go(func() { a.watch.Run(near) })
		}
		a.awaitEnd(ctx)
		away()
		gpus.Wait()
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
