package script

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/test/cost"
	"github.com/mpiup/mpiup/test/golden"
)

// world has files by their paths; a text is a script, and everything is a program. It counts steps.
type world struct {
	files map[string]string
	steps int
	most  int
}

func (w *world) Step(n int) bool {
	w.steps += n
	return w.steps < w.most
}

func (w *world) Read(file string) string { return w.files[file] }

func (w *world) Real(p string) string { return p }

func (w *world) Resolve(name string, e Env, dir string) string {
	for d := range strings.SplitSeq(e.Get("PATH"), ":") {
		if p := Absolute(dir, filepath.Join(d, name)); w.files[p] != "" {
			return p
		}
	}
	return ""
}

func (w *world) Activated(e Env, _, name string) Env { return e.With("CONDA_PREFIX", "/conda/"+name) }

// beginning is the environment of every test.
func beginning(name string) string {
	v, ok := map[string]string{"PATH": "/usr/bin", "HOME": "/home/u"}[name]
	if !ok {
		return Unset
	}
	return v
}

// Each script of testdata runs the commands that stand beside it.
func TestCommands(t *testing.T) {
	scripts, err := filepath.Glob("testdata/*.sh")
	if err != nil || len(scripts) < 5 {
		t.Fatal(scripts, err)
	}
	w := &world{files: map[string]string{"/job/env.sh": "export FROM=env PATH=/opt/mpi/bin:$PATH\ncd /data\n./inner $1\n", "/opt/mpi/bin/solver": "x"}, most: 1 << 20}
	for _, file := range scripts {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var b strings.Builder
			for _, c := range Commands(string(text), Command{Argv: []string{"/job/run.sh", "one", "two words"}, Env: EnvOf(beginning), Dir: "/job"}, 16, w) {
				fmt.Fprintf(&b, "%s$", c.Dir)
				for _, name := range slices.Sorted(maps.Keys(c.Env.above)) {
					fmt.Fprintf(&b, " %s=%q", name, c.Env.Get(name))
				}
				fmt.Fprintf(&b, " %q\n", c.Argv)
			}
			golden.Is(t, strings.TrimSuffix(file, ".sh")+".txt", b.String())
		})
	}
}

func TestInvoked(t *testing.T) {
	for _, tt := range []struct{ line, want string }{
		{"sh", `"" "" []`},
		{"sh -c ./a", `"./a" "" ["sh"]`},
		{"bash -o pipefail -lc ./a bash x", `"./a" "" ["bash" "x"]`},
		{"bash --norc -e run.sh x", `"" "/job/run.sh" ["/job/run.sh" "x"]`},
		{"bash +O extglob /run.sh", `"" "/run.sh" ["/run.sh"]`},
		{"sh -c", `"" "" []`},
	} {
		text, file, argv := Invoked(Command{Argv: strings.Fields(tt.line), Dir: "/job"})
		if got := fmt.Sprintf("%q %q %q", text, file, argv); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.line, got, tt.want)
		}
	}
}

// Only the last commands count, and none where the budget is spent.
func TestCommandsAreBounded(t *testing.T) {
	text := strings.Repeat("./a\n", 1000) + "./b\n"
	got := Commands(text, Command{Dir: "/"}, 2, &world{most: 1 << 20})
	if len(got) != 2 || got[0].Argv[0] != "./a" || got[1].Argv[0] != "./b" {
		t.Errorf("%v", got)
	}
	w := &world{most: 100}
	if got := Commands(text, Command{Dir: "/"}, 2, w); len(got) != 2 || got[1].Argv[0] != "./a" || w.steps > 200 {
		t.Errorf("with 100 steps: %v after %d", got, w.steps)
	}
}

// FuzzCommands takes any text for a script, and for one that it sources.
func FuzzCommands(f *testing.F) {
	scripts, err := filepath.Glob("testdata/*.sh")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range scripts {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text), "export A=$1; . ./env.sh")
	}
	f.Fuzz(func(t *testing.T, text, sourced string) {
		defer cost.Watch(t, cost.Bound{Fixed: 48 << 20}, 0)()
		w := &world{files: map[string]string{"/job/env.sh": sourced}, most: 1 << 20}
		got := Commands(text, Command{Argv: []string{"/job/run.sh", "a"}, Env: EnvOf(beginning), Dir: "/job"}, 16, w)
		if len(got) > 16 || w.steps > w.most+1<<20 {
			t.Errorf("%d commands after %d steps", len(got), w.steps)
		}
		for _, c := range got {
			if len(c.Argv) == 0 || !filepath.IsAbs(c.Dir) || len(c.Dir) > 2*maxPath {
				t.Errorf("%+v", c)
			}
		}
	})
}
