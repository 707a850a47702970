package watch

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A rank may do with its file what it likes: lines come whole and once, a look stays small, and nothing but a file is opened.
func TestTrail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "0")
	tr := &trail{path: path}
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
	tr := &trail{path: path}
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
