package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mpiup/mpiup/agent/policy"
	"github.com/mpiup/mpiup/agent/session"
	"github.com/mpiup/mpiup/agent/ways"
	"github.com/mpiup/mpiup/internal/api/codec"
	"github.com/mpiup/mpiup/internal/api/rpc"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/awake"
	"github.com/mpiup/mpiup/internal/identity"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/internal/wire"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// service is the gRPC face of an Agent, behind the gates of calls.go: it turns errors to codes.
type service struct {
	rpc.UnimplementedAgentServer
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
	who, ctx := caller(stream.Context()), stream.Context()
	by := session.Caller{Name: launcherName(who), Peer: &who}
	if p, ok := peer.FromContext(ctx); ok {
		by.From = p.Addr
	}
	err := s.agent.sessions.Attach(ctx, codec.Stream{GRPC: stream}, by)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, session.ErrBadFrame):
		return status.Error(codes.InvalidArgument, err.Error())
	case errors.As(err, new(*codec.Unfit)):
		return status.Error(codes.DataLoss, err.Error())
	case errors.As(err, new(*session.Succeeded)):
		return status.Error(codes.FailedPrecondition, err.Error())
	case errors.Is(err, wire.ErrReplaced):
		return status.Error(codes.AlreadyExists, err.Error())
	}
	return status.Error(codes.Aborted, err.Error())
}

// hello is what the agent says of itself and, to those who may look, of what runs here.
func (s *service) hello(ctx context.Context) *apiv1.HelloReply {
	h := s.agent.Hello()
	if s.agent.cfg.Policy.Check(policy.Look, caller(ctx)) == nil {
		h.Uses = s.agent.sessions.Uses()
	}
	return h
}

func (s *service) Hello(ctx context.Context, _ *apiv1.HelloRequest) (*apiv1.HelloReply, error) {
	return s.hello(ctx), nil
}

func (s *service) Peers(ctx context.Context, _ *apiv1.PeersRequest) (*apiv1.PeersReply, error) {
	reply := &apiv1.PeersReply{Self: s.hello(ctx)}
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
		s.agent.sessions.EndKept(launcherName(who))
		return &apiv1.ShutdownReply{}, nil
	}
	s.agent.cfg.Log.Info("shutdown", "by", who.Name, "why", r.Why)
	e := &end{why: fmt.Sprintf("shut down by %s: %s", who.Name, visible.Line(cmp.Or(r.Why, "without a word"))), told: r.Why, code: int(min(r.Code, maxExit))}
	s.agent.asked.Go(func() { s.agent.stopWithout(ctx, e) }) // ends with the agent
	return &apiv1.ShutdownReply{}, nil
}

// farewell is for how long a caller that has ended this agent may tell others, too.
const farewell = 5 * time.Second

// stopWithout ends the agent when the caller's connection has ended. With the agent's container, or the launcher's, the caller may be killed
// before it has told all hosts and said so.
func (a *Agent) stopWithout(caller context.Context, e *end) {
	within, cancel := awake.Within(a.ending, farewell)
	defer cancel()
	if p, ok := peer.FromContext(caller); ok {
		select {
		case <-a.front.Ended(p.Addr):
		case <-within.Done():
		}
	}
	a.stop(e)
}

func (s *service) Ranks(ctx context.Context, r *apiv1.RanksRequest) (*apiv1.RanksReply, error) {
	kinds := []policy.Kind{policy.Look}
	if r.GetStacks().GetSignal() != 0 {
		kinds = append(kinds, policy.Run) // whose ranks it reaches
	}
	for _, k := range kinds {
		if err := s.agent.cfg.Policy.Check(k, caller(ctx)); err != nil {
			return nil, status.Error(codes.PermissionDenied, err.Error())
		}
	}
	reply, err := s.agent.ranks(ctx, r)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	return reply, nil
}

// mayAsk: who may run ranks here may ask what they would find, and open connections as they could.
func (s *service) mayAsk(ctx context.Context) error {
	if err := s.agent.cfg.Policy.Check(policy.Run, caller(ctx)); err != nil {
		return status.Error(codes.PermissionDenied, err.Error())
	}
	return nil
}

// refusalOf is a look's error as the launcher tells such ones apart.
func refusalOf(err error) error {
	if errors.As(err, new(*ways.CommandLineError)) {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	return status.Error(codes.FailedPrecondition, err.Error())
}

func (s *service) Checkup(ctx context.Context, r *apiv1.CheckupRequest) (*apiv1.CheckupReply, error) {
	if err := s.mayAsk(ctx); err != nil {
		return nil, err
	}
	reply, err := s.agent.survey.Checkup(ctx, r)
	if err != nil {
		return nil, refusalOf(err)
	}
	return reply, nil
}

func (s *service) Answer(stream grpc.BidiStreamingServer[apiv1.AnswerRequest, apiv1.AnswerReply]) error {
	if err := s.mayAsk(stream.Context()); err != nil {
		return err
	}
	r, err := stream.Recv()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	s.agent.asked.Go(func() { // ends with the stream
		_, _ = stream.Recv() // the end of the caller's side, in whichever way
		cancel()
	})
	if err := s.agent.survey.Answer(ctx, r, stream.Send); err != nil {
		return refusalOf(err)
	}
	return nil
}

func (s *service) Ask(ctx context.Context, r *apiv1.AskRequest) (*apiv1.AskReply, error) {
	if err := s.mayAsk(ctx); err != nil {
		return nil, err
	}
	reply, err := s.agent.survey.Ask(ctx, r)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	return reply, nil
}

// caller is whom the gate let in.
func caller(ctx context.Context) identity.Peer {
	who, _ := identity.PeerFromContext(ctx)
	return who
}
