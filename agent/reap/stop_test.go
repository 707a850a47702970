package reap

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mpiup/mpiup/internal/job"
)

const quick = 20 * time.Millisecond

func stopped(t *testing.T, s *Supervisor, session string, grace time.Duration) {
	t.Helper()
	if left := s.StopSession(session, unix.SIGTERM, grace); len(left) != 0 {
		t.Fatalf("left after the stop: %v", left)
	}
}

func TestStopGivesGraceToThoseThatWantIt(t *testing.T) {
	s := supervise(t)
	file := filepath.Join(t.TempDir(), "ready")
	p := start(t, s, inSession(sh(`trap 'exit 7' TERM; echo $$ >`+file+`; while :; do sleep 0.01; done`), "a"))
	pidIn(t, file)
	stopped(t, s, "a", patience)
	if p.Exit() != (job.Exit{Code: 7}) {
		t.Errorf("exit %+v, want the trap's code", p.Exit())
	}
}

// A process is asked to end once by each signal, whoever asks, and its descendants that are left by the same.
func TestStopAsksOnceByItsSignal(t *testing.T) {
	s := supervise(t)
	dir := t.TempDir()
	ready, got, child := filepath.Join(dir, "ready"), filepath.Join(dir, "got"), filepath.Join(dir, "child")
	p := start(t, s, inSession(sh(`n=0; trap 'n=$((n+1)); echo $n >`+got+`' USR1; trap 'exit $((10+n))' TERM
		setsid sh -c 'trap "echo asked >`+child+`; exit 0" USR1; trap "" TERM; echo $$ >`+child+`; while :; do sleep 0.01; done' & echo $$ >`+ready+`; while :; do sleep 0.01; done`), "a"))
	pidIn(t, ready)
	pidIn(t, child)
	for range 3 {
		if err := p.Ask(unix.SIGUSR1); err != nil {
			t.Fatal(err)
		}
		until(t, "it got the signal", func() bool { text, _ := os.ReadFile(got); return string(text) == "1\n" })
	}
	ended := make(chan []int)
	go func() { ended <- s.StopSession("a", unix.SIGUSR1, patience) }()
	until(t, "the stop has begun", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return s.stopping["a"] > 0 })
	if err := p.Ask(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if left := <-ended; len(left) > 0 || p.Exit() != (job.Exit{Code: 11}) {
		t.Errorf("left %v, exit %+v; want the code of a process that got one USR1", left, p.Exit())
	}
	if text, err := os.ReadFile(child); string(text) != "asked\n" {
		t.Errorf("the descendant was not asked: %q, %v", text, err)
	}
}

func TestIgnoringSigtermThenKilledAfterGrace(t *testing.T) {
	s := supervise(t)
	file := filepath.Join(t.TempDir(), "ready")
	p := start(t, s, inSession(sh(`trap '' TERM; echo $$ >`+file+`; while :; do sleep 0.01; done`), "a"))
	pidIn(t, file)
	stopped(t, s, "a", quick)
	if p.Exit() != (job.Exit{Signal: int(unix.SIGKILL)}) {
		t.Errorf("exit %+v", p.Exit())
	}
}

