package badinput

import (
	"bytes"
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/mpiup/mpiup/internal/api/codec"
	"github.com/mpiup/mpiup/internal/api/rpc"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/identity"
	"github.com/mpiup/mpiup/test/lab"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// dial is a client of an agent, as a process of the job with a role. protocols are offered: none is for sessions.
func dial(t *testing.T, a *lab.Loopback, role identity.Role, protocols ...string) rpc.AgentClient {
	t.Helper()
	id := loaded(t, key, role)
	cc, err := grpc.NewClient("passthrough:///agent", grpc.WithTransportCredentials(identity.Transport()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			raw, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(a.Addr, port))
			if err != nil {
				return nil, err
			}
			return id.Connect(ctx, raw, id.ClientConfig(append(protocols, "h2")...))
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cc.Close() })
	return rpc.NewAgentClient(cc)
}

func openFrame(session byte) *apiv1.Frame {
	return (&apiv1.Open{Protocol: apiv1.Protocol, Version: "hostile",
		Session: strings.Repeat(string("0123456789abcdef"[session%16]), 31) + "0", Secret: make([]byte, 16),
		Incarnation: "hostile", LeaseMs: 60_000, Launcher: "hostile"}).Frame()
}

func launchOf(l *apiv1.Launch) *apiv1.Frame {
	return &apiv1.Frame{Seq: 1, Body: &apiv1.Frame_Launch{Launch: l}}
}

// TestFrames are members of the job that do not keep to the protocol: the stream ends, with a
// reason, and the agent goes on.
func TestFrames(t *testing.T) {
	a := startAgent(t, nil)
	runs(t, a)
	client, asker := dial(t, a, identity.RoleLauncher), dial(t, a, identity.RoleLauncher, apiv1.AskProtocol)
	if _, err := asker.Hello(context.Background(), &apiv1.HelloRequest{}); err != nil {
		t.Fatal(err)
	}
	before := loadOf(t, a)
	sleeper := &apiv1.Launch{Job: &apiv1.Job{Size: 1, Hosts: 1, Pmi: apiv1.Pmi_PMI_NONE}, Number: 1, Apps: []*apiv1.App{{Argv: []string{"sleep", "100"}}}, Procs: []*apiv1.Proc{{}}}
	huge := make([]*apiv1.Proc, 100_000)
	for i := range huge {
		huge[i] = &apiv1.Proc{Rank: uint32(i)}
	}
	withLauncher := openFrame(9)
	withLauncher.GetOpen().Launcher = strings.Repeat("x", 1<<20)
	holds := openFrame(14)
	holds.GetOpen().OnLoss, holds.GetOpen().HoldMs = apiv1.Loss_LOSS_HOLD, 1000
	described := func(size int) *apiv1.Frame {
		return &apiv1.Frame{Seq: 2, Body: &apiv1.Frame_Hold{Hold: &apiv1.Hold{Journal: make([]byte, size), Command: make([]byte, 32)}}}
	}
	signal := func(seq uint64) *apiv1.Frame {
		return &apiv1.Frame{Seq: seq, Body: &apiv1.Frame_Signal{Signal: &apiv1.Signal{Number: 9999}}}
	}
	for i, tt := range []struct {
		name   string
		frames []*apiv1.Frame // after Open, unless bare
		bare   bool
		says   string
	}{
		{name: "no Open", bare: true, frames: []*apiv1.Frame{signal(1)}, says: "first frame is not Open"},
		{name: "an endless name", bare: true, frames: []*apiv1.Frame{withLauncher}, says: "1048576 bytes"},
		{name: "signal before Launch", frames: []*apiv1.Frame{signal(1)}, says: "before Launch"},
		{name: "a gap", frames: []*apiv1.Frame{signal(7)}, says: "frame 7 follows frame 0"},
		{name: "acknowledges what was not sent", frames: []*apiv1.Frame{{Ack: 99}}, says: "acknowledges frame 99"},
		{name: "no body", frames: []*apiv1.Frame{{Seq: 1}}, says: "without a body"},
		{name: "empty Launch", frames: []*apiv1.Frame{launchOf(&apiv1.Launch{Job: &apiv1.Job{}})}, says: "launch with number 0"},
		{name: "a Launch of nothing", frames: []*apiv1.Frame{launchOf(&apiv1.Launch{Job: &apiv1.Job{}, Number: 1})}, says: "launch of 0 processes"},
		{name: "huge Launch", frames: []*apiv1.Frame{launchOf(&apiv1.Launch{Job: &apiv1.Job{Size: 100_000}, Number: 1, Procs: huge, Apps: sleeper.Apps})}, says: "launch of 100000"},
		{name: "a program that is not there", frames: []*apiv1.Frame{launchOf(&apiv1.Launch{Job: &apiv1.Job{Size: 1}, Number: 1, Procs: []*apiv1.Proc{{App: 7}}})}, says: "out of range"},
		{name: "no such signal", frames: []*apiv1.Frame{launchOf(sleeper), signal(2)}, says: "9999"},
		{name: "two Launches", frames: []*apiv1.Frame{launchOf(sleeper), {Seq: 2, Body: launchOf(sleeper).Body}}, says: "job 0 is there already"},
		{name: "a frame for a launcher", frames: []*apiv1.Frame{launchOf(sleeper), {Seq: 2, Body: &apiv1.Frame_Started{Started: &apiv1.Started{}}}}, says: "not for an agent"},
		{name: "a journal that nobody is to read", frames: []*apiv1.Frame{launchOf(sleeper), described(1)}, says: "a run is described that nobody is to take over"},
		{name: "a huge journal", bare: true, frames: []*apiv1.Frame{holds, launchOf(sleeper), described(5 << 20)}, says: "a run is described in 5242880 bytes"},
		{name: "too much input", frames: []*apiv1.Frame{launchOf(withStdin(sleeper)), {Seq: 2, Body: &apiv1.Frame_Input{Input: &apiv1.Input{Data: bytes.Repeat([]byte("x"), 32<<20)}}}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), bound)
			defer cancel()
			s, err := client.Attach(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if !tt.bare {
				tt.frames = append([]*apiv1.Frame{openFrame(byte(i))}, tt.frames...)
			}
			for _, f := range tt.frames {
				s.Send(f) // an error shows in Recv
			}
			if tt.says == "" {
				return
			}
			for err == nil {
				_, err = s.Recv()
			}
			if !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%v; it does not say %q", err, tt.says)
			}
		})
	}
	t.Run("many sessions", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(context.Background(), bound)
		defer cancel()
		var refused int
		for range 5 {
			c := dial(t, a, identity.RoleLauncher)
			for i := range 80 {
				s, err := c.Attach(ctx)
				if err != nil {
					t.Fatal(err)
				}
				o := openFrame(1)
				o.GetOpen().Session = loadedSession(refused, i)
				s.Send(o)
			}
			refused++
		}
		if _, err := asker.Hello(ctx, &apiv1.HelloRequest{}); err != nil {
			t.Errorf("the agent no longer answers: %v", err)
		}
	})
	t.Run("an agent's certificate starts nothing", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(context.Background(), bound)
		defer cancel()
		asking, c := dial(t, a, identity.RoleAgent, apiv1.AskProtocol), dial(t, a, identity.RoleAgent)
		if _, err := asking.Shutdown(ctx, &apiv1.ShutdownRequest{}); status.Code(err) != codes.PermissionDenied {
			t.Errorf("Shutdown: %v", err)
		}
		s, err := c.Attach(ctx)
		if err == nil {
			_, err = s.Recv()
		}
		if status.Code(err) != codes.PermissionDenied {
			t.Errorf("Attach: %v", err)
		}
	})
	lab.Eventually(t, "the sessions are gone", func() bool { return loadOf(t, a).sessions == 0 })
	runs(t, a)
	before.goroutines += 4 * 8 // the connections above are open still
	before.descriptors += 8
	recovers(t, a, before)
	if log := a.Log.String(); strings.Count(log, "msg=start ") < 4 || !strings.Contains(log, `identity=hostile role=launcher proven=false from=`) {
		t.Errorf("audit lines are missing:\n%s", log)
	}
}

