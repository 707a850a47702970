package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/mpiup/mpiup/agent/gpuwatch"
	"github.com/mpiup/mpiup/agent/member"
	"github.com/mpiup/mpiup/agent/policy"
	"github.com/mpiup/mpiup/agent/port"
	"github.com/mpiup/mpiup/agent/reap"
	"github.com/mpiup/mpiup/gpu"
	"github.com/mpiup/mpiup/internal/api/codec"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/identity"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
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
	parts.Go(func() { // the first launcher does not wait for what can be made before
		a.cfg.Identity.Prepare()
		codec.Prepare()
	})
	a.watch = a.watchGPUs()
	calls := &service{agent: a}
	sessions, questions := calls.sessionServer(), calls.questionServer()
	parts.Go(func() { sessions.Serve(a.front.Sessions) })
	parts.Go(func() { questions.Serve(a.front.Questions) })
	parts.Go(func() { a.front.Run() })
	stopHTTP := a.metrics.Serve(&parts, a.watch)
	if a.watch != nil {
		parts.Go(func() { a.watch.Run(ctx) })
	}
	remove := a.host.Announce(a.cfg.Incarnation, bound)
	a.cfg.Log.Info("agent is ready", "host", a.cfg.Name, "address", a.front.Advertised.String(),
		"slots", a.cfg.Slots, "scope", a.cfg.Identity.Scope(), "incarnation", short(a.cfg.Incarnation))
	if a.cfg.Policy != nil {
		a.cfg.Log.Info("policy", "allows", a.cfg.Policy.String())
	}
	if a.cfg.Ready != nil {
		a.cfg.Ready()
	}

	select {
	case <-ctx.Done():
	case <-a.stopping:
	}
	a.stop("the agent was told to end (SIGTERM)", a.termCode())
	a.running.Wait() // sessions tell their launchers over the port
	stopHTTP()
	remove()
	cancel()
	finish(sessions, questions)
	a.front.Close()
	return nil
}

// watchGPUs is the watch of a host with NVIDIA GPUs, nil where there are none, no helper, no HTTP port, or where it was
// switched off.
func (a *Agent) watchGPUs() *gpuwatch.Watch {
	if a.cfg.GPUMetrics <= 0 || a.cfg.GPUHelper == "" || a.cfg.HTTP == "off" || a.cfg.GPUs.Vendor != gpu.NVIDIA || len(a.cfg.GPUs.GPUs) == 0 {
		return nil
	}
	return gpuwatch.New(gpuwatch.Config{Helper: a.cfg.GPUHelper, Interval: a.cfg.GPUMetrics, Log: a.cfg.Log,
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
			late := time.AfterFunc(answerBound, s.Stop)
			defer late.Stop()
			s.GracefulStop()
		})
	}
	all.Wait()
}

// service is the gRPC face of an Agent, behind the gates of calls.go: it turns errors to codes.
type service struct {
	apiv1.UnimplementedAgentServer
	agent *Agent
}

// launcherName is the identity of a launcher: its certificate's name. An agent that may start things by
// the policy is none of a launcher's lives, whatever its certificate calls it; no name holds a blank.
func launcherName(who identity.Peer) string {
	if identity.Require(who, identity.RoleLauncher) != nil {
		return string(who.Role) + " " + who.Name
	}
	return who.Name
}

func (s *service) Attach(stream grpc.BidiStreamingServer[apiv1.Frame, apiv1.Frame]) error {
	err := s.agent.Attach(stream.Context(), stream, launcherName(caller(stream.Context())))
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errBadFrame):
		return status.Error(codes.InvalidArgument, err.Error())
	}
	return status.Error(codes.Aborted, err.Error())
}

func (s *service) Hello(ctx context.Context, r *apiv1.HelloRequest) (*apiv1.HelloReply, error) {
	return s.agent.helloWithUses(), nil
}

func (s *service) Peers(ctx context.Context, _ *apiv1.PeersRequest) (*apiv1.PeersReply, error) {
	reply := &apiv1.PeersReply{Self: s.agent.helloWithUses()}
	if g := s.agent.gossip; g != nil {
		for _, m := range g.View().Members {
			reply.Peers = append(reply.Peers, &apiv1.Peer{Name: m.Name, Address: m.Addr.String(),
				Incarnation: m.Incarnation, State: m.State.String(), Slots: int32(m.Slots), Version: m.Version,
				Protocol: m.Protocol, Digest: m.Digest})
		}
	}
	return reply, nil
}

