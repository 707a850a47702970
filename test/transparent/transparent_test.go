package transparent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mpiup/mpiup/test/need"
)

// A stack is an MPI library with its compiler and its launcher.
type stack struct {
	name     string
	compiler []string
	launcher []string
	env      []string
	wiring   string // for mpiup run --mpi: a program may be linked with no MPI and open it
	needs    func(t *testing.T)
}

func stacks(t *testing.T) []stack {
	t.Helper()
	cache, err := filepath.Abs("../../.cache")
	if err != nil {
		t.Fatal(err)
	}
	root := []string{"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "PRTE_ALLOW_RUN_AS_ROOT=1", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1"}
	five := filepath.Join(cache, "openmpi5")
	mpich := filepath.Join(cache, "venv")
	wheels := func(path string) func(t *testing.T) {
		return func(t *testing.T) {
			t.Helper()
			need.File(t, "wheels", path, "test/wheels.sh")
		}
	}
	return []stack{
		{name: "MPICH", wiring: "pmi1", compiler: []string{"mpicc.mpich"}, launcher: []string{"mpiexec.mpich", "-n", "2"}, needs: func(t *testing.T) { t.Helper(); need.MPICH(t) }},
		{name: "OpenMPI", wiring: "pmix", compiler: []string{"mpicc.openmpi"}, launcher: []string{"mpirun.openmpi", "--oversubscribe", "-n", "2"}, env: root,
			needs: func(t *testing.T) { t.Helper(); need.Program(t, "mpicc.openmpi", "libopenmpi-dev") }},
		{name: "OpenMPI5", wiring: "pmix", compiler: []string{"gcc", "-I" + five + "/include", "-L" + five + "/lib", "-Wl,-rpath," + five + "/lib", "-l:libmpi.so.40"},
			launcher: []string{five + "/bin/mpirun", "--oversubscribe", "-n", "2"}, env: append(slices.Clone(root), "OPAL_PREFIX="+five, "PMIX_MCA_gds=hash"), needs: wheels(five + "/bin/mpirun")},
		{name: "MPICH5", wiring: "pmi1", compiler: []string{mpich + "/bin/mpicc"}, launcher: []string{mpich + "/bin/mpiexec", "-n", "2"}, needs: wheels(mpich + "/bin/mpicc")},
	}
}

// sample are the programs that CI runs: one for each way in which a watched rank once differed.
var sample = []string{"dlerror", "loaderlock", "weak", "arguments", "tool", "dladdr", "inherit", "unload", "address", "self"}

// TestTransparent compares what each program says and how it ends: under mpiup without the library and with it, and where all are asked for
// under the MPI's own launcher.
func TestTransparent(t *testing.T) {
	t.Parallel()
	bin := os.Getenv("MPIUP_BIN")
	need.File(t, "watch", filepath.Join(filepath.Dir(bin), "libmpiup-watch.so"), "make build")
	all := os.Getenv("MPIUP_TRANSPARENT") == "all"
	sources, err := filepath.Glob("programs/*.c")
	if err != nil || len(sources) == 0 {
		t.Fatalf("no programs: %v", err)
	}
	for i, s := range stacks(t) {
		if i >= 2 && !all {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			s.needs(t)
			for _, source := range sources {
				name := strings.TrimSuffix(filepath.Base(source), ".c")
				if !all && !slices.Contains(sample, name) {
					continue
				}
				t.Run(name, func(t *testing.T) { compare(t, s, bin, source, name, all) })
			}
		})
	}
}

// notAsOwn are programs that say something else under mpiup, watched or not, than under the MPI's own launcher, and why.
var notAsOwn = map[string]string{
	"self":            "each launcher has variables, limits and descriptors of its own (docs/environment.md)",
	"OpenMPI5/unload": "mpiup takes its end for one without MPI_Finalize, which it called",
}

func compare(t *testing.T, s stack, bin, source, name string, all bool) {
	t.Helper()
	program := s.build(t, source, name)
	run := []string{"run", "-n", "2", "--mpi", s.wiring}
	off := s.run(t, bin, append(slices.Clone(run), "--watch-ranks=false", program)...)
	on := s.run(t, bin, append(slices.Clone(run), "--watch-ranks", program)...)
	if on.said() != off.said() {
		t.Errorf("it differs when it is watched: without\n%s\nwith\n%s", off.said(), on.said())
	}
	if strings.Contains(on.stderr, "not watched") {
		t.Errorf("it was not watched: %s", on.stderr)
	}
	if !all || notAsOwn[s.name+"/"+name] != "" || notAsOwn[name] != "" {
		return
	}
	own := s.run(t, s.launcher[0], append(slices.Clone(s.launcher[1:]), program)...)
	if own.said() != off.said() {
		t.Errorf("it differs from what it says under %s\n%s\nand under mpiup\n%s", s.launcher[0], own.said(), off.said())
	}
}

// build compiles a program, and its plugin where it has one.
func (s stack) build(t *testing.T, source, name string) string {
	t.Helper()
	text, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), name)
	first := []string{"-O1", "-w", "-o", program, source}
	if name == "unload" { // the program itself has no MPI
		compile(t, "gcc", append(first, "-ldl")...)
	} else {
		compile(t, s.compiler[0], slices.Concat(first, s.compiler[1:], []string{"-Wl,--export-dynamic", "-ldl", "-lpthread"})...)
	}
	if strings.Contains(string(text), "ifdef PLUGIN") {
		compile(t, s.compiler[0], slices.Concat([]string{"-O1", "-w", "-shared", "-fPIC", "-DPLUGIN", "-o", program + ".plugin.so", source}, s.compiler[1:])...)
	}
	return program
}

func compile(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
}

// A result is what a run said, and how it ended.
type result struct {
	stdout, stderr string
	code           int
}

func (s stack) run(t *testing.T, name string, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), s.env...)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if ended := (*exec.ExitError)(nil); err != nil && !errors.As(err, &ended) {
		t.Fatalf("%s %q: %v", name, args, err)
	}
	return result{out.String(), errs.String(), cmd.ProcessState.ExitCode()}
}

// said is what may be compared: lines of ranks come in any order, addresses and processes have other numbers each time, a launcher's own lines
// and stacks that glibc prints (the library has a frame in them) are left out, and the exit code counts as good or bad.
func (r result) said() string {
	lines := strings.Split(regexp.MustCompile(`0x[0-9a-f]+|\b[0-9]{4,}\b`).ReplaceAllString(r.stdout+"\n"+r.stderr, "N"), "\n")
	lines = slices.DeleteFunc(lines, func(l string) bool { return l == "" || strings.HasPrefix(l, "mpiup: ") || strings.HasSuffix(l, " [N]") })
	slices.Sort(lines)
	return fmt.Sprintf("%s\nwell: %v", strings.Join(lines, "\n"), r.code == 0)
}
