package sysfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"golang.org/x/sys/unix"
)

var files = fstest.MapFS{
	"sys/a/number": {Data: []byte("-1\n")},
	"sys/a/size":   {Data: []byte("32K\n")},
	"sys/a/list":   {Data: []byte("0-3,8\n")},
	"sys/a/mask":   {Data: []byte("00000001,0000000f\n\x00")}, // as Linux 5.15 has it
	"sys/a/words":  {Data: []byte(" two words \n")},
	"proc/long":    {Data: []byte(long)},
	"sys/a/big":    {Data: []byte("9999999999\n")},
	"sys/a/long":   {Data: make([]byte, MaxText)},
	"sys/b":        {Data: []byte("a/number"), Mode: fs.ModeSymlink},
}

// readers are the ways to read: a test's fs.FS, and this machine's files.
func readers(t *testing.T) map[string]func(name string) (FS, string) {
	dir := t.TempDir()
	for name, f := range files {
		to := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(to), 0o755)
		if err == nil && f.Mode&fs.ModeSymlink != 0 {
			err = os.Symlink(string(f.Data), to)
		} else if err == nil {
			err = os.WriteFile(to, f.Data, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	opened, err := OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { opened.Close() })
	old := opened
	old.fd = -1
	return map[string]func(string) (FS, string){
		"directory":                 func(name string) (FS, string) { return New(opened), name },
		"directory without openat2": func(name string) (FS, string) { return New(old), name },
		"fs.FS":                     func(name string) (FS, string) { return New(files), name },
		"host":                      func(name string) (FS, string) { return Host(), strings.TrimPrefix(dir, "/") + "/" + name },
	}
}

// long needs more than the page that Prefix begins with.
var long = strings.Repeat("0123456789abcdef", page/8)

func TestRead(t *testing.T) {
	for kind, at := range readers(t) {
		t.Run(kind, func(t *testing.T) {
			f, name := at("sys/a/number")
			if n, err := f.Int(name); n != -1 || err != nil {
				t.Error(n, err)
			}
			f, name = at("sys/b")
			if n, err := f.Int(name); n != -1 || err != nil {
				t.Error(n, err)
			}
			if target, err := f.Link(name); target != "a/number" || err != nil {
				t.Error(target, err)
			}
			f, name = at("sys/a/size")
			if n, err := f.Int(name); n != 32 || err != nil {
				t.Error(n, err)
			}
			f, name = at("sys/a/list")
			if s, err := f.List(name); s.String() != "0-3,8" || err != nil {
				t.Error(s, err)
			}
			f, name = at("sys/a/mask")
			if s, err := f.Mask(name); s.String() != "0-3,32" || err != nil {
				t.Error(s, err)
			}
			f, name = at("sys/a/words")
			if s, err := f.Text(name); s != "two words" || err != nil {
				t.Error(s, err)
			}
			if b, err := f.Prefix(name, 4); string(b) != " two" || err != nil {
				t.Errorf("%q %v", b, err)
			}
			f, name = at("proc/long")
			for _, n := range []int{page - 1, page, page + 1, 2*page + 1} {
				if b, err := f.Prefix(name, n); string(b) != long[:min(n, len(long))] || err != nil {
					t.Errorf("%d of %d bytes: %d, %v", n, len(long), len(b), err)
				}
			}
			f, name = at("sys")
			if names, err := f.Names(name); strings.Join(names, " ") != "a b" || err != nil {
				t.Error(names, err)
			}
			if !f.Exists(name) || f.Exists(name+"/none") {
				t.Error("Exists")
			}
		})
	}
}

func TestErrorsNameTheFile(t *testing.T) {
	for kind, at := range readers(t) {
		for _, tt := range []struct {
			name, want string
			read       func(FS, string) error
		}{
			{"sys/a/none", "no such file", func(f FS, n string) error { _, err := f.Text(n); return err }},
			{"sys/a/words", `"two words" is not a number`, func(f FS, n string) error { _, err := f.Int(n); return err }},
			{"sys/a/big", `"9999999999" is not a number`, func(f FS, n string) error { _, err := f.Int(n); return err }},
			{"sys/a/words", `number list "two words"`, func(f FS, n string) error { _, err := f.List(n); return err }},
			{"sys/a/words", `bit mask "two words"`, func(f FS, n string) error { _, err := f.Mask(n); return err }},
			{"sys/a/long", "is longer than 65535 bytes", func(f FS, n string) error { _, err := f.Text(n); return err }},
			{"sys/a/none", "", func(f FS, n string) error { _, err := f.Names(n); return err }},
			{"sys/a/words", "", func(f FS, n string) error { _, err := f.Names(n); return err }},
			{"sys/a/words", "", func(f FS, n string) error { _, err := f.Link(n); return err }},
		} {
			f, name := at(tt.name)
			err := tt.read(f, name)
			if err == nil || !strings.Contains(err.Error(), "/"+name) ||
				!strings.Contains(strings.Replace(err.Error(), "file does not exist", "no such file", 1), tt.want) {
				t.Errorf("%s, %s: %v, want %q and the file's name", kind, tt.name, err, tt.want)
			}
		}
	}
}

func TestNoFileHasNothing(t *testing.T) {
	f := New(fstest.MapFS{})
	if _, err := f.Text("x"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if _, err := f.Names("x"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if _, err := f.Link("x"); !errors.Is(err, fs.ErrNotExist) || f.Exists("x") {
		t.Error(err)
	}
}

// Nothing outside of a directory is read, and nothing in it that is no file.
func TestDirIsNotLeft(t *testing.T) {
	dir := t.TempDir()
	for name, target := range map[string]string{
		"out": "/etc/passwd", "up": "../../../../../../../../../../etc/passwd", "loop": "loop", "etc": "/", "null": "/dev/null",
	} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	old := d
	old.fd = -1
	for kind, f := range map[string]FS{"openat2": New(d), "os.Root": New(old)} {
		for _, name := range []string{"out", "up", "loop", "etc/passwd", "null", "pipe", "../etc/passwd", "/etc/passwd"} {
			if text, err := f.Text(name); err == nil {
				t.Errorf("%s: %s gave %.20q", kind, name, text)
			}
			if names, err := f.Names(name); err == nil {
				t.Errorf("%s: %s holds %.20q", kind, name, names)
			}
		}
		if target, err := f.Link("up"); err != nil || !strings.HasSuffix(target, "/etc/passwd") {
			t.Errorf("%s: %q, %v", kind, target, err)
		}
	}
}
