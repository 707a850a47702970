package streams

import (
	"bytes"
	"errors"
	"io"
	"os"
	"syscall"
	"testing"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// copyThrough writes data to w by an Output and returns what r got.
func copyThrough(t *testing.T, d *Output, w io.Closer, r io.Reader, data []byte) []byte {
	t.Helper()
	got := make(chan []byte)
	go func() {
		b, _ := io.ReadAll(r) // a terminal ends with EIO
		got <- b
	}()
	if n, err := d.Write(data); n != len(data) || err != nil {
		t.Errorf("wrote %d of %d, %v", n, len(data), err)
	}
	d.Close()
	w.Close()
	return <-got
}

func TestOutputs(t *testing.T) {
	data := bytes.Repeat([]byte("0123456789abcde\n"), 40_000)
	sockets := func(t *testing.T) (r, w *os.File) {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		return os.NewFile(uintptr(fds[0]), "r"), os.NewFile(uintptr(fds[1]), "w")
	}
	terminal := func(t *testing.T) (r, w *os.File) {
		r, w, err := pty.Open()
		if err != nil {
			t.Fatal(err)
		}
		return r, w
	}
	for _, tt := range []struct {
		name  string
		files func(t *testing.T) (r, w *os.File)
		most  int // forces the way without a file description of our own
	}{
		{"pipe", blockingPipe, 0},
		{"pipe that cannot be opened anew", blockingPipe, pipeBuf},
		{"socket", sockets, 0},
		{"terminal", terminal, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, w := tt.files(t)
			defer r.Close()
			d, err := OpenOutput(w)
			if err != nil {
				t.Fatal(err)
			}
			d.most = max(d.most, tt.most)
			got := bytes.ReplaceAll(copyThrough(t, d, w, r, data), []byte("\r"), nil)
			if !bytes.Equal(got, data) {
				t.Errorf("%d bytes arrived of %d", len(got), len(data))
			}
		})
	}
}

// Regular files keep the offset they share with the shell: (mpiup run ...; echo) > file.
func TestSharedOffset(t *testing.T) {
	f, err := os.Create(t.TempDir() + "/out")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	f.WriteString("before\n")
	d, err := OpenOutput(f)
	if err != nil {
		t.Fatal(err)
	}
	d.Write([]byte("ours\n"))
	d.Close()
	f.WriteString("after\n")
	if got, _ := os.ReadFile(f.Name()); string(got) != "before\nours\nafter\n" {
		t.Errorf("got %q", got)
	}
}

func TestInterruptWithoutOwnDescription(t *testing.T) {
	_, w := blockingPipe(t)
	d, err := OpenOutput(w)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	d.most = pipeBuf
	done := make(chan error, 1)
	go func() {
		_, err := d.Write(make([]byte, 4<<20))
		done <- err
	}()
	d.Interrupt()
	if err := <-done; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func TestClosedSocket(t *testing.T) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(fds[0])
	w := os.NewFile(uintptr(fds[1]), "w")
	defer w.Close()
	d, err := OpenOutput(w)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if _, err := d.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("got %v", err)
	}
}
