package kube_test

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/mpiup/mpiup/test/lab"
	"github.com/mpiup/mpiup/test/netns"
)

// gossipers are five workers that know of each other through the service's records only.
func gossipers(t *testing.T) []*pod {
	t.Helper()
	j := newMPIJob(t, netns.IPv4, "OpenMPI", 5).mount().up()
	for _, w := range j.workers {
		lab.Eventually(t, w.name+" knows all", func() bool { return census(t, w).alive == 5 })
	}
	return j.workers
}

// counts is an agent's own view, as its metrics have it.
type counts struct{ alive, suspect, left int }

var gauge = regexp.MustCompile(`(?m)^mpiup_peers\{state="(\w+)"\} (\d+)$`)

// census asks the agent of a pod; all 0 where it does not answer.
func census(t *testing.T, p *pod) (c counts) {
	t.Helper()
	out, _ := p.exec(t.Context(), "bash", "-c",
		`exec 3<>/dev/tcp/127.0.0.1/7612 && printf 'GET /metrics HTTP/1.0\r\n\r\n' >&3 && cat <&3`)
	for _, m := range gauge.FindAllStringSubmatch(out, -1) {
		n, err := strconv.Atoi(m[2])
		must(t, err)
		switch m[1] {
		case "alive":
			c.alive = n
		case "suspect":
			c.suspect = n
		case "left":
			c.left = n
		}
	}
	return c
}

// One of five is killed with its pod's network left in place: the others suspect it within
// 10 s and have dropped it after 30 (and a half more, for a slow machine).
func TestGossipDropsTheDead(t *testing.T) {
	t.Parallel()
	w := gossipers(t)
	begun := time.Now()
	must(t, w[4].Kill(w[4].name))
	seen := map[string]time.Duration{}
	if !within(t.Context(), 45*time.Second, func() bool {
		all := true
		for _, p := range w[:4] {
			c := census(t, p)
			if c.alive == 4 && seen["suspect "+p.name] == 0 {
				seen["suspect "+p.name] = time.Since(begun)
			}
			all = all && c == counts{alive: 4}
		}
		return all
	}) {
		t.Errorf("not dropped by all within 45 s")
	}
	t.Logf("dropped by all after %v; %v", time.Since(begun), seen)
	for _, p := range w[:4] {
		if d := seen["suspect "+p.name]; d == 0 || d > 15*time.Second {
			t.Errorf("%s suspected it after %v", p.name, d)
		}
	}
	out, code := w[0].exec(t.Context(), w[0].bin, "peers", "--host", "localhost")
	result{out: out, code: code}.says(t, 0, " alive ")
}

// An agent stopped for 8 s, one that has a tenth of a core, one whose cable is out for 10 s:
// nobody undisturbed ever drops one of them, and all are alive in the end.
func TestGossipDropsNoneAlive(t *testing.T) {
	t.Parallel()
	w := gossipers(t)
	stopped, slow, cut := w[1], w[2], w[3]
	if err := slow.Throttle(slow.name, 0.1); err != nil && !errors.Is(err, netns.ErrNoCgroup) {
		t.Fatal(err)
	}
	undo, err := cut.CutLink(cut.name)
	must(t, err)
	must(t, stopped.current.Process.Signal(syscall.SIGSTOP))
	begun := time.Now()
	observers, worst := []*pod{w[0], w[4]}, counts{alive: 5}
	calm := 0
	within(t.Context(), 40*time.Second, func() bool {
		if undo != nil && time.Since(begun) > 10*time.Second {
			must(t, undo())
			undo = nil
		}
		if stopped != nil && time.Since(begun) > 8*time.Second {
			must(t, stopped.current.Process.Signal(syscall.SIGCONT))
			stopped = nil
		}
		all := true
		for _, p := range observers {
			c := census(t, p)
			if c.alive+c.suspect < worst.alive+worst.suspect || c.suspect > worst.suspect {
				worst = c
			}
			all = all && c.alive == 5
		}
		if calm++; !all || undo != nil || stopped != nil {
			calm = 0
		}
		return calm > 40 // past the suspicion's end
	})
	t.Logf("at worst %d alive and %d suspected; all alive again at %v", worst.alive, worst.suspect, time.Since(begun))
	if worst.alive+worst.suspect < 5 {
		t.Errorf("somebody alive was dropped: at worst %d alive, %d suspected", worst.alive, worst.suspect)
	}
	if calm <= 40 {
		t.Errorf("not all are alive again: %s", fmt.Sprint(census(t, w[0]), census(t, w[4])))
	}
}
