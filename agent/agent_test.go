package agent

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/mpiup/mpiup/agent/session"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/wire"
	"github.com/mpiup/mpiup/topology/discover"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testBound is far beyond what anything here takes.
const testBound = 30 * time.Second

// running is an agent under way.
type running struct {
	t    *testing.T
	end  context.CancelFunc // as SIGTERM does
	code chan int
}

// run runs an agent until it ends, or the test.
func run(t *testing.T, a *Agent) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{t: t, end: cancel, code: make(chan int, 1)}
	go func() {
		defer close(r.code)
		code, err := a.Run(ctx)
		if err != nil {
			t.Error(err)
		}
		r.code <- code
	}()
	t.Cleanup(func() { cancel(); r.ended() })
	return r
}

// ended is the agent's exit code, once.
func (r *running) ended() int {
	r.t.Helper()
	select {
	case code := <-r.code:
		return code
	case <-time.After(testBound):
		r.t.Fatal("the agent does not end")
		return 0
	}
}

// Sessions tell launchers whether somebody has shut their agent down.
func TestShutdownIsTold(t *testing.T) {
	for _, tt := range []struct {
		end  end
		want bool
	}{{end{why: "shut down by w0: mpiup shutdown", told: "mpiup shutdown"}, true}, {end{why: "the agent was told to end (SIGTERM)"}, false}} {
		if got := errors.Is(&tt.end, session.ErrShutdown); got != tt.want {
			t.Errorf("%s: %v", tt.end.why, got)
		}
	}
}

// An agent that is told to end says by its exit code whether it ended anything with it.
func TestExitCodeSaysWhatEnded(t *testing.T) {
	for _, tt := range []struct {
		name   string
		script string // "": nothing runs
		want   int
	}{
		{"nothing ran", "", 0},
		{"a rank ran", "exec sleep 1000", 143},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, err := New(Config{Name: "w0", Version: "test", Incarnation: "agent-life", Inside: &Inside{}, Inventory: discover.Inventory{CPUs: 2},
				Env: []string{"PATH=/usr/bin:/bin"}, Dir: "/", Log: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			r := run(t, a)
			if tt.script != "" {
				start(t, a, tt.script)
			}
			r.end()
			if code := r.ended(); code != tt.want {
				t.Errorf("exit code %d, not %d", code, tt.want)
			}
		})
	}
}

// start has a launcher start one rank, which then reads nothing more.
func start(t *testing.T, a *Agent, script string) {
	t.Helper()
	ctx := t.Context()
	mine, theirs, endMine, endTheirs := wire.Pipe(ctx)
	ended := make(chan struct{})
	go func() { defer close(ended); a.Attach(ctx, theirs, "launcher"); endTheirs() }()
	t.Cleanup(func() { endMine(); <-ended })
	launch := (&apiv1.Launch{Job: &apiv1.Job{Id: "job", Size: 1, Hosts: 1, Window: 64 << 10}, Number: 1,
		Apps: []*apiv1.App{{Argv: []string{"sh", "-c", script}}}, Procs: []*apiv1.Proc{{}}}).Frame()
	launch.Seq = 1
	for _, f := range []*apiv1.Frame{(&apiv1.Open{Protocol: apiv1.Protocol, Session: strings.Repeat("ab", 16), Secret: make([]byte, 16)}).Frame(), launch} {
		if err := mine.Send(f); err != nil {
			t.Fatal(err)
		}
	}
	for {
		f, err := mine.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if f.GetStarted() != nil {
			return
		}
	}
}
