package bounded

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"testing/fstest"
)

// A tree is one as io/fs wants it.
func TestTreeIsAFileSystem(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, "a/b"), 0o755), os.WriteFile(filepath.Join(dir, "a/b/file"), []byte("text"), 0o644),
		os.WriteFile(filepath.Join(dir, "empty"), nil, 0o644), os.Symlink("a/b/file", filepath.Join(dir, "link"))); err != nil {
		t.Fatal(err)
	}
	if err := fstest.TestFS(Tree(dir), "a/b/file", "empty"); err != nil {
		t.Error(err)
	}
	if text, err := fs.ReadFile(Tree(dir), "link"); string(text) != "text" {
		t.Errorf("%q, %v", text, err)
	}
}

// A pipe that nobody writes to, where a file or a directory is expected, is an error at once: with it this test would not end.
func TestPipesBlockNobody(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o644), os.Symlink("pipe", filepath.Join(dir, "link")), os.WriteFile(filepath.Join(dir, "file"), nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"pipe", "link"} {
		if _, err := Tree(dir).Open(name); !errors.Is(err, ErrNotRegular) {
			t.Errorf("opening the %s: %v", name, err)
		}
		if _, err := fs.ReadDir(Tree(dir), name); !errors.Is(err, syscall.ENOTDIR) {
			t.Errorf("the names in the %s: %v", name, err)
		}
		if _, err := OpenDir(filepath.Join(dir, name)); !errors.Is(err, syscall.ENOTDIR) {
			t.Errorf("the directory %s: %v", name, err)
		}
		if names := Names(filepath.Join(dir, name), 10); names != nil {
			t.Errorf("the names in the %s: %q", name, names)
		}
		if info, err := fs.Stat(Tree(dir), name); err != nil || info.Mode().Type() != fs.ModeNamedPipe {
			t.Errorf("the %s is %v, %v", name, info, err)
		}
	}
	if names := Names(dir, 2); len(names) != 2 {
		t.Errorf("%q", names)
	}
	names := Names(dir, 10)
	slices.Sort(names)
	if !slices.Equal(names, []string{"file", "link", "pipe"}) {
		t.Errorf("%q", names)
	}
}

// A Tree is what os.DirFS is, with names of any bytes.
func TestTree(t *testing.T) {
	const latin1 = "caf\xe9"
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, latin1, "in"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, latin1, "file"), []byte("text"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("file", filepath.Join(dir, latin1, "link")); err != nil {
		t.Fatal(err)
	}
	tree := Tree(dir)
	if text, err := fs.ReadFile(tree, latin1+"/link"); err != nil || string(text) != "text" {
		t.Errorf("%q, %v", text, err)
	}
	if info, err := fs.Stat(tree, latin1+"/in"); err != nil || !info.IsDir() {
		t.Errorf("%v, %v", info, err)
	}
	if to, err := fs.ReadLink(tree, latin1+"/link"); err != nil || to != "file" {
		t.Errorf("%q, %v", to, err)
	}
	if info, err := fs.Lstat(tree, latin1+"/link"); err != nil || info.Mode().Type() != fs.ModeSymlink {
		t.Errorf("%v, %v", info, err)
	}
	if list, err := fs.ReadDir(tree, "."); err != nil || len(list) != 1 || list[0].Name() != latin1 {
		t.Errorf("%v, %v", list, err)
	}
	if f, err := tree.Open("nowhere"); f != nil || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v, %v", f, err)
	}
	for _, name := range []string{"", "/", "/etc", "..", "../x", "a/../b", "a/", "./a", "a//b", "a\x00"} {
		if _, err := fs.Stat(tree, name); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("%q: %v", name, err)
		}
	}

	plain := t.TempDir()
	if err := os.WriteFile(filepath.Join(plain, "file"), []byte("text"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := fstest.TestFS(Tree(plain), "file"); err != nil {
		t.Error(err)
	}
}
