package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/test/deadmount"
)

// A directory of PATH on a mount that does not answer is named, and does not hang the command.
func TestPATHWithADeadMount(t *testing.T) {
	dead, alive := deadmount.New(t), t.TempDir()
	if err := os.WriteFile(filepath.Join(alive, "prog"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	stderr, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	defer stderr.Close()
	p := &process{env: []string{"PATH=" + dead + ":" + alive}, stderr: stderr}
	if path, err := lookPath(p, "/")("prog"); err == nil || !strings.HasPrefix(err.Error(), dead+": the file system of this directory of PATH") {
		t.Errorf("%q, %v", path, err)
	}
	if all := foundOnPath(p, "prog", "/"); len(all) != 1 || all[0] != filepath.Join(alive, "prog") {
		t.Errorf("on PATH: %q", all)
	}
	said, err := os.ReadFile(stderr.Name())
	if err != nil || !strings.HasPrefix(string(said), "mpiup: warning: "+dead) || strings.Count(string(said), "\n") != 1 {
		t.Errorf("said %q, %v", said, err)
	}
}

func TestInstallNames(t *testing.T) {
	names, err := linkNames([]string{"ssh", "all"})
	want := "horovodrun kubectl-mpiup mpiexec mpiexec.hydra mpiexec.mpich mpiexec.openmpi mpirun mpirun.mpich mpirun.openmpi orterun prterun ssh ssh-keygen sshd torchrun"
	if err != nil || strings.Join(names, " ") != want {
		t.Fatalf("%q, %v", names, err)
	}
	if _, err := linkNames([]string{"scp"}); err == nil || !strings.Contains(err.Error(), `"scp"; use all, or some of horovodrun, kubectl-mpiup, mpiexec`) {
		t.Errorf("scp: %v", err)
	}
}
