package client

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestExcludes(t *testing.T) {
	a, b := Process{PID: 7, Start: 100}, Process{PID: 8, Start: 101}
	lives := func(p Process) bool { return p == a }
	for _, tt := range []struct {
		name          string
		first, second Process
		lives         func(Process) bool
		want          bool
	}{
		{"another one", a, b, lives, true},
		{"a later one of its number", a, Process{PID: 7, Start: 200}, lives, true},
		{"itself", a, a, lives, false},
		{"itself, whose start does not show", a, Process{PID: 7}, lives, false},
		{"another one, after its end", b, a, lives, false},
		{"one that is not known", a, Process{}, lives, false},
		{"another one than who is not known", Process{}, b, lives, false},
		{"another one, where nobody knows who lives", a, b, nil, false},
	} {
		if got := tt.first.Excludes(tt.second, tt.lives); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

// pair is a connected socket: the server's end, and the one that a rank inherits.
func pair(t *testing.T) (*Credentials, *os.File) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "ours"), os.NewFile(uintptr(fds[1]), "theirs")
	defer ours.Close()
	conn, err := net.FileConn(ours)
	if err != nil {
		t.Fatal(err)
	}
	c, err := NewCredentials(conn.(*net.UnixConn), func(pid int) Process { return Process{PID: pid, Start: 1} })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		theirs.Close()
	})
	return c, theirs
}

// Each message has its writer, also where several wrote before anything was read, and a read never has bytes of two.
func TestCredentials(t *testing.T) {
	c, theirs := pair(t)
	var want []string
	for n := range 3 {
		cmd := exec.Command("sh", "-c", fmt.Sprintf("printf %d%d >&3; printf x >&3", n, n))
		cmd.ExtraFiles = []*os.File{theirs}
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
		want = append(want, fmt.Sprintf("%d%dx of %d", n, n, cmd.Process.Pid))
	}
	if _, err := theirs.WriteString("own"); err != nil {
		t.Fatal(err)
	}
	want = append(want, fmt.Sprint("own of ", os.Getpid()))
	theirs.Close()

	var got []string
	for b := make([]byte, 100); ; {
		n, err := c.Read(b)
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		of := fmt.Sprint(" of ", c.Speaker().PID)
		if last := len(got) - 1; last >= 0 && strings.HasSuffix(got[last], of) { // the kernel may give two messages of one
			got[last] = strings.TrimSuffix(got[last], of) + string(b[:n]) + of
			continue
		}
		got = append(got, string(b[:n])+of)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("read %q, want %q", got, want)
	}
	if !c.Shared() {
		t.Error("nobody else may write")
	}
}

// Descriptors that a rank sends stay nowhere, and a connection that is cut is an error and no count.
func TestHostileMessages(t *testing.T) {
	c, theirs := pair(t)
	open := func() int {
		names, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(names)
	}
	before := open()
	for range 10 {
		rights := unix.UnixRights(0, 1, 2)
		if err := unix.Sendmsg(int(theirs.Fd()), []byte("x"), rights, nil, 0); err != nil {
			t.Fatal(err)
		}
		if n, err := c.Read(make([]byte, 10)); n != 1 || err != nil || c.Speaker().PID != os.Getpid() {
			t.Fatalf("read %d of %v: %v", n, c.Speaker(), err)
		}
	}
	if n := open(); n != before {
		t.Errorf("%d descriptors are open, %d were", n, before)
	}
	if _, err := c.Write([]byte("not read")); err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	if n, err := c.Read(make([]byte, 10)); n != 0 || !errors.Is(err, unix.ECONNRESET) {
		t.Errorf("read %d, %v", n, err)
	}
}

func TestKnown(t *testing.T) {
	p := Process{PID: 3, Start: 4}
	if k := (Known{Process: p}); k.Speaker() != p || k.Shared() {
		t.Error(k)
	}
}
