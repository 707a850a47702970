package integration

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/launcher/verdict"
	testlab "github.com/mpiup/mpiup/test/lab"
	"github.com/mpiup/mpiup/test/need"
	"github.com/mpiup/mpiup/test/netns"
)

// verdictOf is the verdict of a run with --output json.
func verdictOf(t *testing.T, r result) verdict.Verdict {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(r.Stdout), "\n")
	var v struct {
		Event string
		verdict.Verdict
	}
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &v); err != nil || v.Event != "verdict" {
		t.Fatalf("%v: %s", err, lines[len(lines)-1])
	}
	return v.Verdict
}

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
	r.Fails(t, 139, "rank 3 on w1 was killed by signal 11 (SIGSEGV)", "mpiup: node node-7\n", "segfault; more: mpiup help segfault")
	if v := verdictOf(t, r); v.Kind != verdict.Segfault || v.Rank == nil || *v.Rank != 3 ||
		v.Host != "w1" || v.Node != "node-7" || v.PID == 0 || v.Signal != "SIGSEGV" || v.ExitCode != 139 || v.Phase != "running" && v.Phase != "wiring" && v.Phase != "launching" {
		t.Errorf("%+v", v)
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

// The verdict on an MPI program that crashes names the functions where, the innermost first: by what the library's own handler writes,
// or by the core file where there is no handler.
func TestVerdictNamesFrames(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	run := func(t *testing.T, program, limit, dir string, flags ...string) result {
		t.Helper()
		args := slices.Concat([]string{"--output", "json", "-n", "2", "--wdir", dir}, flags, []string{"sh", "-c", "ulimit -S -c " + limit + "; exec " + program})
		return l.run(t, job{hosts: "w0:1,w1:1", args: args})
	}
	judge := func(t *testing.T, r result, frames ...string) {
		t.Helper()
		r.Fails(t, 139, "rank 1 on w1 was killed by signal 11 (SIGSEGV)", "it crashed in "+strings.Join(frames, ", called by ")+"\n")
		if v := verdictOf(t, r); v.Kind != verdict.Segfault || v.Rank == nil || *v.Rank != 1 || !slices.Equal(v.Frames, frames) {
			t.Errorf("frames %q of %+v", v.Frames, v)
		}
	}
	t.Run("by Open MPI's handler", func(t *testing.T) {
		t.Parallel()
		r := run(t, l.openMPI(t, "crash"), "0", l.folder(t), ompiFlags...)
		judge(t, r, "apply_flux (mpicc.openmpi-crash)", "take_step (mpicc.openmpi-crash)", "main (mpicc.openmpi-crash)")
	})
	t.Run("by a core file", func(t *testing.T) {
		t.Parallel()
		need.Core(t)
		need.Program(t, "eu-stack", "elfutils")
		dir := l.folder(t)
		r := run(t, l.program(t, "crash"), "$(ulimit -H -c)", dir, "-x", "UCX_HANDLE_ERRORS=none") // UCX's handler writes too
		judge(t, r, "apply_flux", "take_step", "main")
		r.Fails(t, 139, "rank 1 crashed in apply_flux, called by take_step, called by main, by its core file "+dir+"/")
	})
}

// What a container's own command ends with is the container's termination message, and what somebody runs in it from outside is not.
func TestTerminationLogIsTheContainers(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	// PID 1 of the container runs a job that fails with 3; then somebody comes in and runs one that fails with 4.
	const container = `
		mount -t tmpfs none /dev; mknod -m 666 /dev/null c 1 3; : >/dev/termination-log
		"$1" run -n 1 sh -c 'exit 3' || [ $? = 3 ]
		cp /dev/termination-log "$2/own"; : >/dev/termination-log; : >"$2/ready"
		while [ ! -e "$2/go" ]; do sleep 0.05; done
		cp /dev/termination-log "$2/entered"`
	const outside = `unshare --pid --mount --mount-proc --fork --kill-child sh -ec "$0" sh "$1" "$2" & unshare=$!
		while [ ! -e "$2/ready" ]; do kill -0 $unshare; sleep 0.05; done
		nsenter -t $(cat /proc/$unshare/task/$unshare/children) -p -m "$1" run -n 1 sh -c 'exit 4' || [ $? = 4 ]
		: >"$2/go"; wait $unshare`
	dir := l.folder(t)
	l.command(t, job{}, "sh", "-ec", outside, container, l.bin, dir).Wait(t).Fails(t, 0, "exited with code 3", "exited with code 4")
	for name, want := range map[string]string{"own": "exit code 3", "entered": ""} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || (want == "") != (len(text) == 0) || !strings.Contains(string(text), want) {
			t.Errorf("%s: %q, %v, want %q", name, text, err, want)
		}
	}
}
