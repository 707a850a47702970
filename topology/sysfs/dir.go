package sysfs

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Dir is a directory that holds a machine's files, as an fs.FS. Symbolic links do not lead out of
// it (os.Root), and only regular files and directories are read: a pipe would wait for a writer, a
// device may never end.
type Dir struct{ root *os.Root }

// OpenDir opens a directory. Close ends it.
func OpenDir(dir string) (Dir, error) {
	root, err := os.OpenRoot(dir)
	return Dir{root}, err
}

// Close ends the use of the directory.
func (d Dir) Close() error { return d.root.Close() }

var errNotRegular = errors.New("neither a regular file nor a directory")

// Open is fs.FS's.
func (d Dir) Open(name string) (fs.File, error) {
	f, err := d.root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		err = &fs.PathError{Op: "open", Path: name, Err: errNotRegular}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Stat is fs.StatFS's.
func (d Dir) Stat(name string) (fs.FileInfo, error) { return d.root.Stat(name) }

// Lstat is fs.ReadLinkFS's.
func (d Dir) Lstat(name string) (fs.FileInfo, error) { return d.root.Lstat(name) }

// ReadLink is fs.ReadLinkFS's.
func (d Dir) ReadLink(name string) (string, error) { return d.root.Readlink(name) }
