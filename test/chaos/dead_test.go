package chaos

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mpiup/mpiup/test/lab"
)

// What is dead is noticed, by name, in time, and leaves nothing.

func TestSilenceEndsBothSides(t *testing.T) {
	s := newSite(t, 2).forwarded()
	r := s.jobOf(grandchild(), 2, "--launcher-timeout", "3", "--node-timeout", "8", "--grace", "1")
	begun := time.Now()
	s.workers[1].fwd.Stall()
	s.workers[1].gone()                                        // by its own lease, while the launcher still waits
	took(t, "the lease", begun, 2*time.Second, 40*time.Second) // the last heartbeat was a while before
	r.running("before --node-timeout")
	r.ends(248, "host "+s.workers[1].name+" with ranks 2-3 does not answer", "--node-timeout", "see by the host's log why it or its agent ended")
	took(t, "giving up", begun, 6*time.Second, 60*time.Second) // the last heartbeat was a while before
	s.workers[0].gone()
}

// slack is what a busy machine may add to a time that is promised.
const slack = 1500 * time.Millisecond

func TestKilledLauncherLeavesNothing(t *testing.T) {
	s := newSite(t, 2)
	r := s.jobOf(grandchild("-deaf"), 8, "--grace", "2")
	for _, w := range s.workers {
		lab.Eventually(s.t, "8 ranks and 8 grandchildren on "+w.host, func() bool { return len(w.processes()) == 16 })
	}
	begun := time.Now()
	r.signal(syscall.SIGKILL)
	for _, w := range s.workers {
		w.gone()
	}
	took(t, "the end of the ranks", begun, 3*time.Second-slack, 3*time.Second+slack) // 1 s, then 2 s of grace
}

func TestKilledAgentIsNoticedAtOnce(t *testing.T) {
	s := newSite(t, 2)
	r := s.job(2)
	begun := time.Now()
	s.workers[1].kill()
	r.ends(248, "host "+s.workers[1].name+" with ranks 2-3 was lost", "refused")
	took(t, "giving up", begun, 0, 20*time.Second)
	s.workers[0].gone()
}

// restartedAgent kills the agent and starts another while the launcher's path is stalled, so
// that the launcher first meets the new one.
func restartedAgent(t *testing.T, init bool) {
	s := newSite(t, 2).forwarded()
	w := s.workers[1]
	if !init {
		w.kill()
		if err := s.c.Boot(w.host); err != nil {
			t.Fatal(err)
		}
		w.init = false
		w.start()
	}
	r := s.jobOf(grandchild(), 2)
	w.fwd.Stall()
	w.kill()
	w.start()
	begun := time.Now()
	w.fwd.Reset()
	w.fwd.Resume()
	r.ends(248, "host "+w.name+" with ranks 2-3 was lost", "its agent was restarted")
	took(t, "giving up", begun, 0, 20*time.Second)
	s.workers[0].gone()
	w.gone() // by the guard of the killed agent, where that was not PID 1
}

func TestRestartedContainerIsNoticedAtOnce(t *testing.T) { restartedAgent(t, true) }

func TestRestartedAgentInOneContainerIsNoticedAtOnce(t *testing.T) { restartedAgent(t, false) }

func TestUnpluggedHostIsGivenUp(t *testing.T) {
	s := newSite(t, 2)
	r := s.job(2, "--node-timeout", "5", "--launcher-timeout", "7", "--grace", "1")
	begun := time.Now()
	undo, err := s.c.CutLink(s.workers[1].host)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = undo() }()
	r.ends(248, "host "+s.workers[1].name+" with ranks 2-3 was lost", "nothing was heard from it for 5s")
	took(t, "giving up", begun, 3*time.Second, 40*time.Second) // the last heartbeat was a while before
	s.workers[0].gone()
	s.workers[1].gone()
}

func TestPreemptedAgentSaysSo(t *testing.T) {
	s := newSite(t, 2, "--grace", "3")
	r := s.job(2)
	s.workers[1].signal(syscall.SIGTERM)
	r.ends(249, "host "+s.workers[1].name+" with ranks 2-3 is being taken away", "SIGTERM: see by the host's log who ended it")
	if n := r.out.ended("term"); n != r.ranks {
		t.Errorf("%d of %d ranks saw SIGTERM", n, r.ranks)
	}
	_ = s.workers[1].agent.Wait()
	if c := s.workers[1].agent.ProcessState.ExitCode(); c != 143 {
		t.Errorf("the agent exits with %d", c)
	}
	s.workers[0].gone()
}

func TestTimeLimit(t *testing.T) {
	s := newSite(t, 1)
	r := s.job(2, "--timeout", "4")
	r.ends(110, "--timeout 4s")
	took(t, "the run", r.begun, 4*time.Second, 40*time.Second)
	s.workers[0].gone()
}

func TestInterruptWhileGathering(t *testing.T) {
	s := newSite(t, 1)
	s.workers = append(s.workers, &worker{s: s, name: "nobody"})
	defer func() { s.workers = s.workers[:1] }()
	r := s.launch(nil, []string{"true"}, 1)
	lab.Eventually(s.t, "it says who is missing", func() bool { return strings.Contains(r.err.String(), "nobody") })
	r.signal(syscall.SIGINT)
	begun := time.Now()
	r.ends(130)
	took(t, "the end", begun, 0, 20*time.Second)
}

func TestLateHostIsWaitedForBeyondTheLease(t *testing.T) {
	s := newSite(t, 2)
	late := s.workers[1]
	late.kill()
	r := s.launch(nil, []string{world.counter}, 1, "--launcher-timeout", "2", "--node-timeout", "30")
	s.last(6 * time.Second)
	late.start()
	r.grow(2)
	r.survived()
}

func TestHostThatRestartsWhileOthersAreWaitedFor(t *testing.T) {
	s := newSite(t, 2)
	early, late := s.workers[0], s.workers[1]
	late.kill()
	r := s.launch(nil, []string{world.counter}, 1)
	lab.Eventually(s.t, "one is there", func() bool { return strings.Contains(r.err.String(), late.name) })
	s.last(2 * time.Second)
	early.kill()
	early.start()
	s.last(2 * time.Second)
	late.start()
	r.grow(2)
	r.survived()
}
