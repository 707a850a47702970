package integration

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	testlab "github.com/mpiup/mpiup/test/lab"
	"github.com/mpiup/mpiup/test/need"
	"github.com/mpiup/mpiup/test/netns"
)

// library is libmpiup-watch.so, beside the binary that hosts run.
func (l *lab) library(t *testing.T) string {
	t.Helper()
	path := filepath.Join(filepath.Dir(l.bin), "libmpiup-watch.so")
	need.File(t, "watch", path, "make watch")
	return path
}

// fortran compiles test/mpi/waits.f90 with a library's own compiler, by the module mpi or by mpi_f08.
func (l *lab) fortran(t *testing.T, mpif90, name string, flags ...string) string {
	t.Helper()
	need.Program(t, "gfortran", "gfortran")
	exe := filepath.Join(l.folder(t), name)
	source, err := filepath.Abs("../mpi/waits.f90")
	if err != nil {
		t.Fatal(err)
	}
	args := append([]string{"-cpp", "-O1", "-o", exe, source}, flags...)
	if out, err := exec.Command(mpif90, args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return exe
}

// A rank that takes twice as long as the others is named while it runs and at the end, with MPICH and Open MPI, in C, Fortran and Python;
// of ranks that are alike nobody is. All that a program computes is the same to the last bit, watched or not.
func TestWatchRanks(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	l.library(t)
	openmpi, err := l.compiled("mpicc.openmpi", "waits")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, hosts       string
		same, slow, alike []string
	}{
		{"MPICH", "w0:3", []string{l.program(t, "waits"), "0", "0", "-1", "1"}, []string{l.program(t, "waits"), "25", "0.1", "2", "2"}, nil},
		{"Open MPI", "w0:2,w1:1", []string{openmpi, "0", "0", "-1", "1"}, nil, []string{openmpi, "50", "0.1", "-1", "1"}},
		{"MPICH, Fortran", "w0:3", []string{l.fortran(t, "mpif90.mpich", "mpich"), "0", "-1"}, nil, nil},
		{"MPICH, f08", "w0:3", []string{l.fortran(t, "mpif90.mpich", "mpich-f08", "-DF08"), "0", "-1"}, nil, nil},
		{"Open MPI, Fortran", "w0:2,w1:1", []string{l.fortran(t, "mpif90.openmpi", "openmpi"), "0", "-1"}, nil, nil},
		{"Open MPI, f08", "w0:2,w1:1", []string{l.fortran(t, "mpif90.openmpi", "openmpi-f08", "-DF08"), "0", "-1"}, []string{l.fortran(t, "mpif90.openmpi", "slow-f08", "-DF08"), "50", "2"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			run := func(program []string, flags ...string) result {
				return l.run(t, job{hosts: c.hosts, args: slices.Concat([]string{"-n", "3"}, flags, program)}).Fails(t, 0)
			}
			if c.same != nil {
				if bare, watched := run(c.same, "--watch-ranks=false"), run(c.same, "--watch-ranks"); byLine(bare.Stdout) != byLine(watched.Stdout) {
					t.Errorf("without being watched it computes\n%s\nand with it\n%s", bare.Stdout, watched.Stdout)
				}
			}
			if c.slow != nil {
				r := run(c.slow, "--watch-ranks", "--watch-window", "2s")
				if n := strings.Count(r.Stderr, "mpiup: rank 2 ("); n < 1 || strings.Contains(r.Stderr, "rank 0 (") || strings.Contains(r.Stderr, "rank 1 (") || !strings.Contains(r.Stderr, ": the others waited ") {
					t.Errorf("it says\n%s", r.Stderr)
				}
			}
			if c.alike != nil {
				if r := run(c.alike, "--watch-ranks", "--watch-window", "2s"); strings.Contains(r.Stderr, "the others waited") {
					t.Errorf("of ranks that are alike it says\n%s", r.Stderr)
				}
			}
		})
	}
}

