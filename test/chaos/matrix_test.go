package chaos

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mpiup/mpiup/test/lab"
	"github.com/mpiup/mpiup/test/need"
)

// result is what became of a cell, as it is kept in a file.
type result struct {
	Fault, Phase, Library string
	NA                    string        `json:",omitempty"` // why there is no such cell
	OK                    bool          // it was as expected
	Code                  int           // expected and seen
	Launcher              time.Duration // from the fault to the launcher's end; 0: the job went on
	Ranks                 time.Duration // from the fault to the last rank's end
	Within                time.Duration // the bound
	Lost                  time.Duration // of the time from the fault to the launcher's end the machine kept others waiting
	Again                 bool          `json:",omitempty"` // the ranks started again; Launcher: until they were where the first ones had been
	Wrong                 []string      `json:",omitempty"`
	Commit                string
}

// ci are the cells that every run of the tests has.
var ci = map[string]bool{
	"rank SIGKILL/running":                       true,
	"rank SIGSEGV/in a fence":                    true,
	"rank exits 0 before finalize/in finalize":   true,
	"agent SIGKILL/launching":                    true,
	"agent SIGKILL/gathering":                    true,
	"launcher cut/running":                       true,
	"launcher SIGKILL/in MPI_Init":               true,
	"launcher SIGKILL, ranks held/running":       true,
	"connection reset by a middlebox/in a fence": true,
	"SIGTERM to a worker/running":                true,
	"SIGTERM to the launcher/in a fence":         true,
	"DNS wrong/gathering":                        true,
	"rank SIGKILL, --max-restarts 1/running":     true,
	"agent SIGKILL, --spares 1/in a fence":       true,
}

// TestChaos runs the cells of the matrix: those of ci; all, with the results as files of a directory, where
// $MPIUP_CHAOS names one; any that -run names.
func TestChaos(t *testing.T) {
	need.Netns(t)
	need.MPICH(t)
	need.Program(t, "mpicc.openmpi", "libopenmpi-dev")
	results := os.Getenv("MPIUP_CHAOS")
	named := strings.Contains(flag.Lookup("test.run").Value.String(), "TestChaos/")
	if results == "" {
		t.Parallel()
	}
	for i, f := range matrixFaults {
		t.Run(f.name, func(t *testing.T) {
			for j, p := range matrixPhases {
				if results == "" && !named && !ci[f.name+"/"+p.name] {
					continue
				}
				t.Run(p.name, func(t *testing.T) {
					if results != "" {
						t.Parallel()
					}
					library := []string{"mpich", "openmpi"}[(i+j+swap())%2]
					one(t, f, p, library, results)
				})
			}
		})
	}
}

// swap is 1 to run each cell with the other library.
func swap() int {
	if os.Getenv("MPIUP_CHAOS_SWAP") != "" {
		return 1
	}
	return 0
}

// one runs a cell, unless its result is there already.
func one(t *testing.T, f matrixFault, p phase, library, results string) {
	r := result{Fault: f.name, Phase: p.name, Library: library, Commit: lab.Commit()}
	file := filepath.Join(results, strings.NewReplacer(" ", "_", "/", "_").Replace(f.name+"."+p.name+"."+library)+".json")
	if results != "" {
		var old result
		if b, err := os.ReadFile(file); err == nil && json.Unmarshal(b, &old) == nil && old.OK && old.Commit == r.Commit {
			t.Logf("it was run before: %s", file)
			return
		}
		defer func() {
			r.OK = !t.Failed()
			b, err := json.MarshalIndent(r, "", "\t")
			if err == nil {
				err = os.WriteFile(file, append(b, '\n'), 0o644)
			}
			if err != nil {
				t.Error(err)
			}
		}()
	}
	want := f.expects(p.name, library)
	if r.NA = want.na; r.NA != "" {
		return
	}
	var more []string
	if f.spare {
		more = append(more, spare)
	}
	k := newCell(t, library, more...)
	k.strict = results != ""
	defer func() { r.Wrong = k.wrong }()
	k.run(f, p, want, &r)
}

// expects is what is expected of a cell.
func (f matrixFault) expects(phase, library string) expected {
	for _, cell := range []string{phase + "/" + library, phase} {
		if want, ok := f.in[cell]; ok {
			return want
		}
	}
	return f.most
}

