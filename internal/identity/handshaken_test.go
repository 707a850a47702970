package identity

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/mpiup/mpiup/internal/api/rpc"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// handed is a listener of connections whose handshake is done.
type handed struct {
	conns chan net.Conn
	done  chan struct{}
}

func (h handed) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.done:
		return nil, net.ErrClosed
	}
}
func (h handed) Close() error   { close(h.done); return nil }
func (h handed) Addr() net.Addr { return &net.TCPAddr{} }

type helloServer struct{ rpc.UnimplementedAgentServer }

func (helloServer) Hello(ctx context.Context, _ *apiv1.HelloRequest) (*apiv1.HelloReply, error) {
	p, ok := PeerFromContext(ctx)
	if !ok {
		return nil, errors.New("no peer")
	}
	return &apiv1.HelloReply{Name: string(p.Role) + " " + p.Name}, nil
}

// A real gRPC call over connections that Accept and Connect made.
func TestGRPCOverHandshakenConnections(t *testing.T) {
	ours := member{key: "a", scope: "x"}
	agent, launcher := ours.load(t, RoleAgent, "w"), ours.load(t, RoleLauncher, "l")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	h := handed{make(chan net.Conn), make(chan struct{})}
	server := grpc.NewServer(grpc.Creds(Transport()))
	rpc.RegisterAgentServer(server, helloServer{})
	served, accepted := make(chan error, 1), make(chan error, 1)
	go func() { served <- server.Serve(h) }()
	go func() {
		raw, err := l.Accept()
		if err == nil {
			var c net.Conn
			if c, err = agent.Accept(ctx, raw, agent.ServerConfig("h2")); err == nil {
				h.conns <- c
			}
		}
		accepted <- err
	}()
	client, err := grpc.NewClient("passthrough:///w", grpc.WithTransportCredentials(Transport()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			raw, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				return nil, err
			}
			return launcher.Connect(ctx, raw, launcher.ClientConfig("h2"))
		}))
	if err != nil {
		t.Fatal(err)
	}
	reply, err := rpc.NewAgentClient(client).Hello(ctx, &apiv1.HelloRequest{})
	if err != nil || reply.GetName() != "launcher l" {
		t.Errorf("reply %v, %v", reply, err)
	}
	if err := <-accepted; err != nil {
		t.Error(err)
	}
	client.Close()
	server.Stop()
	<-served
	l.Close()
}

func TestHandshakenRefusesPlainConnections(t *testing.T) {
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	if _, _, err := Transport().ServerHandshake(a); err == nil {
		t.Error("a connection without TLS passes")
	}
	if insecure.NewCredentials().Info().SecurityProtocol == Transport().Info().SecurityProtocol {
		t.Error("says it is insecure")
	}
}
