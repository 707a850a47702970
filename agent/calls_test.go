package agent

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/mpiup/mpiup/agent/port"
	"github.com/mpiup/mpiup/internal/api/rpc"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/identity"
	"github.com/mpiup/mpiup/pmi/kvs"
	"github.com/mpiup/mpiup/test/cost"
	"github.com/mpiup/mpiup/topology/discover"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
)

// heavy encodes every message as n bytes that are no message, without holding as many.
type heavy struct{ n int }

func (heavy) Name() string { return "proto" }

func (h heavy) Marshal(any) (out mem.BufferSlice, err error) {
	page := make([]byte, 64<<10)
	for range h.n / len(page) {
		out = append(out, mem.SliceBuffer(page))
	}
	return out, nil
}

func (heavy) Unmarshal(mem.BufferSlice, any) error { return nil }

// certified is an identity of the job that all tests here are of.
func certified(t *testing.T, role identity.Role) *identity.Identity {
	t.Helper()
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte("a key of at least thirty-two bytes, for tests only\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	id, err := identity.Load(identity.Options{KeyFile: file, Scope: "cost", Role: role, Name: "w0",
		Env: func(string) string { return "" }, Root: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// listeningAgent is an agent with a port on loopback, and that port's address.
func listeningAgent(t *testing.T) string {
	t.Helper()
	a, _ := listening(t)
	return a.front.Sessions.Addr().String()
}

func listening(t *testing.T) (*Agent, *running) {
	t.Helper()
	ready := make(chan struct{})
	a, err := New(Config{Name: "w0", Version: "test", Incarnation: "agent-life", Identity: certified(t, identity.RoleAgent),
		Listen: "127.0.0.1", Inventory: discover.Inventory{CPUs: 2}, Dir: "/", Log: slog.New(slog.DiscardHandler),
		Ready: func() { close(ready) }})
	if err != nil {
		t.Fatal(err)
	}
	r := run(t, a)
	<-ready
	return a, r
}

func clientAt(t *testing.T, addr string, role identity.Role, options ...grpc.DialOption) rpc.AgentClient {
	t.Helper()
	return rpc.NewAgentClient(connectionTo(t, addr, role, options...))
}

func connectionTo(t *testing.T, addr string, role identity.Role, options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	id := certified(t, role)
	protocols := []string{apiv1.AskProtocol, port.Sessions}
	cc, err := grpc.NewClient("passthrough:///"+addr, append(options, grpc.WithTransportCredentials(identity.Transport()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			raw, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
			if err != nil {
				return nil, err
			}
			return id.Connect(ctx, raw, id.ClientConfig(protocols...))
		}))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cc.Close() })
	return cc
}

// TestLargeCalls: what a caller may not say, or not at that length, costs no memory. Whoever has a worker's certificate
// can call, and 2 GB were had of an agent by four calls.
func TestLargeCalls(t *testing.T) {
	const size = 64 << 20
	addr := listeningAgent(t)
	for _, tt := range []struct {
		name string
		role identity.Role
		call func(context.Context, rpc.AgentClient) error
		want codes.Code
	}{
		{"a worker ends the agent", identity.RoleAgent, func(ctx context.Context, c rpc.AgentClient) error {
			_, err := c.Shutdown(ctx, &apiv1.ShutdownRequest{})
			return err
		}, codes.PermissionDenied},
		{"a worker looks at the host", identity.RoleAgent, func(ctx context.Context, c rpc.AgentClient) error {
			_, err := c.Checkup(ctx, &apiv1.CheckupRequest{})
			return err
		}, codes.PermissionDenied},
		{"a worker looks at ranks", identity.RoleAgent, func(ctx context.Context, c rpc.AgentClient) error {
			_, err := c.Ranks(ctx, &apiv1.RanksRequest{})
			return err
		}, codes.PermissionDenied},
		{"a worker looks at stacks", identity.RoleAgent, func(ctx context.Context, c rpc.AgentClient) error {
			_, err := c.Ranks(ctx, &apiv1.RanksRequest{Stacks: &apiv1.StacksWish{}})
			return err
		}, codes.PermissionDenied},
		{"a worker says hello", identity.RoleAgent, func(ctx context.Context, c rpc.AgentClient) error {
			_, err := c.Hello(ctx, &apiv1.HelloRequest{})
			return err
		}, codes.ResourceExhausted},
		{"a launcher ends the agent", identity.RoleLauncher, func(ctx context.Context, c rpc.AgentClient) error {
			_, err := c.Shutdown(ctx, &apiv1.ShutdownRequest{})
			return err
		}, codes.ResourceExhausted},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), testBound)
			defer cancel()
			c := clientAt(t, addr, tt.role, grpc.WithDefaultCallOptions(grpc.ForceCodecV2(heavy{size}), grpc.MaxCallSendMsgSize(2*size)))
			cost.AtMost(t, cost.Bound{Fixed: 8 << 20}, 0, func() {
				if err := tt.call(ctx, c); status.Code(err) != tt.want {
					t.Errorf("%v, want %v", err, tt.want)
				}
			})
		})
	}
}