// run is the life of a cell.
func (k *cell) run(f matrixFault, p phase, want expected, r *result) {
	k.t.Helper()
	k.flags = f.flags
	if f.ready != nil {
		f.ready(k)
	}
	before := map[string]map[string]bool{}
	for _, h := range append([]string{launcherHost}, k.hosts...) {
		before[h] = k.things(h)
	}
	p.hold(k)
	k.stays = want.code == 0 && want.within == 0
	k.watch = k.watched()
	k.begun = time.Now()
	k.meter = newMeter()
	defer k.meter.end()
	undo := f.do(k)
	if undo == nil {
		undo = func() {}
	}
	if k.stays {
		undo()
		k.restart()
		k.release()
		k.endsWell(0)
	} else {
		if want.goes {
			k.release()
		} else if p.name == launching {
			k.free()
		}
		if want.again {
			k.startsAgain(p, want, r)
		} else {
			k.fails(want, r)
		}
		undo()
	}
	k.free()
	k.restart()
	for _, h := range append([]string{launcherHost}, k.hosts...) {
		k.left(h, before[h])
	}
	k.next()
}

// endsWell checks that the job ends with all its output, after so many restarts.
func (k *cell) endsWell(restarts int) lab.Result {
	k.t.Helper()
	res := k.result()
	if res.Code != 0 {
		k.fault("the job ended with %d:\n%s", res.Code, summary(res.Stderr))
	} else if k.before != nil {
		k.handedOver()
	} else {
		k.whole(restarts)
	}
	return res
}

// allowed is how much a time may be above its bound: what the machine took of an agent and then of the launcher. CI, which is to fail for
// mpiup alone, allows for more.
func (k *cell) allowed(lost time.Duration) time.Duration {
	if k.strict {
		return 2 * lost
	}
	return max(2*lost, slack)
}

// startsAgain checks that the ranks come to where the first ones were, when those have ended, and that the job ends well.
func (k *cell) startsAgain(p phase, want expected, r *result) {
	k.t.Helper()
	if len(k.hosts) == len(hosts) {
		k.restart() // nobody else comes in
	}
	if r.Again, r.Within = true, want.within; p.name != launching {
		k.arrived(1)
		r.Launcher, r.Lost = time.Since(k.begun), k.meter.lost()
		var err error
		if r.Ranks, err = k.gone(want.within + slack); err != nil || r.Ranks > r.Launcher {
			k.fault("the first ranks ended %v after the fault, the others were there after %v: %v", r.Ranks, r.Launcher, err)
		}
	}
	k.release()
	res := k.endsWell(1)
	k.says(want, res)
	if r.Launcher > want.within+k.allowed(r.Lost) {
		k.fault("the ranks were there again %v after the fault, not within %v; the machine took %v", r.Launcher, want.within, r.Lost)
	}
	k.t.Logf("again after %v, ranks %v, said:\n%s", r.Launcher, r.Ranks, saidOf(res.Stderr))
}

// says checks what the launcher said.
func (k *cell) says(want expected, res lab.Result) {
	k.t.Helper()
	for _, text := range want.says {
		if !strings.Contains(res.Stderr, text) {
			k.fault("the launcher does not say %q, but:\n%s", text, saidOf(res.Stderr))
		}
	}
}

// fails checks that the launcher ends as expected, in its bound, and the ranks too.
func (k *cell) fails(want expected, r *result) {
	k.t.Helper()
	res := k.result()
	r.Code, r.Within = res.Code, want.within
	r.Launcher, r.Lost = res.Took-k.begun.Sub(k.job.Begun), k.meter.lost()
	if res.Code != want.code {
		k.fault("the launcher ended with %d, not %d, and said:\n%s", res.Code, want.code, saidOf(res.Stderr))
	}
	k.says(want, res)
	if r.Launcher > want.within+k.allowed(r.Lost) {
		k.fault("the launcher ended %v after the fault, not within %v; the machine took %v", r.Launcher, want.within, r.Lost)
	}
	if want.ranks == 0 {
		want.ranks = want.within
	}
	if want.ranks != forever {
		var err error
		if r.Ranks, err = k.gone(want.ranks + slack); err != nil {
			k.fault("%v", err)
		} else if lost := k.meter.lost(); r.Ranks > want.ranks+k.allowed(lost) {
			k.fault("the last rank ended %v after the fault, not within %v; the machine took %v", r.Ranks, want.ranks, lost)
		}
	}
	k.t.Logf("launcher %v, ranks %v, said:\n%s", r.Launcher, r.Ranks, saidOf(res.Stderr))
}

var compiled struct {
	mu   sync.Mutex
	made map[string]string // guarded by mu
}

// phases is the job's program with a library.
func phases(t *testing.T, library string) string {
	t.Helper()
	compiled.mu.Lock()
	defer compiled.mu.Unlock()
	if compiled.made[library] == "" {
		exe := filepath.Join(world.dir, fmt.Sprintf("phases.%s", library))
		if err := lab.Compile("mpicc."+library, "phases", exe); err != nil {
			t.Fatal(err)
		}
		if compiled.made == nil {
			compiled.made = map[string]string{}
		}
		compiled.made[library] = exe
	}
	return compiled.made[library]
}