// Ranks are watched where somebody asks, by the flag or the variable and by each name, and nobody else is: nothing is put into them. One
// that AddressSanitizer is in is not watched by whatever wish: that wants to be loaded first.
func TestWatchIsAskedFor(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	l.library(t)
	const put = `test -z "${LD_PRELOAD-}${MPIUP_WATCH_PAGE-}" || echo its environment has it; ! grep -q libmpiup-watch /proc/$$/maps || echo something is put into it`
	for _, c := range []struct {
		name string
		as   string // mpirun of that family; "": mpiup run
		env  []string
		args []string
		want bool
	}{
		{name: "nobody asks"},
		{name: "nobody asks, another window", args: []string{"--watch-window", "2s"}},
		{name: "the flag", args: []string{"--watch-ranks"}, want: true},
		{name: "the variable", env: []string{"MPIUP_WATCH_RANKS=1"}, want: true},
		{name: "the variable says no", env: []string{"MPIUP_WATCH_RANKS=0"}},
		{name: "the flag overrules the variable", env: []string{"MPIUP_WATCH_RANKS=1"}, args: []string{"--watch-ranks=false"}},
		{name: "as Open MPI's, nobody asks", as: "openmpi"},
		{name: "as Hydra's, nobody asks", as: "hydra"},
		{name: "as Open MPI's, the variable", as: "openmpi", env: []string{"MPIUP_WATCH_RANKS=1"}, want: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			args := slices.Concat([]string{"-n", "1"}, c.args, []string{"sh", "-c", put})
			var r result
			if c.as == "" {
				r = l.run(t, job{hosts: "w0:3", env: c.env, args: args})
			} else {
				env := append(c.env, "MPIUP_FAMILY="+c.as)
				r = l.called(t, "mpirun", job{env: env}, append([]string{"-host", "w0"}, args...)...)
			}
			r.Fails(t, 0)
			if got := strings.Contains(r.Stdout, "something is put into it"); got != c.want || strings.Contains(r.Stdout, "environment") {
				t.Errorf("watched: %v, want %v\n%s%s", got, c.want, r.Stdout, r.Stderr)
			}
		})
	}

	waits := l.program(t, "waits")
	run := func(args ...string) string {
		r := l.run(t, job{hosts: "w0:3", args: slices.Concat([]string{"-n", "3"}, args)}).Fails(t, 0)
		return r.Stderr + r.Stdout
	}
	if out := run(waits, "25", "0.1", "2", "2"); strings.Contains(out, "the others waited") || strings.Contains(out, "--watch-ranks") {
		t.Errorf("of a rank that is late it says, unasked,\n%s", out)
	}
	asan := filepath.Join(l.folder(t), "asan")
	if out, err := exec.Command("mpicc.mpich", "-fsanitize=address", "-o", asan, "../mpi/waits.c").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	sanitized := []string{"-x", "ASAN_OPTIONS=detect_leaks=0", asan, "1", "0.1", "-1", "1"}
	if out := run(sanitized...); strings.Contains(out, "--watch-ranks") {
		t.Errorf("with ASan it says\n%s", out)
	}
	plain := filepath.Join(l.folder(t), "plain") // and without MPI
	if out, err := exec.Command("gcc", "-fsanitize=address", "-xc", "-o", plain, "testdata/nothing.c").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if out := run("--watch-ranks", "-x", "ASAN_OPTIONS=detect_leaks=0", "sh", "-c", "exec "+plain); !strings.Contains(out, "are not watched: what it runs is linked with libasan.so") {
		t.Errorf("asked to watch a script that runs one it says\n%s", out)
	}
	if out := run(slices.Concat([]string{"--watch-ranks"}, sanitized)...); !strings.Contains(out, "are not watched: what it runs is linked with libasan.so") {
		t.Errorf("asked to watch one with ASan it says\n%s", out)
	}
}

