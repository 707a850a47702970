package main

import (
	"context"
	"log/slog"
	"os"
	"sync"

	"github.com/mpiup/mpiup/agent"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/incarnation"
	"github.com/mpiup/mpiup/internal/wire"
)

// embedded is the agent a launcher is itself when there are no hosts. It is made when it is
// first needed: a launcher of remote ranks has none.
type embedded struct {
	process *process
	log     *slog.Logger

	once  sync.Once
	agent *agent.Agent
	err   error
	stop  context.CancelFunc
	ended chan struct{}
}

// attach serves one session.
func (e *embedded) attach(ctx context.Context, s wire.Stream) error {
	e.once.Do(e.start)
	if e.err != nil {
		return e.err
	}
	return e.agent.Attach(ctx, s, e.process.host)
}

// checkup is its look at this host.
func (e *embedded) checkup(ctx context.Context, r *apiv1.CheckupRequest) (*apiv1.CheckupReply, error) {
	e.once.Do(e.start)
	if e.err != nil {
		return nil, e.err
	}
	return e.agent.Checkup(ctx, r)
}

func (e *embedded) start() {
	inv, gpus := e.process.inventory(e.log)
	dir, err := os.Getwd()
	if err != nil {
		dir = "/"
	}
	exe := "/proc/self/exe"
	if os.Getpid() == 1 {
		exe = ""
	}
	e.agent, e.err = agent.New(agent.Config{
		Name: e.process.host, Version: version, Incarnation: incarnation.Of("/", e.process.host),
		Inventory: inv, GPUs: gpus, GPUHelper: helper(), Env: e.process.env, Dir: dir, Executable: exe, Log: e.log, Embedded: true,
	})
	if e.err != nil {
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	e.stop, e.ended = stop, make(chan struct{})
	go func() {
		defer close(e.ended)
		if _, err := e.agent.Run(ctx); err != nil {
			e.log.Warn("embedded agent", "cause", err)
		}
	}()
}

// end waits until the agent, if there is one, has left nothing behind.
func (e *embedded) end() {
	if e.stop != nil {
		e.stop()
		<-e.ended
	}
}
