package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	testlab "github.com/mpiup/mpiup/test/lab"
)

// A rank has the soft limit of open files that its host's container has, and on this machine the shell's, however it is started: as under the real
// launchers. Go raises its own (package syscall), and a rank that inherited that would have a hundred thousand, which some programs do not stand.
func TestSoftLimitOfOpenFiles(t *testing.T) {
	t.Parallel()
	bin, err := testlab.Binary(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	key := filepath.Join(dir, "key")
	if err := testlab.Keygen(bin, key, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"mpirun", "mpiexec.hydra", "ssh", "torchrun", "horovodrun"} {
		if err := os.Symlink(bin, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}

	// limited is a script that starts a program with a limit.
	limited := func(limit int, program string) string {
		file := filepath.Join(dir, fmt.Sprintf("%s-%d", filepath.Base(program), limit))
		text := fmt.Sprintf("#!/bin/sh\nulimit -Sn %d\nexec %s \"$@\"\n", limit, program)
		if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		return file
	}
	const here, there = 731, 947
	agent := testlab.NewLoopback(t, limited(there, bin), []string{"MPIUP_KEY=" + key})

	for _, c := range []struct {
		name string
		argv []string // the name that mpiup is called by, and the arguments before the program
		want int
	}{
		{"run", []string{"mpiup", "run", "-n", "1"}, here},
		{"run on a host", []string{"mpiup", "run", "--host", agent.Addr, "-n", "1"}, there},
		{"with a terminal", []string{"mpiup", "run", "--host", agent.Addr, "-n", "1", "--pty"}, there},
		{"a script's launcher", []string{"mpiup", "launcher", "--"}, here},
		{"exec", []string{"mpiup", "exec", agent.Addr, "--"}, there},
		{"ssh", []string{"ssh", agent.Addr}, there},
		{"mpirun", []string{"mpirun", "-n", "1"}, here},
		{"mpirun on a host", []string{"mpirun", "--host", agent.Addr, "-n", "1"}, there},
		{"mpiexec.hydra on a host", []string{"mpiexec.hydra", "-hosts", agent.Addr, "-n", "1"}, there},
		{"torchrun", []string{"torchrun", "--nproc_per_node", "1", "--no_python"}, here},
		{"horovodrun", []string{"horovodrun", "-np", "1"}, here},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			program := filepath.Join(dir, c.argv[0])
			if c.argv[0] == "mpiup" {
				program = bin
			}
			show := []string{"sh", "-c", "ulimit -Sn"}
			if c.argv[0] == "ssh" {
				show = []string{"ulimit -Sn"}
			}
			argv := append(append([]string{"-c", fmt.Sprintf(`ulimit -Sn %d; exec "$0" "$@"`, here), program}, c.argv[1:]...), show...)
			cmd := exec.Command("sh", argv...)
			cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + dir, "MPIUP_REPORTS=" + t.TempDir()}
			if c.want == there {
				cmd.Env = append(cmd.Env, "MPIUP_KEY="+key)
			}
			r := testlab.Run(t, testlab.Bound, cmd).OK(t)
			got := strings.TrimPrefix(strings.TrimSpace(r.Stdout), "[1,0]<stdout>:") // horovodrun's tag
			if got != fmt.Sprint(c.want) {
				t.Errorf("the soft limit is %s, want %d\n%s", got, c.want, r.Stderr)
			}
		})
	}
}
