package bounded

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
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

// Tree is the files below a directory, as os.DirFS gives them, of which strangers may have made some: opening waits for nobody, and what is neither a
// file nor a directory is no file (ErrNotRegular). It gives at most maxEntries entries of a directory.
func Tree(root string) fs.FS { return tree(root) }

// maxEntries is how many entries of one directory are read.
const maxEntries = 64 << 10

type tree string

// Open implements fs.FS.
func (t tree) Open(name string) (fs.File, error) {
	path, err := t.path("open", name)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
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
func (t tree) Stat(name string) (fs.FileInfo, error) {
	path, err := t.path("stat", name)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(path)
	return info, ofName(err, name)
}

// Lstat implements fs.ReadLinkFS.
func (t tree) Lstat(name string) (fs.FileInfo, error) {
	path, err := t.path("lstat", name)
	if err != nil {
		return nil, err
	}
	info, err := os.Lstat(path)
	return info, ofName(err, name)
}

// ReadLink implements fs.ReadLinkFS.
func (t tree) ReadLink(name string) (string, error) {
	path, err := t.path("readlink", name)
	if err != nil {
		return "", err
	}
	to, err := os.Readlink(path)
	return to, ofName(err, name)
}

// ReadDir implements fs.ReadDirFS.
func (t tree) ReadDir(name string) ([]fs.DirEntry, error) {
	path, err := t.path("open", name)
	if err != nil {
		return nil, err
	}
	dir, err := OpenDir(path)
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

// path is where a name is on this machine.
func (t tree) path(op, name string) (string, error) {
	if !fs.ValidPath(name) {
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
