package attack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/mpiup/mpiup/internal/api/rpc"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/identity"
	"github.com/mpiup/mpiup/test/lab"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
)

// The holder of a worker's certificate calls what it may not, with messages of 200 MiB, and says hello at that length. The
// agent refuses all of it by the head of the call, or by the length, and takes none of it in: four calls had made it 2.5 GB.
func TestLargeCallsOfAWorker(t *testing.T) {
	s := newSite(t)
	victim := startAgent(t, nil, "--http", "off", "--tls-dir", s.files("mpiup://g/agent/w"))
	id, err := identity.Load(identity.Options{TLSDir: s.files("mpiup://g/agent/x"), Role: identity.RoleAgent, Name: "x", Root: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	before := peak(t, victim)
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	var all sync.WaitGroup
	for _, protocol := range []string{"h2", apiv1.AskProtocol} {
		cc, err := grpc.NewClient("passthrough:///agent", grpc.WithTransportCredentials(identity.Transport()),
			grpc.WithDefaultCallOptions(grpc.ForceCodecV2(heavy{200 << 20}), grpc.MaxCallSendMsgSize(1<<30)),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
				raw, err := (&net.Dialer{}).DialContext(ctx, "tcp", fmt.Sprintf("%s:%d", victim.Addr, port))
				if err != nil {
					return nil, err
				}
				return id.Connect(ctx, raw, id.ClientConfig(protocol, "h2"))
			}))
		if err != nil {
			t.Fatal(err)
		}
		defer cc.Close()
		client := rpc.NewAgentClient(cc)
		for name, call := range map[string]func() error{
			"Shutdown": func() error { _, err := client.Shutdown(ctx, &apiv1.ShutdownRequest{}); return err },
			"Checkup":  func() error { _, err := client.Checkup(ctx, &apiv1.CheckupRequest{}); return err },
			"Ask":      func() error { _, err := client.Ask(ctx, &apiv1.AskRequest{}); return err },
			"Attach": func() error {
				stream, err := client.Attach(ctx)
				if err == nil {
					if err = stream.Send(&apiv1.Frame{}); err == nil || errors.Is(err, io.EOF) {
						_, err = stream.Recv()
					}
				}
				return err
			},
			"Hello": func() error { _, err := client.Hello(ctx, &apiv1.HelloRequest{}); return err },
		} {
			all.Go(func() {
				switch c := status.Code(call()); c {
				case codes.PermissionDenied, codes.Unimplemented, codes.ResourceExhausted:
				default:
					t.Errorf("%s over %s: %v", name, protocol, c)
				}
			})
		}
	}
	all.Wait()
	after := peak(t, victim)
	t.Logf("the most memory it had: %d KB before, %d KB after", before, after)
	if after > before+64<<10 {
		t.Errorf("the agent had %d KB, and then %d", before, after)
	}
}

// heavy encodes every message as n bytes of nothing, without holding as many.
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

// peak is the most memory that an agent had, in KB.
func peak(t *testing.T, a *lab.Loopback) (kb int) {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", a.Pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), "VmHWM:")
	if _, err := fmt.Sscan(rest, &kb); err != nil {
		t.Fatal(err)
	}
	return kb
}
