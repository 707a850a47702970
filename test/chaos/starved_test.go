package chaos

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mpiup/mpiup/test/lab"
	"github.com/mpiup/mpiup/test/need"
)

// scarcity is how little of the processors hosts have whose jobs poll, and how many jobs there are.
type scarcity struct {
	name    string
	library string
	cores   float64 // of each of two hosts, agent and ranks together
	most    int     // jobs, of $MPIUP_STARVED
	side    int     // of them side by side
	usual   int     // jobs without $MPIUP_STARVED
	seconds string  // that each polls
}

var scarcities = []scarcity{
	{"two cores for 20 jobs, MPICH", "mpich", 2, 200, 20, 6, "2"},
	{"two cores for 20 jobs, Open MPI", "openmpi", 2, 200, 20, 6, "2"},
	{"3 % of a processor, MPICH", "mpich", 0.03, 20, 20, 1, "2"},
	{"3 % of a processor, Open MPI", "openmpi", 0.03, 20, 20, 1, "2"},
}

// TestStarvedHosts runs jobs of four ranks that poll, on two hosts that are short of processors, by the default times: none of them ends
// falsely. $MPIUP_STARVED is how many there are of each kind, at most 200 of 20 side by side, and 20 where the hosts have 3 %; a few without.
func TestStarvedHosts(t *testing.T) {
	for _, sc := range scarcities {
		t.Run(sc.name, func(t *testing.T) {
			if sc.library == "mpich" {
				need.MPICH(t)
			} else {
				need.Program(t, "mpicc.openmpi", "libopenmpi-dev")
			}
			exe := filepath.Join(world.dir, "spinning."+sc.library)
			if err := lab.Compile("mpicc."+sc.library, "spinning", exe); err != nil {
				t.Fatal(err)
			}
			sc.run(t, exe)
		})
	}
}

// run runs the jobs, and tells of each that did not end well.
func (sc scarcity) run(t *testing.T, exe string) {
	s := takeSite(t, 2).ownLauncher()
	for _, w := range s.workers {
		if err := s.c.Throttle(w.host, sc.cores); err != nil {
			t.Fatal(err)
		}
	}
	n := min(count(t, "MPIUP_STARVED", sc.usual), sc.most)
	turns := make(chan struct{}, sc.side)
	var all sync.WaitGroup
	var mu sync.Mutex
	well, highest, longest, begun := 0, 0.0, time.Duration(0), time.Now()
	for i := range n {
		turns <- struct{}{}
		all.Go(func() {
			defer func() { <-turns }()
			at := time.Now()
			wrong := sc.one(s, exe)
			mu.Lock()
			defer mu.Unlock()
			highest, longest = max(highest, load()), max(longest, time.Since(at))
			if wrong == "" {
				well++
			} else {
				t.Errorf("job %d, after %v, load %.0f: %s", i, time.Since(at).Round(time.Second), load(), wrong)
			}
		})
	}
	all.Wait()
	t.Logf("%d of %d jobs ended well, %d side by side, in %v, the slowest in %v; load up to %.0f on %d processors",
		well, n, min(sc.side, n), time.Since(begun).Round(time.Second), longest.Round(time.Second), highest, runtime.NumCPU())
	for _, w := range s.workers {
		if err := s.c.Throttle(w.host, 0); err != nil {
			t.Error(err)
		}
	}
}

// one runs a job and says what was wrong with its end; "": nothing.
func (sc scarcity) one(s *site, exe string) (wrong string) {
	var hosts []string
	for _, w := range s.workers {
		hosts = append(hosts, w.name+":2")
	}
	r := s.command(4, []string{world.mpiup, "run", "--key", world.key, "--host", strings.Join(hosts, ","), "--stdin", "none", "-n", "4",
		"--", exe, sc.seconds})
	select {
	case <-r.done:
	case <-time.After(20 * time.Minute):
		return "it has not ended"
	}
	if ends := r.out.ended("end"); r.code != 0 || ends != 4 {
		return fmt.Sprintf(endedWith+"%d, %d of 4 ranks had finalized: %s", r.code, ends, strings.ReplaceAll(saidOf(r.err.String()), "\n", "; "))
	}
	return ""
}

// load is the machine's load average of the last minute.
func load() (l float64) {
	b, _ := os.ReadFile("/proc/loadavg")
	_, _ = fmt.Sscan(string(b), &l)
	return l
}