// TestGates: a stream that may carry much carries nothing else, and its caller's role comes first.
func TestGates(t *testing.T) {
	addr := listeningAgent(t)
	ctx, cancel := context.WithTimeout(t.Context(), testBound)
	defer cancel()
	asker := clientAt(t, addr, identity.RoleLauncher)
	if _, err := asker.Hello(ctx, &apiv1.HelloRequest{}); err != nil {
		t.Error(err)
	}
	s, err := asker.Attach(ctx)
	if err == nil {
		_, err = s.Recv()
	}
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("a session among questions: %v", err)
	}
}

// TestShutdownWaitsForItsCaller: who has told an agent to end may be in a container that ends with the job, and has others to tell. One that
// stays is not waited for.
func TestShutdownWaitsForItsCaller(t *testing.T) {
	for _, leaves := range []bool{true, false} {
		t.Run(fmt.Sprintf("leaves %v", leaves), func(t *testing.T) {
			a, r := listening(t)
			cc := connectionTo(t, a.front.Sessions.Addr().String(), identity.RoleLauncher)
			ctx, cancel := context.WithTimeout(t.Context(), testBound)
			defer cancel()
			if _, err := rpc.NewAgentClient(cc).Shutdown(ctx, &apiv1.ShutdownRequest{Why: "test", Code: 7}); err != nil {
				t.Fatal(err)
			}
			if a.ending.Err() != nil {
				t.Error("the agent ends before its caller has")
			}
			if leaves {
				cc.Close()
			}
			begun := time.Now()
			if code := r.ended(); code != 7 {
				t.Errorf("exit code %d, not 7", code)
			}
			if took := time.Since(begun); leaves && took >= farewell {
				t.Errorf("the agent ended %v after its caller", took)
			}
		})
	}
}

// TestAskersAreBounded: one certificate has so many connections for questions, and others go on.
func TestAskersAreBounded(t *testing.T) {
	addr := listeningAgent(t)
	ctx, cancel := context.WithTimeout(t.Context(), testBound)
	defer cancel()
	refused := 0
	for range port.MaxAskers + 4 {
		if _, err := clientAt(t, addr, identity.RoleAgent).Hello(ctx, &apiv1.HelloRequest{}); err != nil {
			refused++
		}
	}
	if refused != 4 {
		t.Errorf("%d of %d connections were refused", refused, port.MaxAskers+4)
	}
	if _, err := clientAt(t, addr, identity.RoleLauncher).Hello(ctx, &apiv1.HelloRequest{}); err != nil {
		t.Errorf("another caller: %v", err)
	}
}

// TestConnectionsOfAgentsAreBounded: a worker's certificate may have no session, and no connections for them without end.
func TestConnectionsOfAgentsAreBounded(t *testing.T) {
	addr := listeningAgent(t)
	ctx, cancel := context.WithTimeout(t.Context(), testBound)
	defer cancel()
	open := func(role identity.Role) error {
		raw, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		id := certified(t, role)
		c, err := id.Connect(ctx, raw, id.ClientConfig(port.Sessions)) // has read what a server says first
		if err == nil {
			t.Cleanup(func() { c.Close() })
		}
		return err
	}
	for n := range port.MaxOfAgents {
		if err := open(identity.RoleAgent); err != nil {
			t.Fatalf("connection %d: %v", n, err)
		}
	}
	if err := open(identity.RoleAgent); err == nil {
		t.Errorf("there are more than %d", port.MaxOfAgents)
	}
	if err := open(identity.RoleLauncher); err != nil {
		t.Errorf("a launcher: %v", err)
	}
}

// TestFencesFitIntoFrames: what an engine lets fences carry is less than a frame does.
func TestFencesFitIntoFrames(t *testing.T) {
	if most := kvs.DefaultLimits().Sending; most > apiv1.MaxFrame-1<<20 {
		t.Errorf("a contribution may have %d bytes, a frame %d", most, apiv1.MaxFrame)
	}
}
