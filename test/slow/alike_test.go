package slow

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mpiup/mpiup/test/lab"
	"github.com/mpiup/mpiup/test/need"
)

// habit is what balanced programs do (test/mpi/balanced.c).
type habit struct {
	name  string
	ranks int
	step  float64
}

// Those that use processors have no more ranks than there are, but for "polls", which is about the scheduler.
var habits = []habit{
	{"alike", 4, 0.02}, {"alike", 12, 0.05}, {"starts", 4, 0.02}, {"checkpoints", 4, 0.02}, {"evaluates", 4, 0.02}, {"pipeline", 4, 0.02}, {"pipeline", 3, 0.01}, {"stream", 4, 0.02},
	{"workers", 4, 0.02}, {"workers", 6, 0.02}, {"halo", 6, 0.02}, {"moves", 4, 0.02}, {"phases", 6, 0.02}, {"computes", 2, 0.02}, {"polls", 4, 0.02},
}

// apps are real applications that Debian has, of Open MPI, by the folder of testdata/apps with what they read; SECONDS in it is for how long they
// go on. Those that are not here are left out. hpcc alone has its own time.
var apps = []struct{ name, dir, program, script string }{
	{"LAMMPS", "lammps", "lmp", "lmp -in in.melt"},
	{"Quantum ESPRESSO", "espresso", "pw.x", "pw.x -in pw.in; case $? in 2 | 255) ;; *) exit 1 ;; esac"}, // its time was over
	{"hpcc", "hpcc", "hpcc", "hpcc"},
}

// Windows: nobody may be named in a run of four times that, which is more than a name needs three times.
const (
	shortWindow = 2 * time.Second
	realWindow  = time.Minute
	mostLoad    = 45
)

// kind is a program of one library that runs.
type kind struct {
	habit
	library, script string
	rests           bool // it leaves the processors to others while it waits (test/mpi/step.c), as ranks do that have one each
}

// seldom is in how many rounds a program that uses processors all the time runs once. In the other rounds none polls.
const seldom = 4

// kinds are rounds of all balanced programs that are here, but for hpcc where it would have to go on for minutes.
func kinds(window time.Duration) (all []kind) {
	for round := range seldom {
		for _, h := range habits {
			if round == 0 || h.name != "polls" && h.name != "computes" {
				all = append(all, kind{h, "MPICH", "", round > 0}, kind{h, "Open MPI", "", round > 0})
			}
		}
		for _, a := range apps {
			if _, err := exec.LookPath(a.program); err == nil && round == 0 && (a.name != "hpcc" || window == shortWindow) {
				all = append(all, kind{habit{a.name, 2, 0}, "Open MPI", a.script, false})
			}
		}
	}
	return all
}

// command is what each of its ranks runs for so long, in a directory of the run's own.
func (k kind) command(dir string, long time.Duration, seed int) ([]string, error) {
	if k.script == "" {
		return []string{world.balanced[k.library], k.name, fmt.Sprint(long.Seconds()), fmt.Sprint(k.step), fmt.Sprint(seed)}, nil
	}
	i := slices.IndexFunc(apps, func(a struct{ name, dir, program, script string }) bool { return a.name == k.name })
	files, err := filepath.Glob(filepath.Join("testdata", "apps", apps[i].dir, "*"))
	for _, file := range files {
		text, err2 := os.ReadFile(file)
		text = bytes.ReplaceAll(text, []byte("SECONDS"), fmt.Append(nil, long.Seconds()))
		err = errors.Join(err, err2, os.WriteFile(filepath.Join(dir, filepath.Base(file)), text, 0o644))
	}
	if k.name == "Quantum ESPRESSO" {
		text, err2 := pseudopotential()
		err = errors.Join(err, err2, os.WriteFile(filepath.Join(dir, "H.UPF"), text, 0o644))
	}
	return []string{"sh", "-c", "cd " + dir + " && " + k.script}, err
}

// pseudopotential is one of hydrogen's, as Quantum ESPRESSO's own program makes it.
var pseudopotential = sync.OnceValues(func() ([]byte, error) {
	text, err := os.ReadFile("testdata/apps/espresso/ld1.in")
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("ld1.x")
	cmd.Dir, cmd.Stdin = world.dir, bytes.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("ld1.x: %w: %s", err, out)
	}
	return os.ReadFile(filepath.Join(world.dir, "H.UPF"))
})

// balancedRun runs one once, and returns whom mpiup names.
func balancedRun(ctx context.Context, k kind, window time.Duration, seed int) (named []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, bound+10*window)
	defer cancel()
	dir, err := os.MkdirTemp(world.dir, "run-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	program, err := k.command(dir, 4*window, seed)
	if err != nil {
		return nil, err
	}
	j := job{ranks: k.ranks, onFirst: (k.ranks + 1) / 2, last: second, window: window, program: program}
	if k.rests {
		j.flags = []string{"-x", "STEP_REST=1"}
	}
	p, err := j.start(ctx)
	if err != nil {
		return nil, err
	}
	<-p.Done // or ctx ends it
	r, err := p.End()
	if named = said(r.Stderr); err == nil && r.Code != 0 {
		err = fmt.Errorf("code %d\n%s", r.Code, r.Stderr)
	}
	return named, err
}