// raw is a codec for frames that are bytes already.
type raw struct{ codec.Codec }

// Marshal passes bytes on, and leaves messages to mpiup's codec.
func (r raw) Marshal(v any) (mem.BufferSlice, error) {
	if b, ok := v.([]byte); ok {
		return mem.BufferSlice{mem.SliceBuffer(b)}, nil
	}
	return r.Codec.Marshal(v)
}

// TestFrameOfNoText: a text that is no UTF-8 comes from no mpiup. The agent says which field it is, and that no other
// connection would help.
func TestFrameOfNoText(t *testing.T) {
	t.Parallel()
	a := startAgent(t, nil, "--http", "off")
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	s, err := dial(t, a, identity.RoleLauncher).Attach(ctx, grpc.ForceCodecV2(raw{}))
	if err != nil {
		t.Fatal(err)
	}
	bad := openFrame(1)
	bad.GetOpen().Version = "VERSION"
	b, err := proto.Marshal(bad)
	if err != nil {
		t.Fatal(err)
	}
	_ = s.SendMsg(bytes.ReplaceAll(b, []byte("VERSION"), []byte("VERSIO\xff"))) // an error shows in Recv
	if _, err = s.Recv(); status.Code(err) != codes.DataLoss || !strings.Contains(err.Error(), "field Open.version") {
		t.Errorf("%v", err)
	}
	runs(t, a)
}

func withStdin(l *apiv1.Launch) *apiv1.Launch {
	return &apiv1.Launch{Job: &apiv1.Job{Size: 1, Hosts: 1, Pmi: l.Job.Pmi}, Number: 1, Apps: l.Apps, Procs: l.Procs, Stdin: []uint32{0}}
}

// loadedSession is an id of its own.
func loadedSession(round, i int) string {
	const digits = "0123456789abcdef"
	id := bytes.Repeat([]byte{'e'}, 32)
	id[0], id[1], id[2] = digits[round], digits[i/16], digits[i%16]
	return string(id)
}

// TestSilentStream: a stream that never opens is let go.
func TestSilentStream(t *testing.T) {
	t.Parallel()
	a := startAgent(t, nil, "--http", "off")
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	begun := time.Now()
	s, err := dial(t, a, identity.RoleLauncher).Attach(ctx)
	if err == nil {
		_, err = s.Recv()
	}
	if err == nil || !strings.Contains(err.Error(), "no Open within") {
		t.Errorf("after %v: %v", time.Since(begun), err)
	}
}
