package mpirun

import (
	"testing"

	"github.com/mpiup/mpiup/launcher/cli/mpirun/line"
)

// As the real launchers have it: no quotes, and comments anywhere.
func TestAppfile(t *testing.T) {
	programs := func(cs ...line.Context) func(*line.Line) { return func(l *line.Line) { l.Contexts = cs } }
	ompi := world{files: map[string]string{
		"f":     "# programs\n-np 1 -x A=1 echo \"a b\" c # rest\n\n  --np 2 -wdir d $HOME 'x y'\n//c\n-np 1 echo http://x\n",
		"colon": "-np 1 echo one : two\n", "bad": "-np 1 a\n--bogus b\n", "empty": "\n#\n", "none": "-np 2\n", "again": "--app f a\n",
		"hosts": "-np 1 -H b x\n-np 1 y\n", "late": "-np 1 a\n--tag-output b\n",
	}}
	read(t, line.OpenMPI, []reading{
		{line: "--app f", world: ompi, is: programs(line.Context{Argv: []string{"echo", `"a`, `b"`, "c"}, N: 1, Env: []string{"A=1"}},
			line.Context{Argv: []string{"$HOME", "'x", "y'"}, N: 2, Wdir: "/here/d"}, line.Context{Argv: []string{"echo", "http:"}, N: 1})},
		{line: "-H a,b --app hosts", world: ompi, is: all(programs(line.Context{Argv: []string{"x"}, N: 1, On: entries(t, "b:1")}, line.Context{Argv: []string{"y"}, N: 1}),
			hosts(t, "a:1 b:1"))},
		{line: "--app colon", world: ompi, is: programs(line.Context{Argv: []string{"echo", "one", ":", "two"}, N: 1})},
		{line: "--tag-output --app f --oversubscribe", world: ompi, is: all(
			programs(line.Context{Argv: []string{"echo", `"a`, `b"`, "c"}, N: 1, Env: []string{"A=1"}},
				line.Context{Argv: []string{"$HOME", "'x", "y'"}, N: 2, Wdir: "/here/d"}, line.Context{Argv: []string{"echo", "http:"}, N: 1}),
			func(l *line.Line) { l.TagOutput, l.Oversubscribe = true, true })},
	})
	refuse(t, line.OpenMPI, []refusal{
		{line: "--app f a", world: ompi, says: "programs are named on the command line and in f"},
		{line: "-np 2 --app f", world: ompi, says: "the options of a program stand beside f"},
		{line: "--app bad", world: ompi, says: "bad line 2: unknown option --bogus"},
		{line: "--app late", world: ompi, says: "late line 2: --tag-output concerns all programs"},
		{line: "--app empty", world: ompi, says: "empty names no program"},
		{line: "--app none", world: ompi, says: "none line 1: no program is named"},
		{line: "--app nope", world: ompi, says: "nope: file does not exist"},
		{line: "--app again", world: ompi, says: "again names another file of programs, f"},
	})
	hydra := world{files: map[string]string{
		"f":    "-n 1 -genv Q 3 echo \"a b\" # rest\n\n-n 2 -env R 4 b : -n 3 c \\\n  more\n#\n",
		"none": "-n 1\n", "bad": "-n 1 a\n-bogus b\n",
	}}
	read(t, line.Hydra, []reading{
		{line: "-configfile f", world: hydra, is: programs(line.Context{Argv: []string{"echo", `"a`, `b"`}, N: 1, Env: []string{"Q=3"}},
			line.Context{Argv: []string{"b"}, N: 2, Env: []string{"Q=3", "R=4"}}, line.Context{Argv: []string{"c", "more"}, N: 3, Env: []string{"Q=3"}})},
	})
	refuse(t, line.Hydra, []refusal{
		{line: "-configfile bad", world: hydra, says: "bad: unknown option -bogus"},
		{line: "-configfile none", world: hydra, says: "none names no program"},
	})
}
