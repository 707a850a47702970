package bounded

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// OpenDir opens a directory that somebody else may have made, to read its names: a pipe in its place blocks nobody, and is an error as a file is.
// Links are followed.
func OpenDir(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
}

// OpenRoot is os.OpenRoot of such a directory.
func OpenRoot(path string) (*os.Root, error) {
	dir, err := OpenDir(path)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d", dir.Fd())) // the directory that is open, whatever its path leads to by now
}

// Names are the names in such a directory, at most most of them, in the order of the file system. They are those that could be read.
func Names(path string, most int) []string {
	dir, err := OpenDir(path)
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(most)
	return names
}

// Tree is the files below a directory, of which strangers may have made some, by any name that Linux takes. It is like os.DirFS in all but this: names
// need not be UTF-8, as an old Latin-1 one is not; opening waits for nobody, and what is neither a file nor a directory is no file (ErrNotRegular); a
// directory has at most maxEntries entries.
type Tree string

// fs.FS, and what package fs asks a tree for beyond it.
var (
	_ fs.StatFS     = Tree("")
	_ fs.ReadDirFS  = Tree("")
	_ fs.ReadLinkFS = Tree("")
)

// maxEntries is how many entries of one directory are read.
const maxEntries = 64 << 10

// Open implements fs.FS.
func (t Tree) Open(name string) (fs.File, error) {
	at, err := t.path("open", name)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(at, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, ofName(err, name)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		err = &fs.PathError{Op: "open", Path: name, Err: ErrNotRegular}
	}
	if err != nil {
		f.Close()
		return nil, ofName(err, name)
	}
	return f, nil
}

// Stat implements fs.StatFS: without opening anything.
func (t Tree) Stat(name string) (fs.FileInfo, error) {
	at, err := t.path("stat", name)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(at)
	return info, ofName(err, name)
}

// Lstat implements fs.ReadLinkFS.
func (t Tree) Lstat(name string) (fs.FileInfo, error) {
	at, err := t.path("lstat", name)
	if err != nil {
		return nil, err
	}
	info, err := os.Lstat(at)
	return info, ofName(err, name)
}

// ReadLink implements fs.ReadLinkFS.
func (t Tree) ReadLink(name string) (string, error) {
	at, err := t.path("readlink", name)
	if err != nil {
		return "", err
	}
	to, err := os.Readlink(at)
	return to, ofName(err, name)
}

// ReadDir implements fs.ReadDirFS.
func (t Tree) ReadDir(name string) ([]fs.DirEntry, error) {
	at, err := t.path("open", name)
	if err != nil {
		return nil, err
	}
	dir, err := OpenDir(at)
	if err != nil {
		return nil, ofName(err, name)
	}
	defer dir.Close()
	entries, err := dir.ReadDir(maxEntries)
	if len(entries) > 0 || errors.Is(err, io.EOF) {
		err = nil
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, ofName(err, name)
}

// path is where a name is on this machine. It must stay below the directory.
func (t Tree) path(op, name string) (string, error) {
	clean := name != "" && path.Clean(name) == name && !path.IsAbs(name)
	leaves := name == ".." || strings.HasPrefix(name, "../")
	if !clean || leaves || strings.ContainsRune(name, 0) {
		return "", &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	return filepath.Join(string(t), name), nil
}

// ofName is an error with the name by which it was asked.
func ofName(err error, name string) error {
	var failed *fs.PathError
	if errors.As(err, &failed) {
		return &fs.PathError{Op: failed.Op, Path: name, Err: failed.Err}
	}
	return err
}
