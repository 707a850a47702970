package incoming

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/test/cost"
	"golang.org/x/sys/unix"
)

// receive has a Set take what is sent, in pieces, and returns it with what became of it.
func receive(t *testing.T, dir string, files []File, sent string, piece int) (*Set, error) {
	t.Helper()
	if err := Check(files); err != nil {
		t.Fatal(err)
	}
	room := make(chan int, len(sent)+1)
	s := New(Config{Files: files, Window: max(piece, 1), Dir: func() (string, error) { return dir, os.MkdirAll(dir, 0o700) },
		Wrote: func(n int) { room <- n }})
	done := make(chan error, 1)
	go func() { done <- s.Run(t.Context()) }()
	for under := 0; sent != ""; {
		n := min(piece, len(sent))
		if err := s.Write([]byte(sent[:n])); err != nil {
			t.Fatal(err)
		}
		sent = sent[n:]
		for under += n; under > 0; {
			select {
			case got := <-room:
				under -= got
			case err := <-done:
				return s, err
			}
		}
	}
	return s, <-done
}

func TestFiles(t *testing.T) {
	for _, piece := range []int{1, 3, 100} {
		dir, place := filepath.Join(t.TempDir(), "files"), t.TempDir()
		abs := filepath.Join(place, "there")
		files := []File{{"a.out", 0o4755, 3}, {"deep/er/b", 0o640, 4}, {"empty", 0o600, 0}, {abs, 0o444, 2}}
		s, err := receive(t, dir, files, "abcdefghi", piece)
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []struct {
			path, text string
			mode       fs.FileMode
		}{{dir + "/a.out", "abc", 0o755}, {dir + "/deep/er/b", "defg", 0o640}, {dir + "/empty", "", 0o600}, {abs, "hi", 0o444}} {
			got, err := os.ReadFile(want.path)
			fi, err2 := os.Stat(want.path)
			if err != nil || err2 != nil || string(got) != want.text || fi.Mode() != want.mode || s.Path(i) != want.path {
				t.Errorf("%s: %q, %v, %v, %v, at %s", want.path, got, fi, err, err2, s.Path(i))
			}
		}
		if left, _ := filepath.Glob(filepath.Join(place, ".mpiup*")); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
		s.Remove()
		if _, err := os.Lstat(abs); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s stays: %v", abs, err)
		}
	}
}

// What is there already is never written to, and removed only if it is ours.
func TestNothingIsOverwritten(t *testing.T) {
	for _, tt := range []struct {
		name string
		make func(t *testing.T, dir, path string) // what stands in the way of dir/file
		says string                               // "": it is taken for the file itself
	}{
		{"the same file", func(t *testing.T, _, path string) { write(t, path, "abc", 0o755) }, ""},
		{"another of the size", func(t *testing.T, _, path string) { write(t, path, "xyz", 0o755) }, "nothing is overwritten"},
		{"a longer one", func(t *testing.T, _, path string) { write(t, path, "abcd", 0o755) }, "nothing is overwritten"},
		{"one that cannot run", func(t *testing.T, _, path string) { write(t, path, "abc", 0o600) }, "nothing is overwritten"},
		{"a directory", func(t *testing.T, _, path string) { try(t, os.Mkdir(path, 0o755)) }, "nothing is overwritten"},
		{"a pipe", func(t *testing.T, _, path string) { try(t, unix.Mkfifo(path, 0o666)) }, "nothing is overwritten"},
		{"a link to the same", func(t *testing.T, dir, path string) {
			write(t, dir+"/other", "abc", 0o755)
			try(t, os.Symlink("other", path))
		}, "nothing is overwritten"},
		{"a link to nothing", func(t *testing.T, _, path string) { try(t, os.Symlink("nothing", path)) }, "nothing is overwritten"},
		{"a link as directory", func(t *testing.T, dir, _ string) {
			try(t, os.Rename(dir, dir+"2"))
			try(t, os.Symlink(dir+"2", dir))
		}, "symbolic link"},
		{"no directory", func(t *testing.T, dir, _ string) { try(t, os.Remove(dir)) }, "is not there"},
		{"a file as directory", func(t *testing.T, dir, _ string) { try(t, os.Remove(dir)); write(t, dir, "", 0o600) }, "no directory"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "place")
			try(t, os.Mkdir(dir, 0o755))
			path := dir + "/file"
			tt.make(t, dir, path)
			before := tree(t, filepath.Dir(dir))
			s, err := receive(t, "", []File{{path, 0o755, 3}}, "abc", 3)
			var ce *Error
			if tt.says == "" && err != nil || tt.says != "" && (!errors.As(err, &ce) || ce.Name != path || !strings.Contains(err.Error(), tt.says)) {
				t.Errorf("error %v, not %q", err, tt.says)
			}
			s.Remove()
			if after := tree(t, filepath.Dir(dir)); after != before {
				t.Errorf("it was\n%sand is\n%s", before, after)
			}
		})
	}
}