// A rank of mpi4py is found, whose MPI Python opened for nobody else.
func TestWatchMPI4Py(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	l.library(t)
	python := filepath.Join(l.wheels(t), "python")
	text, err := os.ReadFile("../mpi/waits.py")
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(l.folder(t), "waits.py")
	if err := os.WriteFile(program, text, 0o644); err != nil {
		t.Fatal(err)
	}
	r := l.run(t, job{hosts: "w0:3", args: []string{"-n", "3", "--watch-ranks", "--watch-window", "2s", python, program, "50", "2"}}).Fails(t, 0)
	if !strings.Contains(r.Stderr, "mpiup: rank 2 (") || strings.Contains(r.Stderr, "rank 0 (") || strings.Contains(r.Stderr, "rank 1 (") {
		t.Errorf("it says\n%s", r.Stderr)
	}
}

// byLine is an output with its lines in order of their text.
func byLine(output string) string {
	list := strings.Split(output, "\n")
	slices.Sort(list)
	return strings.Join(list, "\n")
}

// What is not measured is said, and is never taken for health.
func TestNotWatched(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	l.library(t)
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no MPI":        {[]string{"sh", "-c", "sleep 1.5"}, "--watch-ranks: who is slow was not measured: ranks did not call MPI_Init where it can be seen"},
		"another tool":  {[]string{"-x", "LD_PRELOAD=" + l.tool(t), "sh", "-c", "sleep 1.5"}, "is not watched: LD_PRELOAD has "},
		"a long window": {[]string{"--watch-window", "1h", l.program(t, "waits"), "1", "1", "-1", "1"}, "who is slow was not measured: the ranks had no 5 s in which each had enough collectives"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := slices.Concat([]string{"-n", "2", "--watch-ranks"}, c.args)
			if c.args[0] != "--watch-window" {
				args = slices.Concat([]string{"--watch-window", "3s"}, args)
			}
			if r := l.run(t, job{hosts: "w0,w1", args: args}); r.Code != 0 || !strings.Contains(r.Stderr, c.want) {
				t.Errorf("%d\n%s", r.Code, r.Stderr)
			}
		})
	}
}

