package chaos

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mpiup/mpiup/test/need"
)

// fault is one kind of trouble that a job has to survive, and how long it may last.
type fault struct {
	name string
	most time.Duration
	do   func(k *soak, w *worker, d time.Duration) error
}

// faults are drawn from by the soak. A reset together with what keeps the launcher from
// redialling within a second is none: that is a launcher's death, by contract.
var faults = []fault{
	{"reset", 0, func(_ *soak, w *worker, _ time.Duration) error { w.fwd.Reset(); return nil }},
	{"close", 0, func(_ *soak, w *worker, _ time.Duration) error { w.fwd.CloseConns(); return nil }},
	{"reset everywhere", 0, func(k *soak, _ *worker, _ time.Duration) error {
		for _, w := range k.workers {
			w.fwd.Reset()
		}
		return nil
	}},
	{"delay", 50 * time.Millisecond, func(_ *soak, w *worker, d time.Duration) error { w.fwd.Delay(d); return nil }},
	{"stall", 9 * time.Second, func(k *soak, w *worker, d time.Duration) error {
		w.fwd.Stall()
		k.last(d)
		w.fwd.Resume()
		return nil
	}},
	{"freeze", 12 * time.Second, func(k *soak, w *worker, d time.Duration) error {
		w.fwd.Freeze()
		k.last(d)
		w.fwd.Resume()
		return nil
	}},
	{"stop launcher", 8 * time.Second, func(k *soak, _ *worker, d time.Duration) error {
		k.run.signal(syscall.SIGSTOP)
		k.last(d)
		k.run.signal(syscall.SIGCONT)
		return nil
	}},
	{"stop agent", 8 * time.Second, func(k *soak, w *worker, d time.Duration) error {
		w.signal(syscall.SIGSTOP)
		k.last(d)
		w.signal(syscall.SIGCONT)
		return nil
	}},
	{"stop agent and reset", 8 * time.Second, func(k *soak, w *worker, d time.Duration) error {
		w.signal(syscall.SIGSTOP)
		w.fwd.Reset()
		k.last(d)
		w.signal(syscall.SIGCONT)
		return nil
	}},
	{"cut agent off", 8 * time.Second, func(k *soak, w *worker, d time.Duration) error {
		return k.cut(d, func() (func() error, error) { return k.c.CutLink(w.host) })
	}},
	{"cut launcher off", 8 * time.Second, func(k *soak, _ *worker, d time.Duration) error {
		return k.cut(d, func() (func() error, error) { return k.c.CutLink(k.launcher) })
	}},
	{"starve agent", 6 * time.Second, func(k *soak, w *worker, d time.Duration) error { return k.starve(w.host, d) }},
	{"starve launcher", 6 * time.Second, func(k *soak, _ *worker, d time.Duration) error { return k.starve(k.launcher, d) }},
}

// soak is a site under random faults.
type soak struct {
	*site
	run *run
}

func (k *soak) cut(d time.Duration, cut func() (func() error, error)) error {
	undo, err := cut()
	if err != nil {
		return err
	}
	k.last(d)
	return undo()
}

func (k *soak) starve(host string, d time.Duration) error {
	if err := k.c.Throttle(host, 0.1); err != nil {
		return err
	}
	k.last(d)
	return k.c.Throttle(host, 0)
}

// TestSoak runs jobs under random faults for $MPIUP_SOAK, such as 5m; $MPIUP_SOAK_SEED repeats
// a run's faults (their moments depend on the machine).
func TestSoak(t *testing.T) {
	length, err := time.ParseDuration(need.Asked(t, "MPIUP_SOAK", "5m, as make soak does"))
	if err != nil {
		t.Fatal(err)
	}
	seed, err := strconv.ParseUint(os.Getenv("MPIUP_SOAK_SEED"), 10, 64)
	if err != nil {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("MPIUP_SOAK_SEED=%d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	k := &soak{site: newSite(t, 3).ownLauncher().forwarded()}
	n := 0
	for begun := time.Now(); time.Since(begun) < length; {
		k.run = k.job(2)
		for range 8 {
			w, f := k.workers[rng.IntN(len(k.workers))], faults[rng.IntN(len(faults))]
			d := time.Duration(rng.Int64N(int64(f.most) + 1))
			t.Logf("%v: %s, %s, %v", time.Since(begun).Round(time.Millisecond), f.name, w.host, d.Round(time.Millisecond))
			if err := f.do(k, w, d); err != nil {
				t.Fatal(err)
			}
			k.run.grow(1 + rng.IntN(50))
			n++
		}
		k.run.survived()
		for _, w := range k.workers {
			w.fwd.Delay(0)
			if rss := residentKB(t, w.agent.Process.Pid); rss > 128<<10 {
				t.Errorf("the agent on %s has %d kB resident", w.host, rss)
			}
		}
	}
	t.Logf("%d faults in %v", n, length)
}

// residentKB is a process's resident set (proc(5), VmRSS).
func residentKB(t *testing.T, pid int) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), "VmRSS:")
	kb, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return kb
}
