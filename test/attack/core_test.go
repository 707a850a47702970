package attack

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mpiup/mpiup/test/deadmount"
	"github.com/mpiup/mpiup/test/lab"
	"github.com/mpiup/mpiup/test/need"
)

// theirs is the user to whom ranks change.
const theirs = 65533

// givenUp is a rank as docs/security.md has it run: by a root agent, of a user that is not, who gains nothing.
var givenUp = []string{"/usr/bin/setpriv", "--reuid", "65533", "--regid", "65533", "--clear-groups", "--no-new-privs"}

// opt makes a directory where root's programs are.
func opt(t *testing.T) string {
	t.Helper()
	top, err := os.MkdirTemp("/opt", "mpiup-attack-*")
	if err == nil {
		err = os.Chmod(top, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(top) })
	return top
}

// homeOf makes a directory of the ranks' user, with a working directory and another one.
func homeOf(t *testing.T) string {
	t.Helper()
	home, err := os.MkdirTemp("", "mpiup-attack-*")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(home) })
	for _, dir := range []string{home, filepath.Join(home, "work"), filepath.Join(home, "elsewhere")} {
		if err := errors.Join(os.MkdirAll(dir, 0o755), os.Chown(dir, theirs, theirs)); err != nil {
			t.Fatal(err)
		}
	}
	return home
}

