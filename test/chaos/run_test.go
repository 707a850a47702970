package chaos

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mpiup/mpiup/test/lab"
	"github.com/mpiup/mpiup/test/netns"
	"golang.org/x/sys/unix"
)

// run is one launcher with its job.
type run struct {
	s     *site
	cmd   *netns.Cmd
	ranks int
	out   *lines
	err   *lab.Text
	begun time.Time
	child bool          // the launcher is the command's child
	done  chan struct{} // closed at the launcher's end
	code  int           // then
}

// job starts a counting job of ranks per worker on all workers of the site.
func (s *site) job(perHost int, flags ...string) *run {
	s.t.Helper()
	return s.jobOf([]string{world.counter}, perHost, flags...)
}

// grandchild is a program that leaves a process in a session of its own and then counts.
func grandchild(flags ...string) []string {
	return []string{"sh", "-c", "setsid sleep 99999 </dev/null >/dev/null 2>&1 & exec " + world.counter + " " + strings.Join(flags, " ")}
}

func (s *site) jobOf(program []string, perHost int, flags ...string) *run {
	s.t.Helper()
	r := s.launch(nil, program, perHost, flags...)
	r.grow(2)
	return r
}

// launch starts a launcher, by a wrapper command if there is one, and does not wait.
func (s *site) launch(wrapper, program []string, perHost int, flags ...string) *run {
	s.t.Helper()
	var hosts []string
	for _, w := range s.workers {
		hosts = append(hosts, fmt.Sprintf("%s:%d", w.name, perHost))
	}
	argv := append(wrapper, world.mpiup, "run", "--key", world.key, "--host", strings.Join(hosts, ","), "--stdin", "none", "-vv")
	if s.kubernetes {
		argv = append([]string{"env", "KUBERNETES_SERVICE_HOST=10.96.0.1"}, argv...)
	}
	argv = append(append(argv, flags...), "--")
	r := s.command(perHost*len(s.workers), append(argv, program...))
	r.child = wrapper != nil
	return r
}

func (s *site) command(ranks int, argv []string) *run {
	s.t.Helper()
	r := &run{s: s, ranks: ranks, out: newLines(), err: new(lab.Text), done: make(chan struct{}), begun: time.Now()}
	r.cmd = s.c.Command(context.Background(), s.launcher, argv...)
	r.cmd.Stdout, r.cmd.Stderr = r.out, r.err
	if err := r.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() {
		defer close(r.done)
		_ = r.cmd.Wait()
		r.code = r.cmd.ProcessState.ExitCode()
	}()
	s.t.Cleanup(func() {
		_ = r.cmd.Process.Signal(syscall.SIGKILL)
		<-r.done
		sound(s.t, "launcher", r.err.String())
		if s.t.Failed() {
			s.t.Logf("launcher, exit %d:\n%s", r.code, summary(r.err.String()))
		}
	})
	return r
}

// grow waits until every rank has written n more lines.
func (r *run) grow(n int) {
	r.s.t.Helper()
	from, _ := r.out.counts()
	limit := time.After(bound)
	for {
		now, changed := r.out.counts()
		slow := 0
		for rank := range r.ranks {
			if now[rank] < from[rank]+n {
				slow++
			}
		}
		if slow == 0 {
			return
		}
		select {
		case <-changed:
		case <-r.done:
			r.s.t.Fatalf("the launcher ended with %d while %d ranks were to go on", r.code, slow)
		case <-limit:
			r.s.t.Fatalf("%d of %d ranks wrote fewer than %d more lines in %v", slow, r.ranks, n, bound)
		}
	}
}

func (r *run) signal(sig syscall.Signal) {
	r.s.t.Helper()
	pid := r.cmd.Process.Pid
	if r.child {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
		if _, serr := fmt.Sscan(string(b), &pid); err != nil || serr != nil {
			r.s.t.Fatalf("the launcher's pid: %v, %v", err, serr)
		}
	}
	if err := unix.Kill(pid, sig); err != nil {
		r.s.t.Fatalf("%v to the launcher: %v", sig, err)
	}
}

// ends waits for the launcher's end and checks its code and what it says.
func (r *run) ends(code int, says ...string) {
	r.s.t.Helper()
	select {
	case <-r.done:
	case <-time.After(bound):
		r.s.t.Fatalf("the launcher does not end; it said:\n%s", summary(r.err.String()))
	}
	if r.code != code {
		r.s.t.Errorf("exit code %d, not %d", r.code, code)
	}
	for _, want := range says {
		if !strings.Contains(r.err.String(), want) {
			r.s.t.Errorf("the launcher does not say %q", want)
		}
	}
	for _, p := range r.out.problems() {
		r.s.t.Error(p)
	}
}

// running fails the test when the launcher has ended.
func (r *run) running(when string) {
	r.s.t.Helper()
	select {
	case <-r.done:
		r.s.t.Fatalf("%s the launcher ended with %d", when, r.code)
	default:
	}
}

// survived ends the job in good order and checks that nothing was lost, doubled or restarted,
// and nothing is left.
func (r *run) survived() {
	r.s.t.Helper()
	r.grow(3)
	r.signal(syscall.SIGUSR1)
	r.ends(0)
	if n := r.out.ended("end"); n != r.ranks {
		r.s.t.Errorf("%d of %d ranks ended as told", n, r.ranks)
	}
	for _, w := range r.s.workers {
		w.gone()
	}
}

// took fails the test when what began then took longer than most; most is generous.
func took(t *testing.T, what string, begun time.Time, least, most time.Duration) {
	t.Helper()
	if d := time.Since(begun); d < least || d > most {
		t.Errorf("%s took %v, not %v to %v", what, d.Round(time.Millisecond), least, most)
	}
}
