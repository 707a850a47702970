package socket

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// heard is a connection of the kernel's, whose deadlines are noted in place of it.
type heard struct {
	net.Conn
	raw       syscall.RawConn
	deadlines []time.Time
}

func (h *heard) SyscallConn() (syscall.RawConn, error) { return h.raw, nil }

func (h *heard) SetReadDeadline(at time.Time) error {
	h.deadlines = append(h.deadlines, at)
	return nil
}

// pair is a connection of the kernel's, and its other end.
func pair(t *testing.T) (ours *net.UnixConn, theirs *os.File) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fds[0]), "ours")
	defer f.Close()
	theirs = os.NewFile(uintptr(fds[1]), "theirs")
	c, err := net.FileConn(f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); theirs.Close() })
	return c.(*net.UnixConn), theirs
}

// Who has said nothing is heard no longer than he may be; who has spoken, and was not read, has his time again, three times in all.
func TestHear(t *testing.T) {
	for _, tt := range []struct {
		name   string
		said   string
		waits  time.Duration
		lifted bool // before the time has passed
		ends   bool // the read has ended by then
	}{
		{"silent", "", 5 * time.Second, false, true},
		{"not yet", "", 4 * time.Second, false, false},
		{"unread once", "hi", 6 * time.Second, false, false},
		{"unread twice", "hi", 14 * time.Second, false, false},
		{"unread for ever", "hi", 15 * time.Second, false, true},
		{"lifted", "", time.Hour, true, false},
		{"lifted, unread", "hi", time.Hour, true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ours, theirs := pair(t)
			raw, err := ours.SyscallConn()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := theirs.WriteString(tt.said); err != nil {
				t.Fatal(err)
			}
			if n := Unread(ours); n != len(tt.said) {
				t.Fatalf("%d bytes lie unread, want %d", n, len(tt.said))
			}
			synctest.Test(t, func(t *testing.T) {
				c := &heard{raw: raw}
				lift := Hear(c, 5*time.Second)
				if tt.lifted {
					_ = lift()
					c.deadlines = nil
				}
				time.Sleep(tt.waits + time.Millisecond) // virtual
				synctest.Wait()
				if ended := len(c.deadlines) > 0; ended != tt.ends {
					t.Errorf("after %v its read has ended: %v", tt.waits, ended)
				}
				if !tt.lifted {
					_ = lift()
				}
			})
		})
	}
}

// What was said before we hung up can be read after it, and the other side sees the end.
func TestHangUpLeavesTheLastWord(t *testing.T) {
	ours, theirs := pair(t)
	if _, err := theirs.WriteString("bye"); err != nil {
		t.Fatal(err)
	}
	HangUp(ours)
	if n, err := theirs.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("the other side reads %d bytes, %v", n, err)
	}
	b := make([]byte, 3)
	if _, err := io.ReadFull(ours, b); err != nil || string(b) != "bye" {
		t.Errorf("%q, %v", b, err)
	}
	a, b2 := net.Pipe()
	HangUp(a)
	if _, err := b2.Read(b); !errors.Is(err, io.EOF) {
		t.Errorf("a pipe in memory: %v", err)
	}
}

// What the kernel knows of a TCP connection: what lies unread, and that the other side has everything.
func TestAsk(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ours, err := net.Dial("tcp4", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	theirs, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	if _, err := theirs.Write([]byte("abc")); err != nil {
		t.Fatal(err)
	}
	if _, err := ours.Write([]byte("to a process that reads nothing")); err != nil {
		t.Fatal(err)
	}
	var p Peer
	for begun := time.Now(); (!p.All || p.Unread != 3) && time.Since(begun) < 10*time.Second; {
		p = Ask(ours)
	}
	if p.Unread != 3 || !p.Answers(10*time.Second) {
		t.Errorf("%+v", p)
	}
	_, inMemory := net.Pipe()
	if p := Ask(inMemory); p != (Peer{}) {
		t.Errorf("of a pipe in memory it knows %+v", p)
	}
	_ = ours.Close()
	if p := Ask(ours); p.All {
		t.Errorf("of a closed connection it knows %+v", p)
	}
}
