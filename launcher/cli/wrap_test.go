package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/internal/frameworks"
	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher/cli/mpirun/line"
)

// The command of --wrap is one word or one with the ranks, and what follows is the program.
func TestWrap(t *testing.T) {
	for _, words := range [][]string{
		{"--wrap", "0,2-3", "nsys profile", "--wrap=all gdb -batch", "./a", "--wrap"},
		{"-wrap", "0,2-3", "nsys profile", "-wrap", "all", "gdb -batch", "./a", "--wrap"},
	} {
		_, apps, _, err := parseWords(words)
		if err != nil {
			t.Errorf("%q: %v", words, err)
			continue
		}
		want := []job.Tool{{Argv: []string{"nsys", "profile"}, Ranks: idset.Of(0, 2, 3)}, {Argv: []string{"gdb", "-batch"}}}
		if len(apps) != 1 || strings.Join(apps[0].Argv, " ") != "./a --wrap" || !slices.EqualFunc(apps[0].Tools, want, func(a, b job.Tool) bool {
			return a.Ranks.Equal(b.Ranks) && slices.Equal(a.Argv, b.Argv)
		}) {
			t.Errorf("%q: %+v", words, apps)
		}
	}
}

func TestPatternsOfVariables(t *testing.T) {
	env := line.Outside{Lookup: func(string) (string, bool) { return "", false }, Environ: []string{"NCCL_A=1", "NCCL_B=x=y", "NCCLX=2", "OTHER=3"}}
	f := RunFlags{Program: AppFlags{Env: []string{"NCCL_*", "UCX_*"}}}
	apps, warnings, err := f.ParseApps([]string{"./a"}, env)
	if err != nil || !slices.Equal(apps[0].Env, []string{"NCCL_A=1", "NCCL_B=x=y"}) || len(warnings) != 1 ||
		!strings.Contains(warnings[0], "-x UCX_*: not set in this environment") {
		t.Errorf("%+v, %q, %v", apps, warnings, err)
	}
}

func TestIndependent(t *testing.T) {
	f, _, _, err := parseWords([]string{"--independent", "./a"})
	if err != nil || f.MPI != "none" || f.Frameworks != frameworks.None {
		t.Errorf("%+v, %v", f, err)
	}
}
