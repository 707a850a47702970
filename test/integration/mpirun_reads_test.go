package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/test/need"
)

// What the real launchers that are installed read besides their command lines is what launcher/cli/mpirun has a table for: its lists of parameters and
// variables have each name that the binaries have. A name of a newer release belongs into the list, and then into the table.
func TestWhatTheRealLaunchersRead(t *testing.T) {
	cache := filepath.Dir(mustAbs(t, "../../.cache/venv"))
	open5 := filepath.Join(cache, "openmpi5")
	for _, c := range []struct {
		name, list string
		has        func(t *testing.T) []string // the names that the real one has
	}{
		{"Open MPI 4", "params-openmpi4.txt", func(t *testing.T) []string {
			need.Program(t, "mpirun.openmpi", "openmpi-bin")
			return launcherParamsOf(t, exec.Command("ompi_info", "--all", "--level", "9", "--parsable"), `(?m)^mca:[^:]*:[^:]*:param:([a-z0-9_]+):`)
		}},
		{"Open MPI 5", "params-openmpi5.txt", func(t *testing.T) []string {
			info := filepath.Join(open5, "bin/prte_info")
			need.File(t, "wheels", info, "run test/wheels.sh")
			ask := exec.Command(info, "--param", "all:all")
			ask.Env = append(os.Environ(), "PRTE_PREFIX="+open5, "PMIX_PREFIX="+open5)
			return launcherParamsOf(t, ask, `(?m)^ +MCA [a-z0-9_]+: +"([a-z0-9_]+)"`)
		}},
		{"MPICH 4", "variables-mpich4.txt", func(t *testing.T) []string {
			need.MPICH(t)
			path, err := exec.LookPath("mpiexec.hydra")
			if err != nil {
				t.Fatal(err)
			}
			return variablesOf(t, path)
		}},
		{"MPICH 5", "variables-mpich5.txt", func(t *testing.T) []string {
			path := filepath.Join(cache, "venv/bin/mpiexec.hydra")
			need.File(t, "wheels", path, "run test/wheels.sh")
			return variablesOf(t, path)
		}},
		{"Intel MPI", "variables-intel.txt", func(t *testing.T) []string {
			path := filepath.Join(cache, "impi/bin/mpiexec.hydra")
			need.File(t, "intel", path, "run test/wheels.sh intel")
			return variablesOf(t, path)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			names := c.has(t)
			text, err := os.ReadFile(filepath.Join("../../launcher/cli/mpirun/testdata", c.list))
			if err != nil {
				t.Fatal(err)
			}
			listed := strings.Fields(string(text))
			if len(names) < 25 {
				t.Errorf("the real one has %d names alone: %q", len(names), names)
			}
			for _, name := range names {
				if !slices.Contains(listed, name) {
					t.Errorf("%s reads %s, and launcher/cli/mpirun/testdata/%s does not have it", c.name, name, c.list)
				}
			}
		})
	}
}

func mustAbs(t *testing.T, path string) string {
	t.Helper()
	abs, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return abs
}

// ofRanksAlone are frameworks of Open MPI whose parameters no launcher reads.
var ofRanksAlone = regexp.MustCompile(`^(allocator|backtrace|bml|btl|coll|common|compress|crcp|crs|dl|dss|event|fbtl|fcoll|fs|hook|if|info|installdirs|io|memchecker|memcpy|memory|mpi|mpool|mtl|ompi|ompio|op|osc|patcher|pml|pstat|rcache|reachable|rte|sharedfp|shmem|timer|topo|vprotocol)(_|$)`)

// launcherParamsOf are the parameters that a program tells of and that are not ranks' alone.
func launcherParamsOf(t *testing.T, ask *exec.Cmd, pattern string) (names []string) {
	t.Helper()
	said, err := ask.Output()
	if err != nil {
		t.Fatalf("%s: %v", ask, err)
	}
	for _, found := range regexp.MustCompile(pattern).FindAllSubmatch(said, -1) {
		if name := string(found[1]); !ofRanksAlone.MatchString(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

var (
	variable       = regexp.MustCompile(`\b(HYDRA|MPIEXEC|I_MPI|PMI|MPICH|MPIR_CVAR|MPIR_PARAM)_[A-Z][A-Z0-9_]+\b`)
	notOfVariables = regexp.MustCompile(`__|_LIBS$`) // of how it was built, and of its own protocol
)

// variablesOf are the names of variables within a launcher's binary.
func variablesOf(t *testing.T, path string) (names []string) {
	t.Helper()
	binary, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, found := range variable.FindAll(binary, -1) {
		if name := string(found); !notOfVariables.MatchString(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