func TestStoppedProcessIsEnded(t *testing.T) {
	for name, grace := range map[string]time.Duration{"killed": 0, "terminated": patience} {
		t.Run(name, func(t *testing.T) {
			s := supervise(t)
			p := start(t, s, inSession(sh("exec sleep 100"), "a"))
			if err := p.Signal(unix.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			until(t, "it is stopped", func() bool { st, err := s.proc.Stat(p.Pid()); return err == nil && st.State == 'T' })
			stopped(t, s, "a", grace)
			wait(t, p)
		})
	}
}

func TestDescendantsThatHideAreEnded(t *testing.T) {
	for name, script := range map[string]string{
		"setsid":                `setsid sh -c 'echo $$ >$1; exec sleep 100' sh $1 & wait`,
		"double fork":           `(setsid sh -c 'echo $$ >$1; exec sleep 100' sh $1 &) ; sleep 100`,
		"leader gone":           `setsid sh -c 'echo $$ >$1; exec sleep 100' sh $1 & exit 0`,
		"group gone":            `sh -c 'echo $$ >$1; exec sleep 100' sh $1 & exit 0`,
		"own group":             `set -m; sh -c 'echo $$ >$1; exec sleep 100' sh $1 & wait`,
		"no environment":        `env -i sh -c 'echo $$ >$1; exec sleep 100' sh $1 & exit 0`,
		"child of no one's":     `setsid env -i sh -c 'echo $$ >$1; exec sleep 100' sh $1 & wait`,
		"by no name":            `setsid env -i sh -c 'echo $$ >$1; exec sleep 100' sh $1 & exit 0`,
		"by no name, later":     `setsid env -i sh -c '(sh -c "sleep 0.05; echo \$\$ >$1; exec setsid sleep 100" &)' sh $1 & exit 0`,
		"ignores SIGTERM":       `trap "" TERM; setsid sh -c 'echo $$ >$1; exec sleep 100' sh $1 & exit 0`,
		"stopped":               `setsid sh -c 'echo $$ >$1; kill -STOP $$; exec sleep 100' sh $1 & exit 0`,
		"stopped, parent lives": `setsid sh -c 'echo $$ >$1; kill -STOP $$; exec sleep 100' sh $1 & wait`,
	} {
		t.Run(name, func(t *testing.T) {
			for _, v := range []struct{ pidfds, together bool }{{true, false}, {false, false}, {true, true}} {
				s := supervise(t)
				s.noPidfd.Store(!v.pidfds)
				file := filepath.Join(t.TempDir(), "pid")
				cmd := inSession(sh(script, file), "a")
				cmd.SameSession = v.together
				start(t, s, cmd)
				pid := pidIn(t, file)
				stranger := start(t, s, inSession(sh("exec sleep 100"), "b"))
				stopped(t, s, "a", quick)
				if !ended(pid) {
					_ = unix.Kill(pid, unix.SIGKILL)
					t.Errorf("the descendant %d lives", pid)
				}
				if ended(stranger.Pid()) {
					t.Error("a process of another session was ended")
				}
				until(t, "the descendant is reaped", func() bool { return gone(pid) })
				stopped(t, s, "b", 0)
			}
		})
	}
}

// One that has nothing to be known by, its mark neither, and whose parents have ended, was seen while they lived.
func TestDescendantThatWasSeenIsEnded(t *testing.T) {
	s := supervise(t)
	dir := t.TempDir()
	file, done := filepath.Join(dir, "pid"), filepath.Join(dir, "go")
	cmd := inSession(sh(`bash -c 'ulimit -S -x unlimited; exec setsid env -i sh -c "echo \$\$ >$0; exec sleep 100"' $1 & while [ ! -e $2 ]; do sleep 0.01; done`, file, done), "a")
	p := start(t, s, cmd)
	pid := pidIn(t, file)
	until(t, "it is its last program", func() bool { st, err := s.proc.Stat(pid); return err == nil && !s.proc.Unsettled(st) })
	stranger := start(t, s, inSession(sh("exec sleep 100"), "b"))
	s.note()
	if err := os.WriteFile(done, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	wait(t, p)
	s.note() // parents that have ended change nothing
	stopped(t, s, "b", 0)
	if ended(pid) || !ended(stranger.Pid()) {
		t.Fatal("it was ended with another session")
	}
	stopped(t, s, "a", quick)
	if !ended(pid) {
		t.Errorf("the descendant %d lives", pid)
	}
}

// Those that share this process's session lead groups of their own, and no terminal is theirs.
func TestSameSession(t *testing.T) {
	s := supervise(t)
	for _, same := range []bool{true, false} {
		c := inSession(sh("exec sleep 100"), "a")
		c.SameSession = same
		p := start(t, s, c)
		st, err := s.proc.Stat(p.Pid())
		sid, _ := unix.Getsid(0)
		if err != nil || st.Group != p.Pid() || (st.SID == sid) != same || (st.SID == p.Pid()) == same {
			t.Errorf("same %v: group %d, session %d of %d: %v", same, st.Group, st.SID, p.Pid(), err)
		}
	}
	stopped(t, s, "a", 0)
	if _, err := s.Start(t.Context(), Command{Argv: []string{"true"}, SameSession: true, Terminal: true, Files: []*os.File{os.Stdin}}); err == nil {
		t.Error("a terminal was given without a session")
	}
}

func TestProcessThatForksAllTheTimeIsEnded(t *testing.T) {
	s := supervise(t)
	file := filepath.Join(t.TempDir(), "pid")
	start(t, s, inSession(sh(`echo $$ >$1; while :; do setsid sleep 100 & done & while :; do setsid sleep 100 & done`, file), "a"))
	pidIn(t, file)
	stopped(t, s, "a", quick)
	until(t, "no child is left", func() bool { return len(children(t)) == 0 })
}

func TestStopSessionWithNothingReturns(t *testing.T) {
	s := supervise(t)
	stopped(t, s, "never seen", patience)
}

// What a session has left behind is named once its own processes have ended: not what ends by itself a moment later, nor where nothing is.
func TestLeftBehind(t *testing.T) {
	s := supervise(t)
	if names := s.LeftBehind("never seen", patience); names != nil {
		t.Errorf("of a session that is not there: %q", names)
	}
	dir := t.TempDir()
	for _, c := range []struct{ session, script, want string }{
		{"stays", `setsid sleep 100 & until grep -q sleep /proc/$!/comm; do :; done; echo $! >$1`, "sleep"},
		{"ends", `(trap '' TERM; read x <$2) & echo $! >$1`, ""},
		{"nothing", `echo $$ >$1`, ""},
	} {
		file, gate := filepath.Join(dir, c.session), filepath.Join(dir, c.session+".gate")
		if err := unix.Mkfifo(gate, 0o600); err != nil {
			t.Fatal(err)
		}
		p := start(t, s, inSession(sh(c.script, file, gate), c.session))
		pidIn(t, file)
		wait(t, p)
		patient := 10 * time.Millisecond
		if c.want == "" {
			patient = patience
		}
		opened := make(chan error, 1)
		if c.session == "ends" {
			go func() { opened <- os.WriteFile(gate, []byte("x\n"), 0) }()
		} else {
			opened <- nil
		}
		if names := s.LeftBehind(c.session, patient); strings.Join(names, " ") != c.want {
			t.Errorf("%s: %q, not %q", c.session, names, c.want)
		}
		if err := <-opened; err != nil {
			t.Error(err)
		}
		stopped(t, s, c.session, 0)
	}
}

func TestSessionBeingStoppedTakesNoNewProcess(t *testing.T) {
	s := supervise(t)
	file := filepath.Join(t.TempDir(), "ready")
	p := start(t, s, inSession(sh(`trap '' TERM; echo $$ >`+file+`; while :; do sleep 0.01; done`), "a"))
	pidIn(t, file)
	done := make(chan []int)
	go func() { done <- s.StopSession("a", unix.SIGTERM, patience) }()
	until(t, "the stop has begun", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return s.stopping["a"] > 0 })
	if _, err := s.Start(t.Context(), inSession(sh("true"), "a")); err == nil {
		t.Error("a process was started in a session that is being stopped")
	}
	_ = p.Signal(unix.SIGKILL)
	if left := <-done; left != nil {
		t.Errorf("left %v", left)
	}
}

func TestSignalReachesTheGroupAndNothingAfterTheEnd(t *testing.T) {
	s := supervise(t)
	file := filepath.Join(t.TempDir(), "pid")
	p := start(t, s, inSession(sh(`sh -c 'echo $$ >$1; exec sleep 100' sh $1 & wait`, file), "a"))
	pid := pidIn(t, file)
	if err := p.Signal(unix.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	wait(t, p)
	until(t, "the group's other member ended", func() bool { return ended(pid) })
	if p.Exit().Signal != int(unix.SIGUSR1) {
		t.Errorf("exit %+v", p.Exit())
	}
	if err := p.Signal(unix.SIGKILL); err != os.ErrProcessDone {
		t.Errorf("signal after the end: %v", err)
	}
	stopped(t, s, "a", 0)
}

// A process that is between fork and the table when its session is stopped would be found by
// nobody, nor would what it starts before it is killed.
func TestStopWaitsForAFork(t *testing.T) {
	s := supervise(t)
	synctest.Test(t, func(t *testing.T) { // its clock stands still, and forkWait with it
		req := &request{cmd: inSession(sh("true"), "aa"), reply: make(chan spawned, 1)}
		if err := s.beginFork(req); err != nil {
			t.Fatal(err)
		}
		stopped := make(chan []int, 1)
		go func() { stopped <- s.StopSession("aa", unix.SIGTERM, 0) }()
		synctest.Wait()
		if len(stopped) > 0 {
			t.Error("the stop did not wait for the fork")
		}
		s.endFork(req, nil)
		if left := <-stopped; len(left) > 0 {
			t.Errorf("left are %v", left)
		}
	})
}

func TestWhom(t *testing.T) {
	if !slices.Equal([]bool{ofSession("a").matches("a"), ofSession("a").matches(""), everything().matches("")}, []bool{true, false, true}) {
		t.Error("whom")
	}
}