// A rank of another user than its root agent crashes, and has put something else where its core is looked for: in its working directory, or in the place
// of that. What looks at a core runs as the rank's user, who can gain nothing by it, has nothing of root's, and looks at a file that this user has
// written and nobody else.
func TestCoresThatLeadElsewhere(t *testing.T) {
	need.Root(t)
	need.Core(t)
	need.Program(t, "setpriv", "util-linux")
	top := opt(t)
	says := filepath.Join(top, "says")
	tool := "#!/bin/sh\n" + `{ echo "uid $(id -u) gid $(id -g) groups $(id -G) $(grep NoNewPrivs /proc/self/status | tr -s '\t ' ' ')` +
		` owner $(stat -L -c %u /proc/self/fd/0) of $(readlink /proc/self/fd/0) with ${SECRET-nothing}"; } >>` + says + "\necho '#0  0x1 planted'\n"
	for _, name := range []string{"eu-stack", "gdb"} {
		if err := os.WriteFile(filepath.Join(top, name), []byte(tool), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s := newSite(t)
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte("a key of root's\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	at := startAgent(t, []string{"PATH=" + top + ":/usr/bin:/bin", "SECRET=of-the-agent"}, "--deny", "exec,shell,spawn", "--http", "off",
		"--tls-dir", s.files("mpiup://g/agent/w"))
	tls := "--tls-dir=" + s.files("mpiup://g/launcher/l0")

	const crashElsewhere = "; cd ../elsewhere && rm -f core; kill -SEGV $$"
	for _, c := range []struct {
		name   string
		does   string
		looked string // at, below the rank's directory; "": at nothing
	}{
		{"a core", "kill -SEGV $$", "work/core"},
		{"its directory is a link to the agent", "cd .. && mv work moved && ln -s /proc/$AGENT work && cd moved; kill -SEGV $$", "moved/core"},
		{"its directory is a pipe", "cd .. && mv work moved && mkfifo work && cd moved; kill -SEGV $$", "moved/core"},
		{"its directory is a link to its own core", "cd .. && mv work moved && ln -s elsewhere work && cd elsewhere; kill -SEGV $$", ""},
		{"a link to the agent's memory", "ln -s /proc/$AGENT/mem core" + crashElsewhere, ""},
		{"a link to what root reads", "ln -s /proc/$AGENT/environ core" + crashElsewhere, ""},
		{"a link to a key", "ln -s $KEY core" + crashElsewhere, ""},
		{"a link to a core of its own", "ln -s ../elsewhere/core core" + crashElsewhere, ""},
		{"a second name of a root's file", "ln $KEY core; ln /etc/shadow core" + crashElsewhere, ""},
		{"a second name", "echo x >x && ln x core" + crashElsewhere, ""},
		{"a pipe", "mkfifo core" + crashElsewhere, ""},
		{"a directory", "mkdir core" + crashElsewhere, ""},
		{"a file larger than memory", "truncate -s 9T core || mkdir core" + crashElsewhere, ""},
		{"a file that all may write", "echo x >core; chmod 666 core" + crashElsewhere, ""},
		{"many", "seq -f core.%g 5000 | xargs touch" + crashElsewhere, ""},
		{"a text of its own", "echo x >core" + crashElsewhere, "work/core"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := errors.Join(os.WriteFile(says, nil, 0o666), os.Chmod(says, 0o666)); err != nil {
				t.Fatal(err)
			}
			home := homeOf(t)
			script := fmt.Sprintf("AGENT=%d KEY=%s; ulimit -c unlimited; %s", at.Pid, key, c.does)
			begun := time.Now()
			r := mpiup(t, append([]string{"run", tls, "--host", at.Addr + ":1", "-n", "1", "--stdin", "none", "--wdir", filepath.Join(home, "work"), "--"},
				append(givenUp, "/bin/sh", "-c", script)...)...)
			if r.Code != 128+int(unix.SIGSEGV) || time.Since(begun) > bound/2 {
				t.Errorf("it ends with %d after %v:\n%s", r.Code, time.Since(begun), r.Stderr)
			}
			want := ""
			if c.looked != "" {
				want = "uid 65533 gid 65533 groups 65533 NoNewPrivs: 1 owner 65533 of " + filepath.Join(home, c.looked) + " with nothing\n"
			}
			if got := file(t, says); got != want {
				t.Errorf("what looks at cores has run so:\n%s\nwant:\n%s\n%s", got, want, r.Stderr)
			}
		})
	}
}

// Where nobody attacks, such a rank's crash is told of by its functions, by either tool.
func TestCoreOfARankOfAnotherUser(t *testing.T) {
	need.Root(t)
	need.Core(t)
	need.Program(t, "setpriv", "util-linux")
	need.Program(t, "gcc", "gcc")
	need.Program(t, "eu-stack", "elfutils")
	need.Program(t, "gdb", "gdb")
	home := homeOf(t)
	program := filepath.Join(home, "solver")
	const source = "void apply_flux(int *p) { *p = 1; }\nint main(int c, char **v) { apply_flux((int *)(long)(c - 1)); return 0; }\n"
	if err := os.WriteFile(filepath.Join(home, "solver.c"), []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("gcc", "-g", "-O0", "-o", program, filepath.Join(home, "solver.c")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	s := newSite(t)
	for _, tool := range []string{"eu-stack", "gdb"} {
		t.Run(tool, func(t *testing.T) {
			top := opt(t)
			real, err := exec.LookPath(tool)
			if err == nil {
				err = os.Symlink(real, filepath.Join(top, tool))
			}
			if err != nil {
				t.Fatal(err)
			}
			at := startAgent(t, []string{"PATH=" + top}, "--http", "off", "--tls-dir", s.files("mpiup://g/agent/w"))
			r := mpiup(t, append([]string{"run", "--tls-dir=" + s.files("mpiup://g/launcher/l0"), "--host", at.Addr + ":1", "-n", "1", "--stdin", "none",
				"--wdir", filepath.Join(home, "work"), "--"}, append(givenUp, "/bin/sh", "-c", "ulimit -c unlimited; exec "+program)...)...)
			_ = os.Remove(filepath.Join(home, "work", "core"))
			if r.Code != 128+int(unix.SIGSEGV) || !strings.Contains(r.Stderr, "apply_flux (solver.c:1)") {
				t.Errorf("it ends with %d:\n%s", r.Code, r.Stderr)
			}
		})
	}
}

// The file system on which an agent has its files stops to answer while a rank runs: /metrics is answered, the rank's end is told, and the agent ends.
func TestFileSystemThatStopsToAnswer(t *testing.T) {
	s := newSite(t)
	tmp, http := t.TempDir(), lab.Address()+":16749"
	at := startAgent(t, []string{"TMPDIR=" + tmp}, "--http", http, "--tls-dir", s.files("mpiup://g/agent/w"))
	dir := t.TempDir()
	c := exec.Command(bin, "run", "--tls-dir="+s.files("mpiup://g/launcher/l0"), "--host", at.Addr+":1", "-n", "1", "--stdin", "none", "--watch", "file",
		"--", "/bin/sh", "-c", "echo step=1 >>$MPIUP_PROGRESS; echo runs; until test -e "+dir+"/go; do sleep 0.05; done; exit 3")
	c.Dir, c.Env = dir, []string{"PATH=/usr/bin:/bin", "HOME=" + dir}
	run, err := lab.StartHere(c)
	if err != nil {
		t.Fatal(err)
	}
	lab.Eventually(t, "the rank runs", func() bool { return strings.Contains(run.Stdout.String()+run.Stderr.String(), "runs") })
	deadmount.Over(t, tmp)
	begun := time.Now()
	page, err := exec.Command("curl", "-s", "-m", "60", "http://"+http+"/metrics").CombinedOutput()
	if err != nil || !strings.Contains(string(page), "mpiup_") {
		t.Errorf("the metrics are %.200s, %v", page, err)
	}
	answered := time.Since(begun)
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if r := run.Wait(t); r.Code != 3 {
		t.Errorf("the run ends with %d:\n%s", r.Code, r.Stderr)
	}
	ended := time.Since(begun)
	if err := unix.Kill(at.Pid, unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	lab.Eventually(t, "the agent ends", func() bool { return unix.Kill(at.Pid, 0) != nil })
	if took := time.Since(begun); took > bound {
		t.Errorf("page and ends took %v:\n%s", took, at.Log)
	}
	t.Logf("the page took %v, the run's end %v, the agent's %v", answered, ended-answered, time.Since(begun)-ended)
}
