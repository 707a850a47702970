package watch

import (
	"debug/elf"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A pipe where a program or another library should be holds no rank's start up, and a program's own LD_PRELOAD stays before the library.
func TestEnvironment(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if m := machineOf(pipe); m != elf.EM_NONE {
		t.Errorf("a pipe is a program for %v", m)
	}
	j, err := newJob(dir, 1, "/opt/mpiup/"+LibraryName)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	j.shared = filepath.Join(dir, "none", "page.")
	env, err := j.environment(7, pipe, []string{"A=1", "LD_PRELOAD=" + pipe})
	if want := "LD_PRELOAD=" + pipe + ":/opt/mpiup/" + LibraryName; err != nil || !slices.Contains(env, want) || slices.Contains(env, "LD_PRELOAD="+pipe) {
		t.Errorf("%q, %v", env, err)
	}
	if _, err := j.environment(7, pipe, nil); err == nil {
		t.Error("a second page of one rank")
	}
	for want, give := range map[string][2]string{
		"no directory can be written to": {"", "/opt/x.so"},
		"put that of the mpiup image":    {dir, ""},
		"a space or a colon":             {dir, "/opt/a b.so"},
	} {
		if _, err := newJob(give[0], 1, give[1]); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v", err)
		}
	}
	j.shared = filepath.Join(dir, "shared.")
	if env, err := j.environment(8, pipe, nil); err != nil || !slices.Contains(env, Variable+"="+j.shared+"8") {
		t.Errorf("%q, %v", env, err)
	}
	j.Close()
	if _, err := os.Stat(j.dir); err == nil {
		t.Error("the pages stay")
	}
	if _, err := os.Stat(j.shared + "8"); err == nil {
		t.Error("a page in memory stays")
	}
}
