package ranks

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mpiup/mpiup/agent/host"
	"github.com/mpiup/mpiup/agent/metrics"
	"github.com/mpiup/mpiup/agent/mpilib"
	"github.com/mpiup/mpiup/agent/outfit"
	"github.com/mpiup/mpiup/agent/reap"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/pmi/kvs"
	"github.com/mpiup/mpiup/pmi/pmix"
	"github.com/mpiup/mpiup/topology/discover"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testBound is far beyond what anything here takes.
const testBound = 30 * time.Second

// supervisor runs until the test's end.
func supervisor(t *testing.T) *reap.Supervisor {
	t.Helper()
	super := reap.New(reap.Config{Log: slog.New(slog.DiscardHandler), Subreaper: true})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- super.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return super
}

// upper is a session of one job.
type upper struct {
	t      *testing.T
	frames chan *apiv1.Frame
	job    *Job
}

// Send notes a frame.
func (u *upper) Send(f *apiv1.Frame) { u.frames <- f }

// Lend notes a frame.
func (u *upper) Lend(f *apiv1.Frame, _ func()) { u.frames <- f }

// Spawn starts nothing.
func (u *upper) Spawn(context.Context, int, job.Spawn) (int, error) { return 0, errors.New("no") }

// PMIx is not served.
func (u *upper) PMIx(*Job) (*pmix.Server, error) { return nil, errors.New("no") }

// until is the next frame that done says yes to.
func (u *upper) until(done func(*apiv1.Frame) bool) *apiv1.Frame {
	u.t.Helper()
	bound := time.After(testBound)
	for {
		select {
		case f := <-u.frames:
			if done(f) {
				return f
			}
		case <-bound:
			u.t.Fatal("waited in vain")
		}
	}
}

func (u *upper) times(n int, done func(*apiv1.Frame) bool) {
	u.t.Helper()
	for range n {
		u.until(done)
	}
}

func exited(f *apiv1.Frame) bool { return f.GetExited() != nil }

// started is a job under way, which ends with the test.
func started(t *testing.T, m *apiv1.Launch) *upper {
	t.Helper()
	up := &upper{t: t, frames: make(chan *apiv1.Frame, 1<<12)}
	log, env := slog.New(slog.DiscardHandler), []string{"PATH=/usr/bin:/bin"}
	sh := &Shared{ID: strings.Repeat("ab", 16), Log: log, Engine: kvs.New(kvs.Run{}), Jobs: &Jobs{}, Hints: &host.Hints{}, Audit: func(*apiv1.Launch, bool) {}, Session: up,
		Config: Config{Name: "w0", Env: env, Dir: "/", Host: host.New(host.Config{Env: env, Log: log}), Super: supervisor(t),
			Libs: mpilib.NewMemory(os.DirFS("/")), Metrics: metrics.New(metrics.Config{}), Inventory: discover.Inventory{CPUs: 1 << 10}}}
	up.job = New(sh, parsed(m), nil)
	sh.Jobs.Add(up.job)
	go up.job.Start()
	t.Cleanup(func() {
		up.job.MarkStopped(time.Now(), "a test")
		sh.Super.StopSession(sh.ID, syscall.SIGTERM, 0)
		up.job.Wait()
		sh.Hints.Close()
	})
	return up
}

// jobLaunch is a job whose ranks are all on this host, running a shell script.
func jobLaunch(size uint32, script string) *apiv1.Launch {
	l := &apiv1.Launch{Job: &apiv1.Job{Id: "job", Size: size, Hosts: 1, Window: 64 << 10}, Number: 1, Apps: []*apiv1.App{{Argv: []string{"sh", "-c", script}}}}
	for r := range size {
		l.Procs = append(l.Procs, &apiv1.Proc{Rank: r, LocalRank: r})
	}
	return l
}

// parsed is a launch that nothing is wrong with.
func parsed(m *apiv1.Launch) *outfit.Launch {
	l, err := outfit.Parse(m)
	if err != nil {
		panic(err)
	}
	return l
}

// A stop that comes while a process is being forked kills it at its birth: it may be over before its step knows it.
func TestKillAtBirthIsOurs(t *testing.T) {
	super := supervisor(t)
	p, err := super.Start(t.Context(), reap.Command{Argv: []string{"/bin/sh", "-c", "kill -KILL $$"}, Env: os.Environ()})
	if err != nil {
		t.Fatal(err)
	}
	<-p.Done()
	may, halt := context.WithCancelCause(t.Context())
	st := &Job{may: may, halt: halt, Launch: parsed(&apiv1.Launch{Job: &apiv1.Job{}}), procs: map[uint32]*Process{}, noted: make(chan struct{})}
	st.MarkStopped(time.Now().Add(time.Hour), "a test")
	born := newProc(st, &apiv1.Proc{}, "", nil, false)
	born.process = p
	if !st.note(born) {
		t.Error("a process of a stopped step is not known to be stopped")
	}
	if !born.ours || born.killed(p.Exit(), p.Ended()) {
		t.Error("the stop killed it, and it counts as killed by somebody else")
	}
}

// A rank may speak before its start is noted, and then is waited for.
func TestARankSpeaksBeforeItsStartIsNoted(t *testing.T) {
	for _, tt := range []struct {
		name string
		then func(*Job)
		ok   bool
	}{
		{"it is noted", func(st *Job) { st.note(&Process{Spec: &apiv1.Proc{Rank: 1}}) }, true},
		{"another is noted, then it", func(st *Job) {
			st.note(&Process{Spec: &apiv1.Proc{}})
			synctest.Wait()
			st.note(&Process{Spec: &apiv1.Proc{Rank: 1}})
		}, true},
		{"it was the last that could not be started", func(st *Job) { close(st.over) }, false},
		{"the job is over", func(st *Job) { st.kill() }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := New(nil, parsed(&apiv1.Launch{Job: &apiv1.Job{}, Exec: &apiv1.Exec{}}), nil)
				defer st.kill()
				got := make(chan *Process)
				go func() { got <- st.started(1) }()
				synctest.Wait()
				tt.then(st)
				if p := <-got; (p != nil) != tt.ok {
					t.Errorf("got %v", p)
				}
			})
		})
	}
}

func TestVariablesOfARank(t *testing.T) {
	st := &Job{s: &Shared{Config: Config{Env: []string{"BASE=1", "BOTH=1", "BASE=2"}}}, Launch: parsed(&apiv1.Launch{
		Job: &apiv1.Job{}, Procs: []*apiv1.Proc{{Rank: 4}, {Rank: 7, App: 1}},
		Apps: []*apiv1.App{{Env: []string{"BOTH=first"}}, {Env: []string{"BOTH=x", "BOTH=second", "OWN=3"}}}})}
	for _, tt := range []struct {
		rank       int
		name, want string
	}{
		{4, "BOTH", "first"}, {7, "BOTH", "second"}, {4, "BASE", "2"}, {4, "OWN", ""}, {7, "OWN", "3"}, {7, "NONE", ""}, {5, "BOTH", "1"},
	} {
		if got := variableOf(st, tt.rank, tt.name); got != tt.want {
			t.Errorf("%s of rank %d: %q, not %q", tt.name, tt.rank, got, tt.want)
		}
	}
}
