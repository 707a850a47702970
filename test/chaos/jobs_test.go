package chaos

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
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

// trouble is what ends no job, by the default times.
type trouble struct {
	name string
	side int // most jobs side by side: where CPU is what is short, more of them come on too late to be judged
	do   func(s *site) error
}

var harmless = []trouble{
	{"agent SIGSTOP 8 s", 20, func(s *site) error {
		s.workers[0].signal(syscall.SIGSTOP)
		s.last(8 * time.Second)
		s.workers[0].signal(syscall.SIGCONT)
		return nil
	}},
	{"CPU quota of a tenth", 5, func(s *site) error {
		if err := s.c.Throttle(s.workers[0].host, 0.1); err != nil {
			return err
		}
		s.last(8 * time.Second)
		return s.c.Throttle(s.workers[0].host, 0)
	}},
	{"network pause of 10 s", 20, func(s *site) error {
		undo, err := s.c.CutLink(s.workers[0].host)
		if err != nil {
			return err
		}
		s.last(10 * time.Second)
		return undo()
	}},
	{"all cores spinning", 2, func(s *site) error {
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

// falseKills is what became of jobs under one trouble, as it is kept in a file.
type falseKills struct {
	Trouble string
	Side    int      // side by side
	Well    int      // jobs that went on
	Wrong   []string `json:",omitempty"` // of the others: what ended them, or why they could not be judged
	Commit  string
}

// falseKillsFile is where a trouble's are kept.
func falseKillsFile(dir, trouble string) string {
	return filepath.Join(dir, "falsekills."+strings.ReplaceAll(trouble, " ", "_")+".result")
}

// endedWith begins what is kept of a job that was ended.
const endedWith = "the launcher ended with "

// ended is how many jobs were ended.
func (f *falseKills) ended() (n int) {
	for _, w := range f.Wrong {
		if strings.HasPrefix(w, endedWith) {
			n++
		}
	}
	return n
}

// note keeps one job's end.
func (f *falseKills) note(t *testing.T, mu *sync.Mutex, file, wrong string) {
	mu.Lock()
	defer mu.Unlock()
	if wrong == "" {
		f.Well++
	} else {
		f.Wrong = append(f.Wrong, wrong)
	}
	b, err := json.MarshalIndent(f, "", "\t")
	if err == nil {
		err = os.WriteFile(file, append(b, '\n'), 0o644)
	}
	if err != nil {
		t.Error(err)
	}
}

// TestFalseKills runs $MPIUP_FALSE_KILLS jobs, a quarter of them under each of these troubles, as many side by side as
// -parallel says, and two where cores spin. It keeps those that were ended in $MPIUP_CHAOS, where a later run of the same commit
// goes on.
func TestFalseKills(t *testing.T) {
	need.Asked(t, "MPIUP_FALSE_KILLS", "1000, as make false-kills does")
	dir, n := os.Getenv("MPIUP_CHAOS"), max(count(t, "MPIUP_FALSE_KILLS", 0)/len(harmless), 1)
	for _, h := range harmless {
		t.Run(h.name, func(t *testing.T) {
			kept := falseKills{Trouble: h.name, Commit: lab.Commit(), Side: min(h.side, side())}
			file := falseKillsFile(dir, h.name)
			var old falseKills
			if b, err := os.ReadFile(file); err == nil && json.Unmarshal(b, &old) == nil && old.Commit == kept.Commit {
				kept = old
			}
			var mu sync.Mutex
			turns := make(chan struct{}, kept.Side)
			t.Run("jobs", func(t *testing.T) {
				for i := kept.Well + len(kept.Wrong); i < n; i++ {
					t.Run(strconv.Itoa(i), func(t *testing.T) {
						t.Parallel()
						turns <- struct{}{}
						defer func() { <-turns }()
						h.one(t, &kept, &mu, file)
					})
				}
			})
			t.Logf("%d of %d jobs went on", kept.Well, kept.Well+len(kept.Wrong))
		})
	}
}

// side is how many tests run side by side.
func side() int {
	n, err := strconv.Atoi(flag.Lookup("test.parallel").Value.String())
	if err != nil {
		return 1
	}
	return n
}

// one runs a job under a trouble.
func (h trouble) one(t *testing.T, kept *falseKills, mu *sync.Mutex, file string) {
	wrong := "it could not be judged"
	defer func() { kept.note(t, mu, file, wrong) }()
	s := takeSite(t, 2)
	r := s.job(2)
	defer func() {
		if !t.Failed() {
			return
		}
		select {
		case <-r.done:
			wrong = fmt.Sprintf(endedWith+"%d: %s", r.code, strings.ReplaceAll(saidOf(r.err.String()), "\n", "; "))
		default:
			wrong = fmt.Sprintf("it had not come on within %v, and its launcher ran", bound)
		}
	}()
	if err := h.do(s); err != nil {
		t.Fatal(err)
	}
	if r.survived(); !t.Failed() {
		wrong = ""
	}
}
