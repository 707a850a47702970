package main

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/mpiup/mpiup/agent"
	"github.com/mpiup/mpiup/agent/policy"
	agentsurvey "github.com/mpiup/mpiup/agent/ways"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/identity"
	"github.com/mpiup/mpiup/internal/wire"
	"github.com/mpiup/mpiup/launcher/survey"
)

// embedded is the agent a launcher is itself when there are no hosts. It is made when it is
// first needed: a launcher of remote ranks has none.
type embedded struct {
	process *process
	log     *slog.Logger
	cfg     *agent.Config // of an agent that serves others too; nil: it is this process's alone

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

// here is that agent for a survey of hosts.
type here struct{ *embedded }

func (h here) Hello(context.Context) (*apiv1.HelloReply, error) {
	if h.once.Do(h.start); h.err != nil {
		return nil, h.err
	}
	return h.agent.Hello(), nil
}

func (h here) Checkup(ctx context.Context, r *apiv1.CheckupRequest) (*apiv1.CheckupReply, error) {
	if h.once.Do(h.start); h.err != nil {
		return nil, h.err
	}
	reply, err := h.agent.Survey().Checkup(ctx, r)
	if errors.As(err, new(*agentsurvey.CommandLineError)) {
		err = &survey.UsageError{Text: err.Error()}
	}
	return reply, err
}

func (h here) Ask(ctx context.Context, r *apiv1.AskRequest) (*apiv1.AskReply, error) {
	if h.once.Do(h.start); h.err != nil {
		return nil, h.err
	}
	return h.agent.Survey().Ask(ctx, r)
}

func (h here) Answer(ctx context.Context, r *apiv1.AnswerRequest) (addresses []string, done func() error, err error) {
	if h.once.Do(h.start); h.err != nil {
		return nil, nil, h.err
	}
	ctx, cancel := context.WithCancel(ctx)
	opened, ended := make(chan []string, 1), make(chan error, 1)
	go func() {
		ended <- h.agent.Survey().Answer(ctx, r, func(a *apiv1.AnswerReply) error { opened <- a.Addresses; return nil })
	}()
	select {
	case addresses := <-opened:
		return addresses, func() error { cancel(); return <-ended }, nil
	case err := <-ended:
		cancel()
		return nil, nil, err
	}
}

func (e *embedded) start() {
	cfg := e.cfg
	if cfg == nil {
		cfg = e.alone()
	}
	e.agent, e.err = agent.New(*cfg)
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

// alone is an agent without a port.
func (e *embedded) alone() *agent.Config {
	inv, gpus := inventory(e.process, e.log)
	dir, allowed := e.looked()
	return &agent.Config{
		Name: e.process.host, Node: nodeName(e.process.getenv, e.log), Version: version, Incarnation: identity.IncarnationOf("/", e.process.host),
		Inventory: inv, GPUs: gpus, Helpers: helpers(), Env: e.process.env, Dir: dirOrRoot(), Executable: guardExe(), Log: e.log,
		Inside: &agent.Inside{Look: dir, Said: func() []byte { return e.process.sink.Load().Said() }}, Policy: allowed,
	}
}

// looked is where this agent's user may look at what runs, and by which policy. One that cannot be read lets nobody.
func (e *embedded) looked() (dir string, allowed *policy.Policy) {
	if file, given := e.process.lookup("MPIUP_POLICY"); given {
		var err error
		if allowed, err = readPolicy(file); err != nil {
			e.log.Warn("nobody may look at this run", "cause", err)
			return "", nil
		}
	}
	return nearbyDir(e.process.getenv), allowed
}

// end waits until the agent, if there is one, has left nothing behind.
func (e *embedded) end() {
	if e.stop != nil {
		e.stop()
		<-e.ended
	}
}
