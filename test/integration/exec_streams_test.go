package integration

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"
	testlab "github.com/mpiup/mpiup/test/lab"
	"github.com/mpiup/mpiup/test/netns"
)

func (l *lab) exec(t *testing.T, j job, args ...string) *running {
	t.Helper()
	return l.command(t, j, append([]string{l.bin, "exec", "--key", l.key}, args...)...)
}

func TestExec(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	for _, c := range []struct {
		name   string
		args   []string
		stdin  string
		stdout string
		stderr string
		code   int
	}{
		{"output", []string{"w1", "--", "hostname"}, "", "w1\n", "", 0},
		{"no dashes", []string{"w2", "hostname"}, "", "w2\n", "", 0},
		{"flags of the command", []string{"w2", "sh", "-c", "echo -n x"}, "", "x", "", 0},
		{"stderr", []string{"w1", "--", "sh", "-c", "echo out; echo err >&2"}, "", "out\n", "err\n", 0},
		{"stdin", []string{"w0", "--", "tr", "a-z", "A-Z"}, "hello", "HELLO", "", 0},
		{"exit code", []string{"w0", "--", "sh", "-c", "exit 37"}, "", "", "", 37},
		{"signal", []string{"w0", "--", "sh", "-c", "kill -SEGV $$"}, "", "", "", 139},
		{"no rank", []string{"w0", "--", "sh", "-c", "env | grep -c -E '^(PMI|MPIUP_RANK)'"}, "", "0\n", "", 1},
		{"variable", []string{"-x", "V=1", "w0", "--", "sh", "-c", "echo $V"}, "", "1\n", "", 0},
		{"directory", []string{"--wdir", "/usr", "w0", "--", "pwd"}, "", "/usr\n", "", 0},
		{"timeout", []string{"--timeout", "1", "w0", "--", "sleep", "1000"}, "", "", "mpiup: the job ran longer than --timeout 1s\n", 110},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := l.exec(t, job{stdin: strings.NewReader(c.stdin)}, c.args...).Wait(t)
			r.Ends(t, c.code, c.stdout, c.stderr)
		})
	}
	l.exec(t, job{}, "w0", "--", "/no/such/program").Wait(t).Fails(t, 246, "/no/such/program", "w0")
	l.exec(t, job{}, "--wait", "1", "nobody", "--", "true").Wait(t).Fails(t, 242, "nobody")
}

func TestExecStreamsBytes(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	data := noise(5 << 20)
	out := newCounter()
	l.exec(t, job{stdin: bytes.NewReader(data), stdout: out}, "w1", "--", "cat").Wait(t).OK(t)
	want := sha256.Sum256(data)
	if got := out.sum.Sum(nil); !bytes.Equal(got, want[:]) {
		t.Errorf("%d of %d bytes came back, or other ones: %s", out.n, len(data), hex.EncodeToString(got))
	}
}

func TestExecForwardsSignals(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	r := l.exec(t, job{}, "w0", "--", "sh", "-c", strings.ReplaceAll(listener, "$MPIUP_RANK", "it"))
	r.Says(t, "it ready")
	for name, sig := range map[string]syscall.Signal{"HUP": syscall.SIGHUP, "USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2} {
		r.Signal(t, sig)
		r.Says(t, "it got "+name)
	}
	r.Signal(t, syscall.SIGINT)
	if res := r.Wait(t); res.Code != 3 {
		t.Errorf("ended with %d, %s", res.Code, res.Stderr)
	}
}

func TestExecOnATerminal(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	master, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	if err := pty.Setsize(tty, &pty.Winsize{Rows: 33, Cols: 77}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cmd := l.cluster.Command(ctx, netns.Launcher, l.bin, "exec", "--key", l.key, "-t", "w1", "--", "sh", "-c",
		"trap 'echo interrupted' INT; tty; stty size; until [ \"$(stty size)\" = '40 100' ]; do sleep 0.05; done; echo resized; read -r word; echo \"read $word\"; exit 9")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	cmd.Env = []string{"PATH=/usr/bin:/bin", "TERM=vt100"}
	r, err := testlab.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	tty.Close()
	screen := new(testlab.Text)
	copied := make(chan struct{})
	go func() { defer close(copied); _, _ = io.Copy(screen, master) }() // until the last of the terminal's users is gone
	sees := func(text string) {
		t.Helper()
		if err := r.Until(screen, text); err != nil {
			t.Fatalf("%v\non the screen: %q", err, screen.String())
		}
	}
	sees("/dev/pts/")
	sees("33 77")
	typed(t, master, "\x03") // is the remote terminal's to understand
	sees("interrupted")
	if err := pty.Setsize(master, &pty.Winsize{Rows: 40, Cols: 100}); err != nil {
		t.Fatal(err)
	}
	sees("resized")
	typed(t, master, "hello\r")
	res := r.Wait(t)
	<-copied
	if res.Code != 9 || !strings.Contains(screen.String(), "read hello") {
		t.Errorf("ended with %d, screen %q", res.Code, screen.String())
	}
	l.exec(t, job{}, "-t", "w1", "--", "true").Wait(t).Fails(t, 240, "terminal")
}

func typed(t *testing.T, to *os.File, keys string) {
	t.Helper()
	if _, err := to.WriteString(keys); err != nil {
		t.Fatal(err)
	}
}
