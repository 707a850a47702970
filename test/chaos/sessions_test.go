package chaos

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mpiup/mpiup/test/lab"
)

// Sessions of one incarnation live side by side; another incarnation of the same launcher
// fences what the older left.

// otherLife is what makes a command another life of its host's container: the same pod,
// another PID 1.
func otherLife() []string {
	return []string{"unshare", "--pid", "--mount-proc", "--fork", "--kill-child"}
}

// otherPod is what makes a command on another host one of a new pod with an old one's name.
func otherPod(name string) []string {
	return []string{"unshare", "--uts", "--pid", "--mount-proc", "--fork", "--kill-child", "sh", "-c", `hostname "$0"; exec "$@"`, name}
}

func TestRunsOfOneContainerLiveSideBySide(t *testing.T) {
	s := newSite(t, 2)
	a, b := s.job(2), s.job(2)
	w := s.workers[0]
	out, err := s.c.Command(t.Context(), s.launcher, world.mpiup, "exec", "--key", world.key, w.name, "--", "sh", "-c", "echo beside; exit 7").Output()
	if string(out) != "beside\n" || err == nil || !strings.Contains(err.Error(), "7") {
		t.Errorf("exec beside two runs: %q, %v", out, err)
	}
	b.grow(2)
	b.signal(syscall.SIGUSR1)
	b.ends(0)
	a.grow(5)
	c := s.job(1)
	c.signal(syscall.SIGKILL)
	<-c.done
	lab.Eventually(s.t, "the killed run's ranks are gone", func() bool { return len(w.processes()) == 2 })
	a.survived()
}

// A shell under unshare, a sidecar, a debug container: they run beside a launcher that lives, again and again, and so
// do their commands.
func TestSiblingsOfALauncherThatLives(t *testing.T) {
	s := newSite(t, 2).ownLauncher()
	main := s.job(2)
	for range 2 {
		begun := time.Now()
		side := s.launch(otherLife(), []string{"true"}, 1)
		side.ends(0)
		t.Logf("the sibling's run took %v", time.Since(begun))
		argv := append(otherLife(), world.mpiup, "exec", "--key", world.key, s.workers[0].name, "--", "echo", "beside")
		if out, err := s.c.Command(t.Context(), s.launcher, argv...).CombinedOutput(); string(out) != "beside\n" || err != nil {
			t.Errorf("exec of a sibling: %q, %v", out, err)
		}
		again := s.launch(nil, []string{"true"}, 1)
		again.ends(0)
	}
	main.survived()
}

// The Job's new pod: it has the old one's name, and does not wait for a lease.
func TestNewPodFencesAtOnce(t *testing.T) {
	s := newSite(t, 2).ownLauncher()
	s.kubernetes = true
	old := s.jobOf(grandchild("-deaf"), 2, "--grace", "1")
	name := s.launcher
	s.ownLauncher()
	begun := time.Now()
	young := s.launch(otherPod(name), []string{world.counter}, 2)
	young.grow(2)
	took(t, "the new pod's start", begun, 0, 30*time.Second)
	old.ends(249, "a newer launcher of this job took over host", "ranks")
	young.survived()
}

// Two machines, or containers of two, that go by one name and hold one key: nothing says that the second takes the first's place.
func TestMachinesOfOneName(t *testing.T) {
	s := newSite(t, 2).ownLauncher()
	a := s.job(2)
	name := s.launcher
	s.ownLauncher()
	b := s.launch(otherPod(name), []string{world.counter}, 2)
	b.grow(2)
	b.signal(syscall.SIGUSR1)
	b.ends(0)
	a.survived()
}

// Two Jobs on one pool of workers, with one secret.
func TestTwoJobsOnOnePool(t *testing.T) {
	s := newSite(t, 2).ownLauncher()
	a := s.job(2)
	s.ownLauncher()
	b := s.job(2)
	for range 2 {
		s.launch(nil, []string{"true"}, 1).ends(0)
	}
	b.grow(2)
	b.signal(syscall.SIGUSR1)
	b.ends(0)
	a.survived()
}