// tool is a library that stands before MPI_Init, as profilers do.
func (l *lab) tool(t *testing.T) string {
	t.Helper()
	need.Program(t, "gcc", "gcc")
	path := filepath.Join(l.folder(t), "libtool.so")
	cmd := exec.Command("gcc", "-shared", "-fPIC", "-o", path, "-x", "c", "-")
	cmd.Stdin = strings.NewReader("int MPI_Init(int *a, char ***b) { return 0; }\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// topView is what mpiup ps --for prints as JSON.
type topView struct {
	Ranks []struct {
		Rank   int     `json:"rank"`
		Host   string  `json:"host"`
		Waited float64 `json:"waited_share"`
		Lost   float64 `json:"others_waited_share"`
		CPU    float64 `json:"cpu_seconds"`
		Peak   uint64  `json:"peak_rss_bytes"`
	} `json:"ranks"`
	Said []struct {
		Text string `json:"text"`
	} `json:"found"`
}

// While a run goes on mpiup ps --for shows for whom the others wait, asked of its hosts and, where it has none, of this machine's runs. When
// it ends by its time, the verdict says so too; and a run that is shorter than its window is measured by its end.
func TestWhoIsWaitedFor(t *testing.T) {
	t.Parallel()
	l := hosted(t).apart(t, netns.Config{Hosts: []string{"w0", "w1"}}) // where no other run shows
	l.library(t)
	for _, host := range []string{"w0", "w1"} {
		l.agent(t, host, container{})
	}
	waits, err := l.compiled("mpicc.openmpi", "waits") // Debian's MPICH now and then hangs in MPI_Finalize on two hosts
	if err != nil {
		t.Fatal(err)
	}
	ask := func(t *testing.T, args ...string) {
		var view topView
		testlab.Eventually(t, "rank 2 is the one that the others wait for", func() bool {
			r := l.mpiup(t, slices.Concat([]string{"ps", "--for", "2s", "--json"}, args)...)
			return r.Code == 0 && json.Unmarshal([]byte(r.Stdout), &view) == nil && len(view.Ranks) == 3 && view.Ranks[0].Rank == 2 && view.Ranks[0].Lost > 0.1 &&
				view.Ranks[1].Waited > 0.1 && view.Ranks[0].Peak > 0 && len(view.Said) == 1 && strings.Contains(view.Said[0].Text, "rank 2 (")
		})
	}
	t.Run("over hosts", func(t *testing.T) {
		p := l.start(t, job{hosts: "w0:2,w1:1", args: []string{"-n", "3", "--watch-ranks", waits, "1000", "0.1", "2", "2"}})
		ask(t, "--key", l.key, "--host", "w0,w1")
		_ = p.Cmd.Process.Kill()
		<-p.Done
	})
	need.Program(t, "eu-stack", "elfutils")
	// Stacks say where it is that nothing else explains: five looks while the run goes on, and the verdict has it too.
	stacks := regexp.MustCompile(`(?m)^mpiup: rank 2 \(w1, pid \d+\): in [45] of [45] looks within \d+ s it was in .*\bread_batch\b.*, the others in MPI_Allreduce$`)
	told := regexp.MustCompile(`looks within .*\bread_batch\b`)
	t.Run("late", func(t *testing.T) {
		t.Parallel()
		r := l.run(t, job{hosts: "w0:2,w1:1", args: []string{"-n", "3", "--watch-ranks", "--watch-window", "2s", "--timeout", "15s", waits, "1", "0.1", "2", "1000"}})
		if r.Code == 0 || strings.Count(r.Stderr, "rank 2 (w1, pid ") < 2 || !strings.Contains(r.Stderr, ": all others have waited ") || strings.Contains(r.Stderr, "rank 0 (") ||
			!stacks.MatchString(r.Stderr) || len(told.FindAllString(r.Stderr, -1)) != 2 {
			t.Errorf("%d\n%s", r.Code, r.Stderr)
		}
	})
	t.Run("a short run", func(t *testing.T) {
		t.Parallel()
		r := l.run(t, job{hosts: "w0:2,w1:1", args: []string{"-n", "3", "--watch-ranks", waits, "30", "0.1", "2", "2"}}).Fails(t, 0)
		if !strings.Contains(r.Stderr, "mpiup: rank 2 (w1, pid ") || !strings.Contains(r.Stderr, ": the others waited ") {
			t.Errorf("it says\n%s", r.Stderr)
		}
	})
}

// Steps that become slower are told of by the cadence of NCCL's calls, by a stand-in for its library and without MPI, and steady ones are not.
func TestWatchNCCL(t *testing.T) {
	t.Parallel()
	need.Program(t, "gcc", "gcc")
	l := hosted(t)
	l.library(t)
	dir := l.folder(t)
	library, program := filepath.Join(dir, "libnccl.so.2"), filepath.Join(dir, "program")
	for _, argv := range [][]string{
		{"-shared", "-fPIC", "-DLIBRARY", "-o", library, "../../agent/watch/testdata/nccl.c"},
		{"-o", program, "../../agent/watch/testdata/nccl.c", library},
	} {
		if out, err := exec.Command("gcc", argv...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	for name, c := range map[string]struct {
		steps []string
		want  bool
	}{
		"slower": {[]string{"140", "150", "225"}, true},
		"steady": {[]string{"100", "150", "150"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"-n", "2", "--watch-ranks", "--watch-window", "2s", program}, c.steps...)
			r := l.run(t, job{hosts: "w0,w1", args: args}).Fails(t, 0)
			slower := strings.Contains(r.Stderr, "mpiup: steps have taken 0.2") && strings.Contains(r.Stderr, " slower, by the cadence of NCCL calls)\nmpiup: no rank can be named")
			if slower != c.want || strings.Contains(r.Stderr, "slower") != c.want || !strings.Contains(r.Stderr, "--watch-ranks: steps took 0.") {
				t.Errorf("it says\n%s", r.Stderr)
			}
		})
	}
}
