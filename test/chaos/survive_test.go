package chaos

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mpiup/mpiup/test/lab"
	"github.com/mpiup/mpiup/test/need"
	"github.com/mpiup/mpiup/test/netns"
)

// Whatever is only slow, stopped, cut off for a while, or reset and redialled, costs nothing.

func TestConnectionsResetAgainAndAgain(t *testing.T) {
	s := newSite(t, 2).forwarded()
	r := s.job(2)
	for i := range 20 {
		for _, w := range s.workers {
			lab.Eventually(s.t, "a connection", func() bool { return w.fwd.Conns() > 0 })
			if i%4 == 3 {
				w.fwd.CloseConns()
			} else {
				w.fwd.Reset()
			}
		}
		r.grow(2)
	}
	r.survived()
}

func TestResetWhileTheWayIsLong(t *testing.T) {
	s := newSite(t, 1).forwarded()
	r := s.job(2)
	s.workers[0].fwd.Delay(60 * time.Millisecond)
	for range 3 {
		s.workers[0].fwd.Reset()
		r.grow(5)
	}
	r.survived()
}

func TestMPIJobIsUndisturbed(t *testing.T) {
	need.MPICH(t)
	s := newSite(t, 2).forwarded()
	r := s.jobOf([]string{world.steady, "6"}, 2, "--node-timeout", "6")
	for range 5 {
		for _, w := range s.workers {
			w.fwd.Reset()
		}
		r.grow(2)
	}
	s.workers[0].signal(syscall.SIGSTOP)
	s.workers[0].fwd.Reset()
	s.last(time.Second)
	s.workers[0].signal(syscall.SIGCONT)
	r.grow(2)
	s.workers[1].fwd.Freeze()
	r.ends(0)
	if n := r.out.ended("end"); n != r.ranks {
		t.Errorf("%d of %d ranks ended well", n, r.ranks)
	}
}

func TestFencesGoOnThroughResets(t *testing.T) {
	s := newSite(t, 2).forwarded()
	need.Program(t, "cc", "gcc")
	r := s.launch(nil, []string{world.bigkvs, "300", "600"}, 4)
	resets := 0
	for over := false; !over; { // a connection that was resumed is reset again at once
		select {
		case <-r.done:
			over = true
		case <-time.After(10 * time.Millisecond):
			for _, w := range s.workers {
				log := w.log.String()
				if resets < 30 && strings.Contains(log, "what=run") && strings.Count(log, "connection resumed") >= strings.Count(log, "connection lost") {
					w.fwd.Reset()
					resets++
				}
			}
		}
	}
	if r.code != 0 || resets == 0 {
		t.Errorf("exit code %d after %d resets", r.code, resets)
	}
}

func TestStalledConnectionRecovers(t *testing.T) {
	s := newSite(t, 1).forwarded()
	r := s.job(2, "--node-timeout", "15", "--launcher-timeout", "20")
	s.workers[0].fwd.Stall()
	s.last(9 * time.Second)
	s.workers[0].fwd.Resume()
	r.survived()
}

func TestConnectionThatNeverRecoversIsReplaced(t *testing.T) {
	s := newSite(t, 2).forwarded()
	r := s.job(2, "--node-timeout", "9", "--launcher-timeout", "20")
	for range 2 {
		for _, w := range s.workers {
			w.fwd.Freeze()
		}
		r.grow(250) // more than were held back
	}
	for _, w := range s.workers { // what was held all the while comes too late
		w.fwd.Resume()
	}
	r.survived()
}

func TestResetWhileASecondConnectionHangs(t *testing.T) {
	s := newSite(t, 1).forwarded()
	w := s.workers[0]
	r := s.job(2, "--node-timeout", "12", "--launcher-timeout", "20")
	w.fwd.Stall()
	lab.Eventually(s.t, "a second connection", func() bool { return w.fwd.Conns() > 1 })
	w.fwd.Reset() // of both; the way is open again at once
	w.fwd.Resume()
	r.survived()
}

func TestStoppedLauncher(t *testing.T) {
	s := newSite(t, 2)
	r := s.job(2)
	r.signal(syscall.SIGSTOP)
	s.last(8 * time.Second)
	r.signal(syscall.SIGCONT)
	r.survived()
}

func TestStoppedAgent(t *testing.T) {
	s := newSite(t, 2)
	r := s.job(2)
	s.workers[0].signal(syscall.SIGSTOP)
	s.last(8 * time.Second)
	s.workers[0].signal(syscall.SIGCONT)
	r.survived()
}

func TestAgentStoppedForTwoLeases(t *testing.T) {
	s := newSite(t, 1)
	r := s.job(2, "--launcher-timeout", "3")
	s.workers[0].signal(syscall.SIGSTOP)
	s.last(7 * time.Second)
	s.workers[0].signal(syscall.SIGCONT)
	r.survived()
}

func TestLauncherStoppedForTwoNodeTimeouts(t *testing.T) {
	s := newSite(t, 1)
	r := s.job(2, "--node-timeout", "3")
	r.signal(syscall.SIGSTOP)
	s.last(7 * time.Second)
	r.signal(syscall.SIGCONT)
	r.survived()
}

func TestQueuedConnectionIsServedBeforeExpiry(t *testing.T) {
	s := newSite(t, 1).forwarded()
	w := s.workers[0]
	r := s.job(2, "--launcher-timeout", "3")
	w.signal(syscall.SIGSTOP)
	w.fwd.Reset() // the launcher redials into the stopped agent's accept queue
	s.last(6 * time.Second)
	w.signal(syscall.SIGCONT)
	r.survived()
}

func TestStarvedLauncherAndAgent(t *testing.T) {
	s := newSite(t, 1).ownLauncher()
	r := s.job(2)
	for _, h := range []string{s.launcher, s.workers[0].host} {
		need.Done(t, "cgroup", s.c.Throttle(h, 0.1), "run where cpu cgroups can be made")
		defer func() { _ = s.c.Throttle(h, 0) }()
	}
	s.last(8 * time.Second)
	r.survived()
}

func TestStarvedFromTheStart(t *testing.T) {
	s := newSite(t, 1).ownLauncher()
	for _, h := range []string{s.launcher, s.workers[0].host} {
		need.Done(t, "cgroup", s.c.Throttle(h, 0.1), "run where cpu cgroups can be made")
		defer func() { _ = s.c.Throttle(h, 0) }()
	}
	s.job(4).survived()
}

func TestCutOffFor10Seconds(t *testing.T) {
	for name, cut := range map[string]func(c *netns.Cluster, launcher, worker string) (func() error, error){
		"both ways":   func(c *netns.Cluster, _, w string) (func() error, error) { return c.CutLink(w) },
		"to agent":    func(c *netns.Cluster, l, w string) (func() error, error) { return c.CutOneWay(l, w) },
		"to launcher": func(c *netns.Cluster, l, w string) (func() error, error) { return c.CutOneWay(w, l) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, 1).ownLauncher()
			r := s.job(2)
			undo, err := cut(s.c, s.launcher, s.workers[0].host)
			if err != nil {
				t.Fatal(err)
			}
			s.last(10 * time.Second)
			if err := undo(); err != nil {
				t.Fatal(err)
			}
			r.survived()
		})
	}
}
