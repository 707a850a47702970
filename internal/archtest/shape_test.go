package archtest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// vague are package names that say nothing; two users of a helper put it with the idea it serves.
var vague = []string{"util", "utils", "common", "helper", "helpers", "base", "types", "manager", "misc", "shared"}

func TestPackagesHaveACommentAndAName(t *testing.T) {
	for _, p := range packages(t) {
		if p.Doc == "" && len(p.GoFiles)+len(p.CgoFiles) > 0 {
			t.Errorf("%s has no package comment: what it is for, a drawing, the concurrency contract, what it does not do", p.Path())
		}
		for part := range strings.SplitSeq(p.Path(), "/") {
			if slices.Contains(vague, part) || slices.Contains(vague, p.Name) {
				t.Errorf("%s: a package is named after its idea, not %q", p.Path(), p.Name)
				break
			}
		}
	}
}

// makers are functions that make processes. os/exec is watched as an import.
var makers = []string{"os.StartProcess", "syscall.ForkExec", "syscall.StartProcess", "pty.Start", "pty.StartWithSize", "pty.StartWithAttrs"}

func TestOnlyReapMakesProcesses(t *testing.T) {
	eachFile(t, func(path string, text []byte) {
		if strings.HasPrefix(path, "agent/reap/") || strings.HasPrefix(path, "test/") {
			return
		}
		for _, call := range callsTo(t, path, text, makers) {
			t.Errorf("%s: only agent/reap makes processes: one table of children, one thread that forks, one reaper", call)
		}
	})
}

func TestMakersAreSeen(t *testing.T) {
	src := "package x\nimport \"syscall\"\nfunc f() { syscall.ForkExec(\"a\", nil, nil); syscall.Kill(1, 2) }\n"
	if got := callsTo(t, "x.go", []byte(src), makers); len(got) != 1 || !strings.Contains(got[0], "x.go:3:12 calls syscall.ForkExec") {
		t.Error(got)
	}
}

// eachFile calls f with every Go file of the module that is no test, by its path in it.
func eachFile(t *testing.T, f func(path string, text []byte)) {
	t.Helper()
	root := filepath.Join("..", "..")
	for _, p := range packages(t) {
		for _, name := range slices.Concat(p.GoFiles, p.CgoFiles) {
			text, err := os.ReadFile(filepath.Join(root, p.Path(), name))
			if err != nil {
				t.Error(err)
				continue
			}
			f(filepath.Join(p.Path(), name), text)
		}
	}
}
