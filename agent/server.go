package agent

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/mpiup/mpiup/agent/metrics"
	"github.com/mpiup/mpiup/agent/port"
	"github.com/mpiup/mpiup/agent/reap"
	"github.com/mpiup/mpiup/gpu"
	"github.com/mpiup/mpiup/internal/api/codec"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/awake"
	"github.com/mpiup/mpiup/internal/identity"
	"google.golang.org/grpc"
)

// serve listens, answers launchers and gossips until the agent is to end.
func (a *Agent) serve(ctx context.Context) error {
	ports := a.cfg.Identity.Ports()
	if a.cfg.Port != 0 {
		ports = []int{a.cfg.Port}
	}
	l, err := port.Listen(ctx, a.cfg.Listen, ports)
	if err != nil {
		return fmt.Errorf("agent on %s: %w", a.cfg.Name, err)
	}
	bound := l.Addr().(*net.TCPAddr).AddrPort()
	serverTLS := a.cfg.Identity.ServerConfig(apiv1.AskProtocol, port.Sessions, port.Gossip)
	a.front = port.New(port.Config{Listener: l, Advertised: port.Advertise(bound), Asking: apiv1.AskProtocol,
		Accept: func(ctx context.Context, c net.Conn) (*identity.Conn, error) {
			return a.cfg.Identity.Accept(ctx, c, serverTLS)
		},
		Refused: a.refusedHandshake, Now: a.clock.Now})

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var parts sync.WaitGroup
	defer parts.Wait()
	if a.cfg.Gossip {
		if err := a.startGossip(ctx, &parts); err != nil {
			a.front.Close()
			return err
		}
	}
	if a.cfg.Await.For > 0 {
		parts.Go(func() { a.await(ctx) })
	}
	parts.Go(a.host.RemoveSegments)
	parts.Go(func() { // the first launcher does not wait for what can be made before
		a.cfg.Identity.Prepare()
		codec.Prepare()
	})
	calls := &service{agent: a}
	sessions, questions := calls.sessionServer(), calls.questionServer()
	parts.Go(func() { sessions.Serve(a.front.Sessions) })
	parts.Go(func() { questions.Serve(a.front.Questions) })
	parts.Go(func() { a.front.Run() })
	if a.cfg.Port == 0 && int(bound.Port()) != identity.DefaultPort {
		parts.Go(func() { a.followKey(ctx, int(bound.Port())) })
	}
	shown := a.watch
	if a.cfg.GPUMetrics <= 0 {
		shown = nil
	}
	stopHTTP := a.metrics.Serve(shown)
	if a.watch != nil {
		parts.Go(func() { a.watch.Run(ctx) })
	}
	remove := a.host.Announce(a.cfg.Incarnation, bound)
	a.cfg.Log.Info("agent is ready", "host", a.cfg.Name, "address", a.front.Advertised.String(),
		"slots", a.cfg.Slots, "scope", a.cfg.Identity.Scope(), "incarnation", fmt.Sprintf("%.8s", a.cfg.Incarnation))
	if a.cfg.Policy != nil {
		a.cfg.Log.Info("policy", "allows", a.cfg.Policy.String())
	}
	if a.cfg.Ready != nil {
		a.cfg.Ready()
	}

	a.awaitEnd(ctx) // sessions tell their launchers over the port
	stopHTTP()
	remove()
	cancel()
	finish(sessions, questions)
	a.front.Close()
	return nil
}

// keyLook is how often the ports are looked at that follow from the job's key.
const keyLook = 2 * time.Second

// followKey keeps an agent that found the default port taken where launchers look for it: their ports follow from the job's key,
// and those that come after a change have the new one alone.
func (a *Agent) followKey(ctx context.Context, bound int) {
	t := time.NewTicker(keyLook)
	defer t.Stop()
	tried := a.cfg.Identity.PortsToday()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		ports := a.cfg.Identity.PortsToday()
		if slices.Equal(ports, tried) || slices.Contains(ports, bound) {
			continue
		}
		tried = ports
		l, err := port.Listen(ctx, a.cfg.Listen, ports)
		if err != nil {
			a.cfg.Log.Warn("launchers with the job's new key do not find this agent", "cause", err)
			continue
		}
		a.front.Also(l)
		a.cfg.Log.Info("the agent listens on a port of the job's new key, too", "port", l.Addr().(*net.TCPAddr).Port)
	}
}

// gpuInterval is between two reports of GPUs' use where nobody says otherwise: mpiup ps and a stall's judge need them no
// sooner.
const gpuInterval = 15 * time.Second

// watchGPUs is the watch of a host with NVIDIA GPUs, for whoever asks what ranks do and for /metrics where that shows GPUs; nil
// without GPUs or helper.
func (a *Agent) watchGPUs() *metrics.Watch {
	if a.cfg.Helpers.GPU == "" || a.cfg.GPUs.Vendor != gpu.NVIDIA || len(a.cfg.GPUs.GPUs) == 0 {
		return nil
	}
	return metrics.NewWatch(metrics.WatchConfig{Helper: a.cfg.Helpers.GPU, Interval: cmp.Or(a.cfg.GPUMetrics, gpuInterval), Log: a.cfg.Log,
		Run: func(ctx context.Context, argv []string, limit int, line func([]byte) error) error {
			_, err := reap.Lines(ctx, a.super, reap.Command{Argv: argv, Env: a.cfg.Env}, limit, line)
			return err
		}})
}

// answerBound is what callers get to take their last answers, that of Shutdown among them.
const answerBound = time.Second

// finish ends the servers once the calls under way are answered.
func finish(servers ...*grpc.Server) {
	var all sync.WaitGroup
	for _, s := range servers {
		all.Go(func() {
			defer awake.After(answerBound, s.Stop)()
			s.GracefulStop()
		})
	}
	all.Wait()
}

// refusedHandshake says why a caller was not let in.
func (a *Agent) refusedHandshake(addr net.Addr, err error) {
	a.metrics.Refusals.Inc()
	worth, left := a.refusals.Worth(addr, err.Error(), time.Now())
	switch {
	case left > 0:
		a.cfg.Log.Warn("refused a connection", "from", addr.String(), "cause", err, "left_out", left)
	case worth:
		a.cfg.Log.Warn("refused a connection", "from", addr.String(), "cause", err)
	}
}

// unread is false for the embedded agent, whose pipe is read as soon as it is written.
func (a *Agent) unread(redial bool) bool { return a.front != nil && a.front.Unread(redial) }
