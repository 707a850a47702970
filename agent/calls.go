package agent

import (
	"context"
	"math"

	"github.com/mpiup/mpiup/agent/port"
	"github.com/mpiup/mpiup/agent/session"
	"github.com/mpiup/mpiup/internal/api/codec"
	"github.com/mpiup/mpiup/internal/api/rpc"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/identity"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
)

// Bounds of callers, the holder of any worker's certificate among them. gRPC has one bound of messages per server and
// takes in a message before it calls a handler: so sessions, whose frames may be large, have a server and a protocol
// (ALPN) of their own, and who may call what is decided by the head of a call.
const (
	maxHeaders   = 16 << 10
	maxQuestion  = 1 << 20 // bytes: Checkup brings a command line, Ask some thousand hosts
	maxQuestions = 4       // of one connection at a time
)

// grpcServer is for calls that gate lets through.
func (s *service) grpcServer(gate tap.ServerInHandle, options ...grpc.ServerOption) *grpc.Server {
	g := grpc.NewServer(append(options,
		grpc.InTapHandle(gate), grpc.MaxHeaderListSize(maxHeaders), grpc.ConnectionTimeout(port.HandshakeDeadline),
		grpc.Creds(identity.Transport()),
		grpc.ReadBufferSize(4<<10), grpc.WriteBufferSize(64<<10),
		grpc.ForceServerCodecV2(codec.Codec{}), experimental.BufferPool(&codec.Pool{}))...)
	rpc.RegisterAgentServer(g, s)
	return g
}

// sessionServer takes Attach and nothing else.
func (s *service) sessionServer() *grpc.Server {
	return s.grpcServer(func(ctx context.Context, call *tap.Info) (context.Context, error) {
		if call.FullMethodName != rpc.Agent_Attach_FullMethodName {
			return ctx, status.Errorf(codes.Unimplemented, "%s is asked over the protocol %s", call.FullMethodName, apiv1.AskProtocol)
		}
		return ctx, require(ctx, s.agent.cfg.Policy.Callers()...)
	},
		grpc.MaxRecvMsgSize(apiv1.MaxFrame), grpc.MaxSendMsgSize(apiv1.MaxFrame), grpc.MaxConcurrentStreams(session.MaxSessions),
		grpc.InitialWindowSize(4<<20), grpc.InitialConnWindowSize(8<<20))
}

// questionServer takes all calls but Attach.
func (s *service) questionServer() *grpc.Server {
	member := []identity.Role{identity.RoleLauncher, identity.RoleAgent}
	roles := map[string][]identity.Role{
		rpc.Agent_Hello_FullMethodName:    member,
		rpc.Agent_Peers_FullMethodName:    member,
		rpc.Agent_Shutdown_FullMethodName: member[:1],
		rpc.Agent_Checkup_FullMethodName:  member[:1],
		rpc.Agent_Answer_FullMethodName:   member[:1],
		rpc.Agent_Ask_FullMethodName:      member[:1],
		rpc.Agent_Ranks_FullMethodName:    member[:1],
	}
	return s.grpcServer(func(ctx context.Context, call *tap.Info) (context.Context, error) {
		allowed := roles[call.FullMethodName]
		if allowed == nil {
			return ctx, status.Errorf(codes.Unimplemented, "%s is no question", call.FullMethodName)
		}
		return ctx, require(ctx, allowed...)
	},
		grpc.MaxRecvMsgSize(maxQuestion), grpc.MaxSendMsgSize(math.MaxInt32), grpc.MaxConcurrentStreams(maxQuestions),
		grpc.InitialWindowSize(64<<10), grpc.InitialConnWindowSize(64<<10))
}

// require fails unless the connection's certificate says one of the roles.
func require(ctx context.Context, roles ...identity.Role) error {
	who, ok := identity.PeerFromContext(ctx)
	if !ok {
		return status.Error(codes.Unauthenticated, "no certificate")
	}
	if err := identity.Require(who, roles...); err != nil {
		return status.Error(codes.PermissionDenied, err.Error())
	}
	return nil
}
