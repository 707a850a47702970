package outfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// What stands where a file is about to be made, and what becomes of it and of what it leads to.
func TestWhatIsThere(t *testing.T) {
	const old, text = "another's", "new"
	sets := map[string]func(at, other string) error{
		"nothing":        func(string, string) error { return nil },
		"a file":         func(at, _ string) error { return os.WriteFile(at, []byte("of before"), 0o600) },
		"a link":         func(at, other string) error { return os.Symlink(other, at) },
		"a link to none": func(at, other string) error { return os.Symlink(other+"-gone", at) },
		"another's name": func(at, other string) error { return os.Link(other, at) },
		"a pipe":         func(at, _ string) error { return unix.Mkfifo(at, 0o600) },
		"a directory":    func(at, _ string) error { return os.Mkdir(at, 0o700) },
	}
	write := func(f *os.File, err error) error {
		if err != nil {
			return err
		}
		_, err = f.Write([]byte(text))
		return errors.Join(err, f.Close())
	}
	named := func(dir string, do func(*File) error) error {
		f, err := At(filepath.Join(dir, "f"))
		if err != nil {
			return err
		}
		return errors.Join(do(f), f.Close())
	}
	in := func(dir string, do func(*Dir) error) error {
		d, err := Open(dir, 0o755)
		if err != nil {
			return err
		}
		return errors.Join(do(d), d.Close())
	}
	ways := map[string]struct {
		do    func(dir string) error
		works string // where it does, first letters behind the article
	}{
		"Replace": {func(dir string) error {
			return in(dir, func(d *Dir) error { return d.Replace("f", []byte(text), 0o600) })
		}, "nothing, a file, a link, a link to none, another's name, a pipe"},
		"Create": {func(dir string) error {
			return in(dir, func(d *Dir) error { return write(d.Create("f", 0)) })
		}, "nothing, a file"},
		"Write": {func(dir string) error { return named(dir, func(f *File) error { return f.Write([]byte(text), true) }) }, "nothing, a file, a pipe"},
		"Try":   {func(dir string) error { return named(dir, (*File).Try) }, "nothing, a file, a pipe"},
	}
	for way, w := range ways {
		for what, set := range sets {
			t.Run(way+" over "+what, func(t *testing.T) {
				top := t.TempDir()
				dir, other := filepath.Join(top, "dir"), filepath.Join(top, "other")
				at := filepath.Join(dir, "f")
				if err := errors.Join(os.Mkdir(dir, 0o755), os.WriteFile(other, []byte(old), 0o600), set(at, other)); err != nil {
					t.Fatal(err)
				}
				works := false
				for one := range strings.SplitSeq(w.works, ", ") {
					works = works || one == what
				}
				if err := w.do(dir); (err == nil) != works || err != nil && !strings.Contains(err.Error(), at) {
					t.Errorf("%v", err)
				}
				if got, err := os.ReadFile(other); err != nil || string(got) != old {
					t.Errorf("another's file has %q, %v", got, err)
				}
				if all, err := os.ReadDir(top); err != nil || len(all) != 2 {
					t.Errorf("beside it: %v, %v", all, err)
				}
				if fi, err := os.Lstat(at); works && way != "Try" && (err != nil || fi.Mode().IsRegular() && fi.Size() != int64(len(text))) {
					t.Errorf("%v, %v", fi, err)
				}
				left, err := os.ReadDir(dir)
				if err != nil || len(left) > 1 {
					t.Errorf("left behind: %v, %v", left, err)
				}
			})
		}
	}
}

// No link on the way below a directory is followed, nothing leads out of it, and what becomes of its own name does not matter.
func TestBelow(t *testing.T) {
	top := t.TempDir()
	dir, elsewhere := filepath.Join(top, "dir"), filepath.Join(top, "elsewhere")
	if err := errors.Join(os.Mkdir(elsewhere, 0o755), os.Mkdir(dir, 0o755), os.Symlink(dir, filepath.Join(top, "users")), os.Symlink(elsewhere, filepath.Join(dir, "l"))); err != nil {
		t.Fatal(err)
	}
	d, err := Open(filepath.Join(top, "users"), 0o755) // the user's own link
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := errors.Join(os.Remove(filepath.Join(top, "users")), os.Symlink(elsewhere, filepath.Join(top, "users"))); err != nil {
		t.Fatal(err)
	}
	for name, works := range map[string]bool{"a/b/f": true, "x/../g": true, "l/f": false, "../f": false, "/etc/f": false, ".": false, "": false} {
		f, err := d.Create(name, 0)
		if (err == nil) != works {
			t.Errorf("%q: %v", name, err)
		}
		if err == nil {
			f.Close()
		}
		if err := d.Replace(name, nil, 0o600); (err == nil) != works {
			t.Errorf("%q is replaced: %v", name, err)
		}
	}
	if _, err := d.Make("l"); !errors.Is(err, os.ErrExist) {
		t.Errorf("a link is taken for a directory that was made: %v", err)
	}
	if all, err := os.ReadDir(elsewhere); err != nil || len(all) > 0 {
		t.Errorf("elsewhere is %v, %v", all, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "a", "b", "f")); err != nil {
		t.Error(err)
	}
	if _, err := Private(filepath.Join(top, "users")); err == nil {
		t.Error("a link is taken for a directory of this user's")
	}
}

// Devices by their paths are what a user means, and stdout is a link.
func TestDevices(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	for _, path := range []string{"/dev/null", fmt.Sprintf("/dev/fd/%d", w.Fd())} {
		if err := Write(path, []byte("x")); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	if n, err := r.Read(make([]byte, 9)); n != 1 {
		t.Errorf("%d bytes, %v", n, err)
	}
	d, err := Open("/dev", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if _, err := d.Create("null", 0); err == nil {
		t.Error("a device below a directory is written to")
	}
}
