package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	testlab "github.com/mpiup/mpiup/test/lab"
	"github.com/mpiup/mpiup/test/need"
	"github.com/mpiup/mpiup/test/netns"
)

// Agents start what their policy allows. What they refuse is one sentence with host, rule and what
// to do, an exit code that no retry helps against, and a line in the agent's log.
func TestPolicy(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	file := filepath.Join(l.dir, "policy")
	if err := os.WriteFile(file, []byte("# jobs only\nallow run *\ndeny  exec,shell  *\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	l = l.apart(t, netns.Config{Hosts: []string{"file", "flag", "norun"}})
	agents := map[string]*running{
		"file":  l.agent(t, "file", container{flags: []string{"--policy", file}}),
		"flag":  l.agent(t, "flag", container{flags: []string{"--deny", "exec", "--deny", "shell"}}),
		"norun": l.agent(t, "norun", container{flags: []string{"--allow", "exec"}}),
	}
	rule := map[string]string{"file": "line 3 of " + file + `, "deny exec,shell *"`, "flag": "--deny exec,shell", "norun": "--allow exec"}

	allowed := map[string]string{"file": "run", "flag": "run, copy, spawn, look"}

	r := l.run(t, job{hosts: "file:1,flag:1", args: []string{"-n", "2", "hostname"}}).OK(t)
	if !strings.Contains(r.Stdout, "file\n") || !strings.Contains(r.Stdout, "flag\n") {
		t.Errorf("printed %q", r.Stdout)
	}
	says := func(host, what, kind, allowed string) string {
		return fmt.Sprintf("mpiup: %s on %s could not be started: the agent's policy refuses %s to launchers (%s) and allows them %s; whoever starts the agent can change that\n",
			what, host, kind, rule[host], allowed)
	}
	refused := func(r result, code int, host, what, kind, allowed, command string) {
		t.Helper()
		want := says(host, what, kind, allowed)
		if kind == "run" {
			want = "\n" + want + "mpiup: all 2 ranks failed alike\nmpiup: not-allowed; more: mpiup help not-allowed\n"
		}
		if r.Code != code || r.Stdout != "" || r.Stderr != want {
			t.Errorf("%s: ended with %d, printed %q and %q, not %q", kind, r.Code, r.Stdout, r.Stderr, want)
		}
		a := agents[host]
		for _, part := range []string{`msg="start refused" what=` + kind, "command=" + command, "uid=0 identity=", "role=launcher"} {
			if err := a.Until(a.Stderr, part); err != nil {
				t.Error(err)
			}
		}
	}
	for _, host := range []string{"file", "flag"} {
		refused(l.exec(t, job{}, host, "--", "hostname").Wait(t), 246, host, "the command", "exec", allowed[host], "hostname")
		refused(l.ssh(t, job{stdin: strings.NewReader("hostname\n")}, host).Wait(t), 255, host, "the command", "shell", allowed[host], `"\"\""`)
		refused(l.ssh(t, job{}, host, "echo", "a  b").Wait(t), 255, host, "the command", "shell", allowed[host], `"\"echo a  b\""`)
	}
	refused(l.run(t, job{hosts: "norun:2", args: []string{"-n", "2", "hostname"}}), 246, "norun", "rank 0", "run", "exec", "hostname")
	if r := l.exec(t, job{}, "norun", "--", "hostname").Wait(t); r.Code != 0 || r.Stdout != "norun\n" {
		t.Errorf("an exec that is allowed: %d, %q, %s", r.Code, r.Stdout, r.Stderr)
	}
}

// An agent by the name of sshd has no flags of its own: the environment names the file.
func TestPolicyOfSSHD(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	file := filepath.Join(l.dir, "policy-of-sshd")
	if err := os.WriteFile(file, []byte("allow run launcher\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	l = l.apart(t, netns.Config{Hosts: []string{"pod"}})
	cmd := l.cluster.RunInit(t.Context(), "pod", l.bin, "sshd", "-De")
	cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=/root", "MPIUP_KEY=" + l.key, "MPIUP_POLICY=" + file}
	a, err := testlab.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); <-a.Done }) // it may have ended
	if err := a.Until(a.Stderr, `msg=policy allows="launcher: run; all else is refused (`+file); err != nil {
		t.Fatal(err)
	}
	l.ssh(t, job{}, "pod", "hostname").Wait(t).Fails(t, 255, "pod", "refuses shell", file)
	l.run(t, job{hosts: "pod", args: []string{"-n", "1", "hostname"}}).OK(t)
}

// As docs/security.md has it: an agent that is root, a key that only root reads, ranks that give root up, and no spawning.
// MPI works, and neither reading the key nor having somebody else read it does.
func TestRanksThatCannotReadTheSecret(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	need.Program(t, "setpriv", "util-linux")
	key, err := os.ReadFile(l.key)
	if err != nil {
		t.Fatal(err)
	}
	l = l.apart(t, netns.Config{Hosts: []string{"w0", "w1"}})
	l.key = l.file(t, string(key)) // others use the lab's
	for _, host := range []string{"w0", "w1"} {
		a := l.agent(t, host, container{flags: []string{"--deny", "exec,shell,spawn"}, env: []string{"MPIUP_KEY=" + l.key}})
		if err := a.Until(a.Stderr, "launcher: run, copy, look; all else is refused"); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(l.key, 0o400); err != nil {
		t.Fatal(err)
	}
	as := func(n string, argv ...string) job {
		return job{hosts: "w0:2,w1:2", args: slices.Concat([]string{"-n", n, "--map-by", "node",
			"/usr/bin/setpriv", "--reuid", "1000", "--regid", "1000", "--clear-groups", "--no-new-privs"}, argv)}
	}
	r := l.run(t, as("2", "sh", "-c", `id -u; cat "$0" >/dev/null 2>&1 && echo read; echo "named ${MPIUP_KEY:-nowhere}"`, l.key)).OK(t)
	if strings.Count(r.Stdout, "1000\n") != 2 || strings.Count(r.Stdout, "named nowhere\n") != 2 || strings.Contains(r.Stdout, "read\n") {
		t.Errorf("ranks of another user printed %q", r.Stdout)
	}
	if r := l.run(t, as("4", l.program(t, "hello"))); r.Code != 0 || strings.Count(r.Stdout, " of 4") != 4 {
		t.Errorf("MPI as another user: code %d, %q\n%s", r.Code, r.Stdout, r.Stderr)
	}
	r = l.run(t, job{hosts: "w0:2,w1:2", args: slices.Concat([]string{"-n", "2"}, ompiFlags, []string{l.openMPI(t, "spawned"), "one"})})
	if r.Code == 0 || !strings.Contains(r.Stderr, "the agent's policy refuses spawn to launchers (--deny exec,shell,spawn)") {
		t.Errorf("spawning: code %d, %q\n%s", r.Code, r.Stdout, r.Stderr)
	}
}
