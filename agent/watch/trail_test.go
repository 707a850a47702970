package watch

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/bounded"
	"github.com/mpiup/mpiup/test/deadmount"
)

// heldDir holds a directory for as long as the test lasts.
func heldDir(t testing.TB, path string) *bounded.Dir {
	t.Helper()
	dir, err := bounded.HoldDir(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dir.Close() })
	return dir
}

// Neither a rank's end nor the job's waits for a directory that does not answer.
func TestTrailsOnADeadMount(t *testing.T) {
	trails := &Trails{dir: heldDir(t, deadmount.New(t)), turn: make(chan struct{}, 1), asks: make(chan struct{}, 1), of: map[uint32]*trail{}}
	trails.Environment(0, nil)
	trails.Environment(1, nil)
	ctx, cancel := context.WithCancel(t.Context())
	told := make(chan struct{})
	none := func(*apiv1.Frame) { t.Error("a directory that does not answer has told something") }
	go func() {
		trails.Tell(ctx, minTrail, none)
		close(told)
	}()
	begun := time.Now()
	trails.Last(0, none)
	trails.Last(1, none)
	if took := time.Since(begun); took > 20*lastTime {
		t.Errorf("two ends took %v", took)
	}
	cancel()
	select {
	case <-told:
	case <-time.After(time.Minute):
		t.Error("it does not end")
	}
}

// A rank may do with its file what it likes: lines come whole and once, a look stays small, and nothing but a file is opened.
func TestTrail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "0")
	tr := &trail{dir: heldDir(t, filepath.Dir(path)), name: "0"}
	write := func(flags int, text string) {
		t.Helper()
		f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|flags, 0o600)
		if err == nil {
			_, err = f.WriteString(text)
		}
		if err != nil || f.Close() != nil {
			t.Fatal(err)
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name string
		do   func()
		want string
	}{
		{"nothing is there", func() {}, ""},
		{"a line and a half", func() { write(os.O_APPEND, "step=1\nste") }, "step=1\n"},
		{"its other half", func() { write(os.O_APPEND, "p=2\n") }, "step=2\n"},
		{"nothing new", func() {}, ""},
		{"written anew, shorter", func() { write(os.O_TRUNC, "step=9\n") }, "step=9\n"},
		{"in the place of another", func() {
			must(os.WriteFile(path+".new", []byte("step=1000\n"), 0o600))
			must(os.Rename(path+".new", path))
		}, "step=1000\n"},
		{"far ahead", func() { write(os.O_APPEND, strings.Repeat("x", behind)+"\nstep=5\n") }, "step=5\n"},
		{"a line without end", func() { write(os.O_APPEND, strings.Repeat("y", 10<<10)) }, ""},
		{"whose rest is no line", func() { write(os.O_APPEND, "tail\nstep=6\n") }, "step=6\n"},
		{"far larger than any disk", func() { must(os.Truncate(path, 1<<40)) }, ""},
		{"a second name", func() {
			must(os.Remove(path))
			must(os.WriteFile(path+".other", []byte("step=7\n"), 0o600))
			must(os.Link(path+".other", path))
		}, ""},
		{"a link", func() { must(os.Remove(path)); must(os.Symlink("/etc/passwd", path)) }, ""},
		{"a pipe", func() { must(os.Remove(path)); must(unix.Mkfifo(path, 0o600)) }, ""},
		{"a folder", func() { must(os.Remove(path)); must(os.Mkdir(path, 0o700)) }, ""},
	} {
		tt.do()
		if got := string(tr.next()); got != tt.want {
			t.Errorf("%s: %.80q, want %q", tt.name, got, tt.want)
		}
	}
}

// What has been read takes no room on the disk.
func TestTrailTakesNoRoom(t *testing.T) {
	path := filepath.Join(t.TempDir(), "0")
	tr := &trail{dir: heldDir(t, filepath.Dir(path)), name: "0"}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	line := strings.Repeat("step=1 ", 1000) + "\n"
	for range 1000 {
		if _, err := f.WriteString(line); err != nil {
			t.Fatal(err)
		}
		tr.next()
	}
	var is unix.Stat_t
	if err := unix.Stat(path, &is); err != nil || is.Size < 6<<20 {
		t.Fatalf("%d bytes, %v", is.Size, err)
	}
	if tr.punched == 0 {
		return // this file system makes no holes
	}
	if is.Blocks*512 > 2*behind+maxLook {
		t.Errorf("a file of %d bytes takes %d", is.Size, is.Blocks*512)
	}
}
