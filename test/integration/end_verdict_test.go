package integration

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/launcher/verdict"
	testlab "github.com/mpiup/mpiup/test/lab"
	"github.com/mpiup/mpiup/test/netns"
)

// The verdict on a rank that crashes on another host names host, Kubernetes node, process and signal, brings what the rank wrote first, and
// goes to standard error, to the JSON and to a file; mpiup verdict reads it back out of both.
func TestVerdictOfARun(t *testing.T) {
	t.Parallel()
	l := hosted(t).apart(t, netns.Config{Hosts: []string{"w0", "w1"}})
	agents, err := testlab.Agents(t.Context(), l.cluster, "env", "NODE_NAME=node-7", l.bin, "agent", "--key", l.key)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := testlab.Idle(agents); err != nil {
			t.Error(err)
		}
	}()
	dir := l.folder(t)
	file := filepath.Join(dir, "verdict")
	const script = `echo "rank $MPIUP_RANK begins" >&2; touch $DIR/began$MPIUP_RANK; [ $MPIUP_RANK = 3 ] || exec sleep 60
		while [ $(ls $DIR | grep -c began) -lt 4 ]; do sleep 0.05; done; echo why >&2; kill -SEGV $$`
	r := l.run(t, job{hosts: "w0:2,w1:2", args: []string{"--output", "json", "--termination-log", file, "-n", "4", "-x", "DIR=" + dir, "sh", "-c", script}})
	r.Fails(t, 139, "rank 3 on w1 was killed by signal 11 (SIGSEGV)", "its first lines: rank 3 begins", "its first lines: why", "node node-7, pid ", "segfault; more: mpiup help segfault\n")
	lines := strings.Split(strings.TrimSpace(r.Stdout), "\n")
	var v struct {
		Event string
		verdict.Verdict
	}
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &v); err != nil || v.Event != "verdict" || v.Kind != verdict.Segfault || v.Rank == nil || *v.Rank != 3 ||
		v.Host != "w1" || v.Node != "node-7" || v.PID == 0 || v.Signal != "SIGSEGV" || v.ExitCode != 139 || v.Phase != "running" && v.Phase != "wiring" && v.Phase != "launching" {
		t.Errorf("%v: %s", err, lines[len(lines)-1])
	}
	text, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(text), "exit code 139\nits first lines:\nrank 3 begins\nwhy\n") {
		t.Errorf("%v: %q", err, text)
	}
	for name, log := range map[string]string{"stdout": r.Stdout, "stderr": r.Stderr} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(log), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := l.mpiup(t, "verdict", path); !strings.HasPrefix(got.Stdout, "kind:  segfault\nrank:  3 on w1\n") {
			t.Errorf("%s: %s%s", name, got.Stdout, got.Stderr)
		}
	}
}