func (s *service) Shutdown(ctx context.Context, r *apiv1.ShutdownRequest) (*apiv1.ShutdownReply, error) {
	who := caller(ctx)
	if r.Rest {
		s.agent.cfg.Log.Info("what commands left behind ends", "by", who.Name, "why", r.Why)
		s.agent.endKept(launcherName(who), func(string) bool { return true })
		return &apiv1.ShutdownReply{}, nil
	}
	s.agent.cfg.Log.Info("shutdown", "by", who.Name, "why", r.Why)
	s.agent.stop("shut down by "+who.Name, 0)
	return &apiv1.ShutdownReply{}, nil
}

func (s *service) Ranks(ctx context.Context, _ *apiv1.RanksRequest) (*apiv1.RanksReply, error) {
	if err := s.agent.cfg.Policy.Check(policy.Look, caller(ctx)); err != nil {
		return nil, status.Error(codes.PermissionDenied, err.Error())
	}
	return s.agent.ranks(ctx)
}

func (s *service) Stacks(ctx context.Context, r *apiv1.StacksRequest) (*apiv1.StacksReply, error) {
	kinds := []policy.Kind{policy.Look}
	if r.Signal != 0 {
		kinds = append(kinds, policy.Run) // whose ranks it reaches
	}
	for _, k := range kinds {
		if err := s.agent.cfg.Policy.Check(k, caller(ctx)); err != nil {
			return nil, status.Error(codes.PermissionDenied, err.Error())
		}
	}
	reply, err := s.agent.stacks(ctx, r)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	return reply, nil
}

// refusedHandshake says why a caller was not let in.
func (a *Agent) refusedHandshake(addr net.Addr, err error) {
	a.metrics.Refusals.Inc()
	if a.refusals.Worth(addr, err.Error(), time.Now()) {
		a.cfg.Log.Warn("refused a connection", "from", addr.String(), "cause", err)
	}
}

func (a *Agent) startGossip(ctx context.Context, parts *sync.WaitGroup) error {
	g, err := member.New(member.Config{
		Self: member.Self{Name: a.cfg.Name, Incarnation: a.cfg.Incarnation, Version: a.cfg.Version,
			Protocol: apiv1.Protocol, Addr: a.front.Advertised, Slots: a.cfg.Slots, Digest: a.cfg.Inventory.Digest()},
		Log:   a.cfg.Log,
		Dial:  a.dialGossip,
		Seeds: a.findSeeds, Verify: a.signed,
	})
	if err != nil {
		return fmt.Errorf("agent on %s: gossip: %w", a.cfg.Name, err)
	}
	a.gossip = g
	a.front.Gossip = func(c *identity.Conn) {
		if err := identity.Require(c.Peer(), identity.RoleAgent); err != nil {
			c.Close()
			a.refusedHandshake(c.RemoteAddr(), err)
			return
		}
		g.Handle(c)
	}
	parts.Go(func() {
		if err := g.Run(ctx); err != nil {
			a.cfg.Log.Error("gossip ended", "cause", err)
		}
	})
	return nil
}

const gossipDialTimeout = 3 * time.Second

// dialGossip connects to a peer and proves both sides.
func (a *Agent) dialGossip(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, gossipDialTimeout)
	defer cancel()
	d := net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 60 * time.Second}}
	c, err := d.DialContext(ctx, "tcp", addr.String())
	if err != nil {
		return nil, err
	}
	t, err := a.cfg.Identity.Connect(ctx, c, a.cfg.Identity.ClientConfig(port.Gossip))
	if err != nil {
		return nil, err
	}
	if p := t.ConnectionState().NegotiatedProtocol; p != port.Gossip {
		t.Close()
		return nil, fmt.Errorf("%s does not gossip (protocol %q)", addr, p)
	}
	return t, nil
}

// settle is for the connection of a call; the embedded agent has none.
func (a *Agent) settle(ctx context.Context) {
	if p, ok := peer.FromContext(ctx); ok && a.front != nil {
		a.front.Settle(p.Addr)
	}
}

// unread is false for the embedded agent, whose pipe is read as soon as it is written.
func (a *Agent) unread(redial bool) bool { return a.front != nil && a.front.Unread(redial) }