// A file that somebody put in the place of ours is not ours to remove.
func TestRemoveKnowsItsOwn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	s, err := receive(t, "", []File{{path, 0o600, 1}}, "a", 1)
	try(t, err)
	write(t, path+".new", "theirs", 0o600)
	try(t, os.Rename(path+".new", path))
	s.Remove()
	if got, err := os.ReadFile(path); string(got) != "theirs" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestSessionDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "files")
	try(t, os.MkdirAll(dir, 0o700))
	try(t, os.Symlink("/etc", filepath.Join(dir, "out")))
	if _, err := receive(t, dir, []File{{"out/x", 0o600, 1}}, "x", 1); err == nil || !strings.Contains(err.Error(), "symbolic link") {
		t.Errorf("a link out of the directory: %v", err)
	}
	s := New(Config{Files: []File{{"a", 0o600, 1}}, Dir: func() (string, error) { return "", errors.New("read-only") }})
	if err := s.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "read-only") {
		t.Errorf("no directory: %v", err)
	}
}

// A launcher that sends more than it said, or than it may, is found out; one that sends less is waited
// for until the session ends.
func TestSizesThatLie(t *testing.T) {
	s := New(Config{Files: []File{{"a", 0o600, 2}}, Window: 100})
	if err := s.Write([]byte("abc")); !errors.Is(err, ErrOverrun) {
		t.Errorf("3 bytes for 2: %v", err)
	}
	s = New(Config{Files: []File{{"a", 0o600, 200}}, Window: 100})
	try(t, s.Write(make([]byte, 100)))
	if err := s.Write([]byte{0}); !errors.Is(err, ErrOverrun) {
		t.Errorf("beyond the window: %v", err)
	}
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	s = New(Config{Files: []File{{"a", 0o600, 2}}, Window: 100, Dir: func() (string, error) { return dir, nil }, Wrote: func(int) { cancel() }})
	try(t, s.Write([]byte("a")))
	if err := s.Run(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("one byte of two: %v", err)
	}
	if got := tree(t, dir); strings.Contains(got, "mpiup") || strings.Contains(got, "/a ") {
		t.Errorf("half a file stays:\n%s", got)
	}
	if err := s.Write(make([]byte, 1000)); err != nil {
		t.Errorf("what comes after the end: %v", err)
	}
}

func TestCheck(t *testing.T) {
	long := strings.Repeat("x", maxName+1)
	for _, name := range []string{"", ".", "..", "/", "../x", "a/../../x", "a/..", "/..", "/a/../b", "a//b", "a/", "/a/", "./a", "a\x00b", long} {
		if err := Check([]File{{name, 0o600, 1}}); err == nil {
			t.Errorf("%.20q passes", name)
		}
	}
	for _, files := range [][]File{
		{{"a", 0, -1}}, {{"a", 0, MaxBytes + 1}}, {{"a", 0, MaxBytes}, {"b", 0, 1}}, {{"a", 0, 1}, {"a", 0, 1}}, make([]File, MaxFiles+1),
	} {
		if err := Check(files); err == nil {
			t.Errorf("%.3v passes", files)
		}
	}
	if err := Check([]File{{"a", 0, MaxBytes}, {"..b/c..", 0, 0}, {"/a", 0, 0}}); err != nil {
		t.Error(err)
	}
}

// Whatever name passes Check stays below the directory, or is the absolute path itself.
func FuzzName(f *testing.F) {
	for _, s := range []string{"a", "../a", "a/./b", "/x/../y", "a\x00", "..a"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		defer cost.Watch(t, cost.Parser, len(name))()
		if Check([]File{{Name: name}}) != nil {
			return
		}
		s := &Set{dir: "/run/s/files"}
		if got := s.path(name); got != name && !strings.HasPrefix(got, s.dir+"/") {
			t.Errorf("%q is %q", name, got)
		}
	})
}

func try(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, path, text string, mode fs.FileMode) {
	t.Helper()
	try(t, os.WriteFile(path, []byte(text), mode))
	try(t, os.Chmod(path, mode))
}

// tree is everything below dir in one text.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	try(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		text := ""
		if fi.Mode().IsRegular() {
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text = string(b)
		}
		b.WriteString(path + " " + fi.Mode().String() + " " + text + "\n")
		return nil
	}))
	return b.String()
}
