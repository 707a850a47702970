package bounded

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// What somebody makes of a directory's path, or puts into it, leads nowhere else, blocks nobody and is not opened.
func TestHeldDir(t *testing.T) {
	top := t.TempDir()
	in := func(name string) string { return filepath.Join(top, name) }
	for _, err := range []error{
		os.MkdirAll(in("held/below/deep"), 0o700),
		os.WriteFile(in("held/file"), []byte("ours"), 0o600),
		os.WriteFile(in("held/below/deep/file"), []byte("deep"), 0o600),
		os.Mkdir(in("elsewhere"), 0o700),
		os.WriteFile(in("elsewhere/file"), []byte("secret"), 0o600),
		os.Symlink(in("elsewhere/file"), in("held/link")),
		os.Symlink(in("elsewhere"), in("held/linked")),
		os.Symlink("/proc/self", in("held/process")),
		unix.Mkfifo(in("held/pipe"), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	d, err := HoldDir(in("held"))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := errors.Join(os.Rename(in("held"), in("moved")), os.Symlink(in("elsewhere"), in("held"))); err != nil {
		t.Fatal(err)
	}

	const most = 100
	if text, err := d.Regular("file", most); err != nil || string(text) != "ours" {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := d.Regular("file", 3); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a longer file: %v", err)
	}
	names := d.Names(most)
	slices.Sort(names)
	if want := []string{"below", "file", "link", "linked", "pipe", "process"}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
	if got := d.Names(2); len(got) != 2 {
		t.Errorf("%q of two", got)
	}

	for name, want := range map[string]error{"link": ErrNotRegular, "pipe": ErrNotRegular, "below": ErrNotRegular, "none": fs.ErrNotExist,
		"..": fs.ErrInvalid, "": fs.ErrInvalid, "below/deep/file": fs.ErrInvalid, "../elsewhere/file": fs.ErrInvalid, "/etc/passwd": fs.ErrInvalid} {
		for _, open := range []func(string) (*os.File, error){d.Open, d.Change} {
			if f, err := open(name); !errors.Is(err, want) {
				t.Errorf("%q is opened: %v, %v, want %v", name, f, err, want)
			}
		}
	}
	if f, err := d.Pipe("file"); !errors.Is(err, ErrNotRegular) {
		t.Errorf("a file as a pipe: %v, %v", f, err)
	}
	if f, err := d.Pipe("pipe"); !errors.Is(err, unix.ENXIO) {
		t.Errorf("a pipe that nobody reads: %v, %v", f, err)
	}

	for name, want := range map[string]string{"link": "secret", "linked/file": "secret", "../elsewhere/file": "secret", in("moved/file"): "ours", "file": "ours"} {
		f, err := d.Follow(name)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := whole(f, name, most); err != nil || string(text) != want {
			t.Errorf("as a program opens %s: %q, %v", name, text, err)
		}
	}
	for _, name := range []string{"pipe", "below", "none", "/dev/null", in("moved/pipe")} {
		if f, err := d.Follow(name); err == nil {
			t.Errorf("%s is opened", f.Name())
		}
	}
	if f, err := (*Dir)(nil).Follow("file"); err == nil {
		t.Errorf("%s is opened from nowhere", f.Name())
	}
	if info, err := d.Lstat("link"); err != nil || info.Mode().Type() != fs.ModeSymlink {
		t.Errorf("the link is %v, %v", info, err)
	}

	deep, err := d.Dir("below/deep")
	if err != nil {
		t.Fatal(err)
	}
	defer deep.Close()
	if text, err := deep.Regular("file", most); err != nil || string(text) != "deep" {
		t.Errorf("%q, %v", text, err)
	}
	for _, name := range []string{"linked", "process", "pipe", "file", "below/../..", "..", "/", "process/fd", "none"} {
		if below, err := d.Dir(name); err == nil {
			t.Errorf("%q is a directory: %v", name, below.Names(most))
		}
	}
	if d, err := HoldDir(in("moved/pipe")); err == nil {
		t.Errorf("a pipe is held as %s", d.Name())
	}
}

// One who reads a pipe gets what is written to it.
func TestPipeOfAHeldDir(t *testing.T) {
	top := t.TempDir()
	if err := unix.Mkfifo(filepath.Join(top, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := HoldDir(top)
	if err != nil {
		t.Fatal(err)
	}
	reader, err := os.OpenFile(filepath.Join(top, "pipe"), os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	f, err := d.Pipe("pipe")
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Write([]byte("1\n"))
	got := make([]byte, 2)
	_, rerr := reader.Read(got)
	if err := errors.Join(err, rerr, reader.SetDeadline(time.Now().Add(time.Minute)), f.Close(), d.Close()); err != nil || string(got) != "1\n" {
		t.Errorf("%q, %v", got, err)
	}
	if f, err := d.Open("pipe"); err == nil || errors.Is(err, ErrNotRegular) {
		t.Errorf("of a directory that is closed: %v, %v", f, err)
	}
}
