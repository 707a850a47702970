package attack

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/wire"
	"github.com/mpiup/mpiup/test/lab"
)

// liar is an agent of three that starts nothing. It tells the launcher that its rank runs, and then frames of each kind with fields by chance, and so the next
// launcher, to which it hands the run over as the first one signed it.
type liar struct {
	teller
	mu   sync.Mutex
	rand *rand.Rand
	hold *apiv1.Hold // what the launcher left
	held string      // its session
	told int         // lies so far
	late bool        // the first launcher hears none
}

func (a *liar) Attach(s grpc.BidiStreamingServer[apiv1.Frame, apiv1.Frame]) error {
	first, err := s.Recv()
	if err != nil {
		return err
	}
	open := first.GetOpen()
	opened := &apiv1.Opened{Protocol: apiv1.Protocol, Version: a.host.Version, Host: a.host}
	a.mu.Lock()
	if a.hold != nil && !open.GetAdopt() && !open.GetResume() {
		opened.Held = []*apiv1.Held{{Session: a.held, Launcher: "l", LeftMs: 20_000, Hold: a.hold}}
	} else if !open.GetAdopt() {
		a.held = open.GetSession()
	}
	a.mu.Unlock()
	if err := s.Send(opened.Frame()); err != nil {
		return err
	}
	link := wire.NewLink(wire.NewClock())
	lie := func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		for range 1 + a.rand.IntN(6) {
			a.told++
			_ = link.Send(lieOf(a.rand))
		}
		_ = link.Send((&apiv1.Exited{Rank: 2, StoppedByUs: a.rand.IntN(2) == 0}).Frame())
		_ = link.Send((&apiv1.OutputEnd{Rank: 2}).Frame())
	}
	if open.GetAdopt() {
		_ = link.Send((&apiv1.Resumed{}).Frame())
		_ = link.Send((&apiv1.Started{Rank: 2, Pid: 7}).Frame())
		lie()
	}
	_ = link.Run(s.Context(), s, 0, func(f *apiv1.Frame) error { // until the launcher ends the stream
		switch b := f.Body.(type) {
		case *apiv1.Frame_Launch:
			_ = link.Send((&apiv1.Chosen{Pmi: apiv1.Pmi_PMI_NONE}).Frame())
			_ = link.Send((&apiv1.Started{Rank: 2, Pid: 7}).Frame())
			if !a.late {
				lie()
			}
		case *apiv1.Frame_Hold:
			a.mu.Lock()
			a.hold = proto.CloneOf(b.Hold)
			a.mu.Unlock()
		case *apiv1.Frame_Heartbeat, *apiv1.Frame_Credit:
		case *apiv1.Frame_Bye:
			_ = link.Send((&apiv1.Closed{}).Frame())
		default:
			lie()
		}
		return nil
	})
	return nil
}

// lieOf is a frame by chance, but for what a rank may do to others by PMIx: signals, and an abort of theirs.
func lieOf(r *rand.Rand) *apiv1.Frame {
	bodies := (&apiv1.Frame{}).ProtoReflect().Descriptor().Oneofs().Get(0).Fields()
	for {
		body := bodies.Get(r.IntN(bodies.Len()))
		if body.Message() == nil || body.Name() == "control" {
			continue
		}
		f := &apiv1.Frame{}
		byChance(r, f.ProtoReflect().Mutable(body).Message(), 3)
		if a := f.GetAborted(); a != nil {
			a.Targets = ""
		}
		return f
	}
}

func byChance(r *rand.Rand, m protoreflect.Message, depth int) {
	numbers := []uint64{0, 0, 1, 2, 2, 2, 3, 255, 1 << 20, 1 << 21, 1<<31 - 1, 1<<32 - 1, 1<<64 - 1}
	texts := []string{"", "0-2", "2", "0-1", "1#3", "0-1048575", "9999999", "x", "w\n" + forgedLine, escapes, strings.Repeat("y", 5000), "0-2 1"}
	value := func(f protoreflect.FieldDescriptor) protoreflect.Value {
		n, s := numbers[r.IntN(len(numbers))], texts[r.IntN(len(texts))]
		switch f.Kind() {
		case protoreflect.BoolKind:
			return protoreflect.ValueOfBool(n&1 != 0)
		case protoreflect.EnumKind:
			return protoreflect.ValueOfEnum(protoreflect.EnumNumber(n & 15))
		case protoreflect.Int32Kind, protoreflect.Sint32Kind:
			return protoreflect.ValueOfInt32(int32(uint32(n)))
		case protoreflect.Int64Kind, protoreflect.Sint64Kind:
			return protoreflect.ValueOfInt64(int64(n))
		case protoreflect.Uint32Kind:
			return protoreflect.ValueOfUint32(uint32(n))
		case protoreflect.Uint64Kind:
			return protoreflect.ValueOfUint64(n)
		case protoreflect.DoubleKind:
			return protoreflect.ValueOfFloat64(float64(n))
		case protoreflect.BytesKind:
			return protoreflect.ValueOfBytes([]byte(s))
		}
		return protoreflect.ValueOfString(s)
	}
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		switch {
		case r.IntN(4) == 0 || f.IsMap():
		case f.Message() != nil && depth == 0:
		case f.IsList() && f.Message() != nil:
			for range r.IntN(3) {
				byChance(r, m.Mutable(f).List().AppendMutable().Message(), depth-1)
			}
		case f.IsList():
			for range r.IntN(3) {
				m.Mutable(f).List().Append(value(f))
			}
		case f.Message() != nil:
			byChance(r, m.Mutable(f).Message(), depth-1)
		default:
			m.Set(f, value(f))
		}
	}
}