func TestRetriedLauncherFences(t *testing.T) {
	s := newSite(t, 2).ownLauncher().forwarded()
	old := s.jobOf(grandchild("-deaf"), 2, "--grace", "1", "--launcher-timeout", "10s")
	for _, w := range s.workers {
		w.fwd.Freeze() // the agents know of nothing, and the lease runs
	}
	old.signal(syscall.SIGSTOP)
	before := s.workers[0].processes()
	begun := time.Now()
	young := s.launch(otherLife(), []string{world.counter}, 2)
	young.grow(2)
	took(t, "the new job's start", begun, 0, 45*time.Second)
	for _, w := range s.workers {
		for _, p := range w.processes() {
			for _, o := range before {
				if p.Pid == o.Pid {
					t.Errorf("%v of the old launcher is left beside the new one's ranks", p)
				}
			}
		}
	}
	for _, w := range s.workers {
		w.fwd.Resume()
	}
	old.signal(syscall.SIGCONT)
	old.ends(249, "a newer launcher of this job took over host", "ranks")
	young.survived()
}

func TestFencedLauncherComesBackLate(t *testing.T) {
	s := newSite(t, 1).ownLauncher().forwarded()
	w := s.workers[0]
	old := s.jobOf(grandchild(), 2, "--grace", "1", "--launcher-timeout", "5s")
	old.signal(syscall.SIGSTOP)
	young := s.launch(otherLife(), []string{world.counter}, 2)
	young.grow(2)
	lab.Eventually(s.t, "the old session is forgotten", func() bool { return strings.Contains(w.log.String(), "fenced") })
	w.fwd.Reset() // what the agent said to the old one is lost
	s.last(6 * time.Second)
	old.signal(syscall.SIGCONT)
	old.ends(249, "a newer launcher of this job")
	young.grow(2)

	// The old container starts a job again, as a script would: it may not.
	again := s.launch(nil, []string{world.counter}, 2)
	again.ends(249, "newer")
	young.survived()
}

func TestNumbersOutliveAgents(t *testing.T) {
	s := newSite(t, 3)
	addrs := []string{}
	for _, w := range s.workers {
		addrs = append(addrs, w.host)
	}
	// They find each other by the same list that launchers would be given.
	for _, w := range s.workers {
		w.end()
		w.flags = []string{"--host", strings.Join(addrs, ",")}
		w.start()
	}
	s.ownLauncher()
	peers := func() string {
		out, _ := s.c.Command(t.Context(), s.launcher, world.mpiup, "peers", "--key", world.key, "--host", addrs[0]).Output()
		return string(out)
	}
	lab.Eventually(s.t, "they know each other", func() bool {
		p := peers()
		return strings.Contains(p, addrs[1]) && strings.Contains(p, addrs[2])
	})
	all := s.workers
	for i := range 3 { // three lives of the launcher: numbers 1, 2, 3, on the first two hosts
		s.workers = all[:2]
		r := s.launch(otherLife(), []string{world.counter}, 1)
		r.grow(1)
		lab.Eventually(s.t, "its number", func() bool { return strings.Contains(all[0].log.String(), fmt.Sprintf("number=%d", i+1)) })
		r.cmd.Process.Signal(syscall.SIGKILL)
		<-r.done
		all[0].gone()
		all[1].gone()
	}
	all[0].kill() // it has lost its memory, and asks its peers
	all[0].start()
	lab.Eventually(s.t, "they know each other again", func() bool {
		p := peers()
		return strings.Contains(p, addrs[1]) && strings.Contains(p, addrs[2])
	})
	s.last(time.Second) // who is there comes before what they know
	s.workers = all[:1]
	r := s.launch(otherLife(), []string{world.counter}, 1)
	r.grow(2)
	if !strings.Contains(all[0].log.String(), "number=4") {
		t.Errorf("the number is not 4:\n%s", summary(all[0].log.String()))
	}
	_ = r.cmd.Process.Signal(syscall.SIGKILL)
	<-r.done
	s.workers = all
}
