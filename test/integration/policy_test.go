package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

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

	allowed := map[string]string{"file": "run", "flag": "run, copy"}

	r := l.run(t, job{hosts: "file:1,flag:1", args: []string{"-n", "2", "hostname"}}).ok(t)
	if !strings.Contains(r.stdout, "file\n") || !strings.Contains(r.stdout, "flag\n") {
		t.Errorf("printed %q", r.stdout)
	}
	says := func(host, what, kind, allowed string) string {
		return fmt.Sprintf("mpiup: %s on %s could not be started: the agent's policy refuses %s to launchers (%s) and allows them %s; whoever starts the agent can change that\n",
			what, host, kind, rule[host], allowed)
	}
	refused := func(r result, code int, host, what, kind, allowed, command string) {
		t.Helper()
		if want := says(host, what, kind, allowed); r.code != code || r.stdout != "" || r.stderr != want {
			t.Errorf("%s: ended with %d, printed %q and %q, not %q", kind, r.code, r.stdout, r.stderr, want)
		}
		a := agents[host]
		for _, part := range []string{`msg="start refused" what=` + kind, "command=" + command, "uid=0 identity=", "role=launcher"} {
			if err := a.until(a.stderr, part); err != nil {
				t.Error(err)
			}
		}
	}
	for _, host := range []string{"file", "flag"} {
		refused(l.exec(t, job{}, host, "--", "hostname").wait(t), 246, host, "the command", "exec", allowed[host], "hostname")
		refused(l.ssh(t, job{stdin: strings.NewReader("hostname\n")}, host).wait(t), 255, host, "the command", "shell", allowed[host], `"\"\""`)
		refused(l.ssh(t, job{}, host, "echo", "a  b").wait(t), 255, host, "the command", "shell", allowed[host], `"\"echo a  b\""`)
	}
	refused(l.run(t, job{hosts: "norun:2", args: []string{"-n", "2", "hostname"}}), 246, "norun", "rank 0", "run", "exec", "hostname")
	if r := l.exec(t, job{}, "norun", "--", "hostname").wait(t); r.code != 0 || r.stdout != "norun\n" {
		t.Errorf("an exec that is allowed: %d, %q, %s", r.code, r.stdout, r.stderr)
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
	a, err := startCommand(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); <-a.done }) // it may have ended
	if err := a.until(a.stderr, `msg=policy allows="launcher: run; all else is refused (`+file); err != nil {
		t.Fatal(err)
	}
	l.ssh(t, job{}, "pod", "hostname").wait(t).fails(t, 255, "pod", "refuses shell", file)
	l.run(t, job{hosts: "pod", args: []string{"-n", "1", "hostname"}}).ok(t)
}