// TestAlike is what CI runs of this: each habit once.
func TestAlike(t *testing.T) {
	t.Parallel()
	hosted(t)
	for i, h := range habits {
		library := []string{"MPICH", "Open MPI"}[i%2]
		t.Run(fmt.Sprintf("%s of %d, %s", h.name, h.ranks, library), func(t *testing.T) {
			t.Parallel()
			named, err := balancedRun(t.Context(), kind{h, library, "", false}, shortWindow, i)
			if err != nil || len(named) > 0 {
				t.Errorf("%v, %q", err, named)
			}
		})
	}
}

// counts are runs of one habit, in a file of such lines.
type counts struct {
	habit, program string
	ranks          int
	window         time.Duration
	runs, names    int
	load           float64 // the highest
	commit         string
}

const countsHead = "habit\tprogram\tranks\twindow\truns\tfalse names\thighest load\tcommit\n"

func (c counts) line() string {
	return fmt.Sprintf("%s\t%s\t%d\t%s\t%d\t%d\t%.0f\t%s\n", c.habit, c.program, c.ranks, c.window, c.runs, c.names, c.load, c.commit)
}

func parseCounts(line string) (c counts, err error) {
	f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
	if len(f) != 8 {
		return c, fmt.Errorf("a line of %d cells: %q", len(f), line)
	}
	c = counts{habit: f[0], program: f[1], commit: f[7]}
	if c.window, err = time.ParseDuration(f[3]); err == nil {
		_, err = fmt.Sscan(strings.Join([]string{f[2], f[4], f[5], f[6]}, " "), &c.ranks, &c.runs, &c.names, &c.load)
	}
	return c, err
}

// tally is the file of counts.
type tally struct {
	mu   sync.Mutex
	path string
	list []counts // guarded by mu
}

func readTally(path string) (*tally, error) {
	x := &tally{path: path}
	text, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	for line := range strings.Lines(strings.TrimPrefix(string(text), countsHead)) {
		c, err := parseCounts(line)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		x.list = append(x.list, c)
	}
	return x, nil
}

// add counts a run, and writes the file.
func (x *tally) add(c counts) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	i := slices.IndexFunc(x.list, func(o counts) bool {
		return o.habit == c.habit && o.program == c.program && o.ranks == c.ranks && o.window == c.window && o.commit == c.commit
	})
	if i < 0 {
		i, x.list = len(x.list), append(x.list, counts{habit: c.habit, program: c.program, ranks: c.ranks, window: c.window, commit: c.commit})
	}
	at := &x.list[i]
	at.runs, at.names, at.load = at.runs+c.runs, at.names+c.names, max(at.load, c.load)
	text := countsHead
	for _, o := range x.list {
		text += o.line()
	}
	return os.WriteFile(x.path, []byte(text), 0o644)
}

// all are the runs in the file.
func (x *tally) all(window time.Duration) (runs int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, c := range x.list {
		if c.window == window {
			runs += c.runs
		}
	}
	return runs
}

// TestFalseNames makes runs until docs/data/false-names.tsv has $MPIUP_FALSE_NAMES of them, as many side by side as $MPIUP_SLOW_SIDE says, with
// a window of 2 s or with $MPIUP_FALSE_NAMES_WINDOW. None begins at a load above 45, or after $MPIUP_SLOW_FOR seconds.
func TestFalseNames(t *testing.T) {
	need.Asked(t, "MPIUP_FALSE_NAMES", "1000, as make false-names does")
	hosted(t)
	root, err := lab.Root()
	if err != nil {
		t.Fatal(err)
	}
	x, err := readTally(filepath.Join(root, "docs", "data", "false-names.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	window := shortWindow
	if os.Getenv("MPIUP_FALSE_NAMES_WINDOW") == "1m" {
		window = realWindow
	}
	end := time.Now().Add(time.Duration(number("MPIUP_SLOW_FOR", 24*3600)) * time.Second)
	of := kinds(window)
	turns, at := make(chan struct{}, number("MPIUP_SLOW_SIDE", 6)), lab.Commit()
	var wg sync.WaitGroup
	for i := x.all(window); i < number("MPIUP_FALSE_NAMES", 0); i++ {
		turns <- struct{}{}
		for load, _ := lab.Load(); load > mostLoad && time.Now().Before(end); load, _ = lab.Load() {
			rest(context.Background(), time.Second)
		}
		if time.Now().After(end) {
			break
		}
		wg.Go(func() {
			defer func() { <-turns }()
			k := of[i%len(of)]
			seed := rand.IntN(1 << 20)
			named, err := balancedRun(context.Background(), k, window, seed)
			if err != nil {
				t.Errorf("%s of %d, %s: %v", k.name, k.ranks, k.library, err)
				return
			}
			load, _ := lab.Load()
			if len(named) > 0 {
				t.Errorf("%s of %d, %s, seed %d, load %.0f: %q", k.name, k.ranks, k.library, seed, load, named)
			}
			habit := k.name
			if k.rests {
				habit += ", rests"
			}
			if err := x.add(counts{habit, k.library, k.ranks, window, 1, min(len(named), 1), load, at}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	t.Logf("%d runs are in %s", x.all(window), x.path)
}