// Whole sessions of the real launcher with two honest agents and one that lies by chance; the launcher is killed between, and the next one goes on. It
// ends in time (by --timeout where the liar says that its rank runs on), without a panic; no honest host's rank gets a signal but the end of the run, and the verdict names no honest host. MPIUP_LIAR=10m for more of them.
func TestSessionsOfALiar(t *testing.T) {
	s := newSite(t)
	first := startAgent(t, nil, "--http", "off", "--slots", "1", "--tls-dir", s.files("mpiup://g/agent/w"))
	second := startAgent(t, nil, "--http", "off", "--slots", "1", "--tls-dir", s.files("mpiup://g/agent/v"))
	tls := s.files("mpiup://g/launcher/l")
	long, _ := time.ParseDuration(os.Getenv("MPIUP_LIAR"))
	begun, seed := time.Now(), uint64(25)
	if long > 0 {
		seed = rand.Uint64()
	}
	kinds, lies, sessions := map[string]int{}, 0, 0
	for n := uint64(0); n < 6 || time.Since(begun) < long; n++ {
		a := &liar{teller: teller{host: hello(func(*apiv1.HelloReply) {})}, rand: rand.New(rand.NewPCG(seed, n)), late: n%2 == 1}
		at := serve(t, s.files("mpiup://g/agent/x"), a)
		dir := t.TempDir()
		script := fmt.Sprintf("for s in HUP USR1 USR2 QUIT ALRM; do trap \"echo got $s; echo $s >>%[1]s/signals\" $s; done; echo runs; i=0; while test $i -lt 100 -a ! -e %[1]s/go; do sleep 0.02; i=$((i+1)); done", dir)
		run := func() *lab.Process {
			c := exec.Command(bin, "run", "--tls-dir", tls, "--wait", "10", "--host", fmt.Sprintf("%s:1,%s:1,%s:1", first.Addr, second.Addr, at), "-n", "3", "--stdin", "none", "--output", "json",
				"--on-launcher-loss", "hold=20s", "--timeout", "15s", "--mpi", "none", "--", "sh", "-c", script)
			c.Dir, c.Env = dir, []string{"PATH=/usr/bin:/bin", "HOME=" + dir}
			p, err := lab.StartHere(c)
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
		p := run()
		if n%2 == 1 {
			lab.Eventually(t, "the run can be taken over, or is over", func() bool {
				a.mu.Lock()
				defer a.mu.Unlock()
				select {
				case <-p.Done:
					return true
				default:
					return a.hold != nil
				}
			})
			p.Signal(t, syscall.SIGKILL)
			<-p.Done
			p = run()
		}
		if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		e := p.Wait(t)
		a.mu.Lock()
		lies, sessions = lies+a.told, sessions+1
		a.mu.Unlock()
		judge(t, fmt.Sprintf("seed %d, session %d", seed, n), e, first.Addr, second.Addr, at, kinds)
		if text, err := os.ReadFile(filepath.Join(dir, "signals")); err == nil && !strings.Contains(e.Stderr, "SIG") {
			t.Errorf("seed %d, session %d: honest ranks got %q:\n%s", seed, n, text, e.Stderr)
		}
		if t.Failed() {
			break
		}
	}
	t.Logf("%d sessions, %d lies in %v; ends %v", sessions, lies, time.Since(begun).Round(time.Second), kinds)
}

// judge looks at how a session ended.
func judge(t *testing.T, what string, e lab.Result, first, second, at string, kinds map[string]int) {
	t.Helper()
	if strings.Contains(e.Stderr, "goroutine ") || strings.Contains(e.Stderr, "panic") {
		t.Errorf("%s: it ends with %d:\n%s", what, e.Code, e.Stderr)
	}
	if i := slices.IndexFunc([]byte(ours(e.Stderr)), func(b byte) bool { return b < ' ' && b != '\n' }); i >= 0 || strings.Contains("\n"+e.Stderr, "\n"+forgedLine) {
		t.Errorf("%s: it shows it raw: %q", what, e.Stderr)
	}
	kind := fmt.Sprint("code ", e.Code)
	for line := range strings.Lines(e.Stdout) {
		var v struct {
			Event, Kind, Host string
			Rank              *int
			Evidence          []string
		}
		if json.Unmarshal([]byte(line), &v) != nil || v.Event != "verdict" {
			continue
		}
		kind += " " + v.Kind
		honest := "h" + strings.ReplaceAll(first, ".", "-") + " h" + strings.ReplaceAll(second, ".", "-") + " " + first + " " + second
		if v.Host != "" && strings.Contains(honest, v.Host) || v.Rank != nil && *v.Rank < 2 {
			t.Errorf("%s: the verdict names an honest one: %s\n%s", what, line, e.Stderr)
		}
	}
	kinds[kind]++
}
