package chaos

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/mpiup/mpiup/test/lab"
	"github.com/mpiup/mpiup/test/need"
)

// count is a number from the environment, or the usual one.
func count(t *testing.T, variable string, usual int) int {
	t.Helper()
	n, err := strconv.Atoi(os.Getenv(variable))
	if err != nil {
		return usual
	}
	return n
}

// usage is what an agent has of what could grow from job to job.
type usage struct{ kB, descriptors, threads, goroutines int }

// use reads an agent's usage.
func (w *worker) use() usage {
	w.s.t.Helper()
	pid := w.agent.Process.Pid
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		w.s.t.Fatal(err)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		w.s.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "\nThreads:")
	threads, _ := strconv.Atoi(strings.Fields(rest)[0])
	return usage{residentKB(w.s.t, pid), len(fds), threads, w.goroutines()}
}

// goroutines is the agent's own count, which its metrics have.
func (w *worker) goroutines() int {
	w.s.t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return w.s.c.Dial(ctx, w.host, network, metricsAt)
		}}}
	resp, err := client.Get("http://" + metricsAt + "/metrics")
	if err != nil {
		w.s.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		w.s.t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(body), "\ngo_goroutines ")
	n, err := strconv.Atoi(strings.Fields(rest + " ")[0])
	if !ok || err != nil {
		w.s.t.Fatalf("no go_goroutines in the agent's metrics: %v", err)
	}
	return n
}

const metricsAt = "127.0.0.1:19999"

// TestSoakJobs runs short jobs back to back on the same agents, 50 of them, or $MPIUP_SOAK_JOBS: nothing grows.
func TestSoakJobs(t *testing.T) {
	n := count(t, "MPIUP_SOAK_JOBS", 50)
	s := newSite(t, 2, "--http", metricsAt)
	var warm []usage
	for i := range n {
		s.launch(nil, []string{"true"}, 2).ends(0)
		if i == n/2 { // half of the jobs have filled what is filled once
			for _, w := range s.workers {
				warm = append(warm, w.use())
			}
		}
	}
	for i, w := range s.workers {
		var now usage
		lab.Eventually(t, "the agent on "+w.host+" has no more descriptors and goroutines than after half of the jobs", func() bool {
			now = w.use()
			return now.descriptors <= warm[i].descriptors && now.goroutines <= warm[i].goroutines
		})
		t.Logf("%s after %d jobs: %+v; after half of them: %+v", w.host, n, now, warm[i])
		if now.kB > warm[i].kB+(8<<10) || now.threads > warm[i].threads+4 {
			t.Errorf("the agent on %s has grown from %+v to %+v", w.host, warm[i], now)
		}
	}
}

// harmless are troubles that end no job, by the default times.
var harmless = []struct {
	name string
	do   func(s *site) error
}{
	{"agent SIGSTOP 8 s", func(s *site) error {
		s.workers[0].signal(syscall.SIGSTOP)
		s.last(8 * time.Second)
		s.workers[0].signal(syscall.SIGCONT)
		return nil
	}},
	{"CPU quota of a tenth", func(s *site) error {
		if err := s.c.Throttle(s.workers[0].host, 0.1); err != nil {
			return err
		}
		s.last(8 * time.Second)
		return s.c.Throttle(s.workers[0].host, 0)
	}},
	{"network pause of 10 s", func(s *site) error {
		undo, err := s.c.CutLink(s.workers[0].host)
		if err != nil {
			return err
		}
		s.last(10 * time.Second)
		return undo()
	}},
	{"all cores spinning", func(s *site) error {
		ctx, cancel := context.WithCancel(s.t.Context())
		defer cancel()
		var all []*lab.Process
		for range 4 {
			p, err := lab.Start(s.c.Command(ctx, s.workers[0].host, "sh", "-c", "while :; do :; done"))
			if err != nil {
				return err
			}
			all = append(all, p)
		}
		s.last(8 * time.Second)
		cancel()
		for _, p := range all {
			<-p.Done
		}
		return nil
	}},
}

// TestFalseKills runs $MPIUP_FALSE_KILLS jobs under each of these troubles, as many side by side as -parallel says, and
// counts those that were ended.
func TestFalseKills(t *testing.T) {
	need.Asked(t, "MPIUP_FALSE_KILLS", "1000, as make false-kills does")
	n := count(t, "MPIUP_FALSE_KILLS", 1)
	for _, h := range harmless {
		t.Run(h.name, func(t *testing.T) {
			var well atomic.Int32
			t.Run("runs", func(t *testing.T) {
				for i := range n {
					t.Run(strconv.Itoa(i), func(t *testing.T) {
						s := newSite(t, 2)
						r := s.job(2)
						if err := h.do(s); err != nil {
							t.Fatal(err)
						}
						r.survived()
						well.Add(1)
					})
				}
			})
			t.Logf("%d of %d jobs went on", well.Load(), n)
		})
	}
}
