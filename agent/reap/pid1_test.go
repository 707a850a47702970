package reap

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/test/need"
)

// asPID1 wraps a command so that it is PID 1 of a PID namespace of its own.
func asPID1(t *testing.T, c Command) Command {
	need.Root(t)
	c.Argv = append([]string{"unshare", "--pid", "--fork", "--mount-proc", "--kill-child"}, c.Argv...)
	return c
}

func TestPID1ReapsZombies(t *testing.T) {
	s := supervise(t)
	// given: 50 orphans that end; then: no child but the one that looks is left to PID 1
	script := `for i in $(seq 50); do (sleep 0.01 &); done; i=0
while [ $(grep -l '^State:.Z' /proc/[0-9]*/status 2>/dev/null | wc -l) != 0 ] || pgrep -x sleep >/dev/null; do i=$((i+1)); [ $i -lt 2000 ] || exit 9; done
[ $(cut -d' ' -f4 /proc/$$/stat) = 1 ] && echo reaped; exit 5`
	got := output(t, s, asPID1(t, inRole(t, "supervisor", "sh", "-c", script)))
	if got != "reaped\n" {
		t.Errorf("got %q", got)
	}
}

func TestPID1EndsAllDescendants(t *testing.T) {
	s := supervise(t)
	file := filepath.Join(t.TempDir(), "pid")
	// An orphan without environment, of nobody's process session.
	c := asPID1(t, inRole(t, "supervisor", "sh", "-c", `(setsid env -i sh -c 'trap "echo term >>$1; exit" TERM; echo up >$1; while :; do sleep 0.01; done' sh $1 &); while ! [ -s $1 ]; do :; done; exit 5`, "sh", file))
	p := start(t, s, c)
	wait(t, p)
	if p.Exit().Code != 5 {
		t.Errorf("exit %+v", p.Exit())
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != "up\nterm\n" {
		t.Errorf("the orphan saw %q %v, want a SIGTERM", b, err)
	}
}

func TestZombiesAreReapedAsSubreaper(t *testing.T) {
	s := supervise(t)
	got := output(t, s, inRole(t, "supervisor", "sh", "-c", `for i in 1 2 3 4 5 6 7 8 9; do (sleep 0.01 &); done; exit 0`))
	if got != "" { // the role complains about children that are left
		t.Errorf("got %q", got)
	}
}

func TestAnyUserWithoutCapabilityOnAReadOnlyRoot(t *testing.T) {
	need.Root(t)
	need.Program(t, "setpriv", "util-linux")
	s := supervise(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(readable(t), "reap.test")
	b, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	write(t, copied, string(b), 0o755)
	c := inRole(t, "supervisor", "sh", "-c",
		`id -u; grep CapBnd /proc/self/status; touch /x 2>/dev/null || echo read-only; setsid sleep 100 & exit 3`)
	c.Argv[0] = copied
	inside := `mount --make-rprivate / && mount -t proc -o hidepid=2 proc /proc && mount -o remount,bind,ro / && exec setpriv --reuid 54321 --regid 54321 --clear-groups --no-new-privs --bounding-set=-all --inh-caps=-all "$@"`
	c.Argv = append([]string{"unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", inside, "sh"}, c.Argv...)
	got := output(t, s, c)
	if got != "54321\nCapBnd:\t0000000000000000\nread-only\n" {
		t.Errorf("got %q", got)
	}
}

// readable is a temporary directory that any user may enter.
func readable(t *testing.T) string {
	dir, err := os.MkdirTemp("", "reap")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Those of descriptors, cores and stacks are a program's own; the others help.
func TestLimitsAreRaisedForChildren(t *testing.T) {
	s := supervise(t)
	c := inRole(t, "supervisor", "sh", "-c", "ulimit -Sn; ulimit -Sl; ulimit -Sc; ulimit -Ss")
	c.Argv = append([]string{"sh", "-c", "ulimit -Sn 64; ulimit -Hn 3000; ulimit -Sl 64; ulimit -Hl 512; ulimit -Sc 0; ulimit -Ss 4096; exec \"$@\"", "sh"}, c.Argv...)
	if got := strings.Fields(output(t, s, c)); strings.Join(got, " ") != "64 512 0 4096" {
		t.Errorf("descriptors, locked memory, core, stack: %q", got)
	}
}
