package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/mpiup/mpiup/launcher/cli/mpirun/line"
)

// Behind mpiup's names on PATH stands the image's own launcher, if any.
func TestBehind(t *testing.T) {
	dir := t.TempDir()
	program := func(path, text string, mode os.FileMode) {
		t.Helper()
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	program("a/mpirun", string(self), 0o755) // a copy
	if err := os.Symlink("/proc/self/exe", filepath.Join(dir, "a/mpiexec")); err != nil {
		t.Fatal(err)
	}
	program("b/mpirun", "\x7fELF libopen-rte.so.40", 0o644) // not executable
	program("c/mpirun", "\x7fELF libprrte.so.3", 0o755)
	program("c/mpirun.openmpi", "\x7fELF libopen-rte.so.40", 0o755)
	program("d/mpiexec", "#!/bin/sh\nexec mpiexec.hydra \"$@\"\n", 0o755)
	p := &process{env: []string{"PATH=a:" + dir + "/b:" + dir + "/c:" + dir + "/d"}}
	for name, want := range map[string]string{"mpirun": "c/mpirun", "mpiexec": "d/mpiexec", "orterun": ""} {
		path, ok := p.behind(name, dir, "")
		if ok != (want != "") || ok && path != filepath.Join(dir, want) {
			t.Errorf("behind %s is %s, not %s", name, path, want)
		}
	}
	for family, want := range map[line.Family]string{line.OpenMPI: "c/mpirun", line.Hydra: "d/mpiexec"} {
		if got := p.launcherOf(family, dir); got != filepath.Join(dir, want) {
			t.Errorf("%s's launcher is %s, not %s", family, got, want)
		}
	}
	p.env = []string{"PATH=" + dir + "/a"}
	if got := p.launcherOf(line.Hydra, dir); got != "" {
		t.Errorf("mpiup is taken for another: %s", got)
	}
}

func TestSSHName(t *testing.T) {
	tmp := t.TempDir()
	p := &process{env: []string{"TMPDIR=" + tmp}}
	for range 2 {
		link, err := sshName(p)
		if err != nil {
			t.Fatal(err)
		}
		self, _ := os.Executable()
		if to, err := os.Readlink(link); err != nil || to != self || filepath.Base(link) != "ssh" {
			t.Errorf("%s is %s, %v", link, to, err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(tmp, "*/bin/.ssh*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
