// Package install puts mpiup into a directory, as an init container does for somebody else's image: the mpiup image is made from scratch and
// has no cp.
//
//	this binary ──▶ DIR/mpiup    its helpers ──▶ DIR/mpiup-nvml ...    names ──▶ links to mpiup beside it
//
// Nothing is written before it is clear that all can be: a file of such a name that is not mpiup stays, and ends it. Each file is whole or not
// there at any time, so two may install into one directory. DIR is made, its parent is not: a path that was mistyped makes no tree.
//
// The package starts no goroutine and runs nothing of what it copies.
package install

import (
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/mpiup/mpiup/agent/mpilib"
	"github.com/mpiup/mpiup/agent/watch"
	"github.com/mpiup/mpiup/internal/bounded"
	"github.com/mpiup/mpiup/internal/visible"
)

// self is this binary, wherever it was started from.
const self = "/proc/self/exe"

// To copies this binary and its helpers into dir, and makes links to mpiup of those names. made says that dir was not there.
func To(dir string, helpers, links []string) (paths []string, made bool, err error) {
	dir = filepath.Clean(dir)
	names := append([]string{"mpiup"}, links...)
	for _, h := range helpers {
		names = append(names, filepath.Base(h))
	}
	if made, err = ready(dir); err != nil {
		return nil, false, err
	}
	if err = free(dir, names); err != nil {
		return nil, false, err
	}
	if paths, err = copies(dir, helpers); err == nil {
		for _, n := range links {
			err = errors.Join(err, Link(dir, n, "mpiup"))
		}
	}
	if err != nil {
		if made {
			_ = os.Remove(dir) // unless something is in it
		}
		return nil, false, err
	}
	return paths, made, nil
}

// ready sees that dir is a directory which this user may write to, and makes it where its parent is there.
func ready(dir string) (made bool, err error) {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, unix.ENOTDIR):
		return false, fmt.Errorf("%s cannot be made: a part of its path is a file; name another directory", dir)
	case errors.Is(err, fs.ErrNotExist):
		return true, makeDir(dir)
	case err != nil:
		return false, reason(dir, "cannot be looked at", err)
	case !info.IsDir():
		return false, fmt.Errorf("%s is a file; name a directory", dir)
	}
	if err := unix.Access(dir, unix.W_OK|unix.X_OK); err != nil {
		return false, reason(dir, "cannot be written to", err)
	}
	return false, nil
}

// makeDir makes a directory that all may read, whatever this process's umask.
func makeDir(dir string) error {
	const readable = 0o755
	err := os.Mkdir(dir, readable)
	switch {
	case errors.Is(err, fs.ErrExist):
		return fmt.Errorf("%s is a link to what is not there; make that, or name another directory", dir)
	case errors.Is(err, fs.ErrNotExist):
		parent := filepath.Dir(dir)
		if _, there := os.Stat(parent); there == nil { // as of /proc
			return reason(dir, "cannot be made", err)
		}
		return fmt.Errorf("%s cannot be made: %s is not there; make that first (mkdir -p %s), or mount a volume there", dir, parent, visible.Path(parent))
	case err != nil:
		return reason(dir, "cannot be made", err)
	}
	return os.Chmod(dir, readable)
}

// reason is an error with what to do about it.
func reason(dir, what string, err error) error {
	var errno unix.Errno
	if errors.As(err, &errno) {
		err = errno // without the path, which the sentence has
	}
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%s %s: %w for uid %d; name a directory of your own, or install as root", dir, what, err, os.Geteuid())
	}
	return fmt.Errorf("%s %s: %w; name another directory", dir, what, err)
}

// free looks whether files of these names can be put into dir. What is there and is no mpiup stays.
func free(dir string, names []string) error {
	for _, n := range names {
		path := filepath.Join(dir, n)
		if _, err := os.Lstat(path); err == nil && !Ours(path) && !isWatch(path) {
			return fmt.Errorf("%s is there and is not mpiup: remove it, or choose another directory", path)
		} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Ours says that a program is mpiup, linked or copied, of any version.
func Ours(path string) bool {
	info, err := buildinfo.ReadFile(path)
	return err == nil && info.Main.Path == "github.com/mpiup/mpiup"
}

// isWatch says that a file is the library for --watch-ranks, by its own name.
func isWatch(path string) bool {
	f, err := bounded.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	o, err := mpilib.Read(f)
	return err == nil && o.Name == watch.LibraryName
}

// Link makes dir/name a link to a program, which is there at any time if it was before.
func Link(dir, name, to string) error {
	temp, err := os.MkdirTemp(dir, ".mpiup-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	if err := os.Symlink(to, filepath.Join(temp, name)); err != nil {
		return err
	}
	return os.Rename(filepath.Join(temp, name), filepath.Join(dir, name))
}

// copies copies this binary and its helpers.
func copies(dir string, helpers []string) (paths []string, err error) {
	for _, from := range append([]string{self}, helpers...) {
		name := filepath.Base(from)
		if from == self {
			name = "mpiup"
		}
		path, err := replace(from, dir, name)
		if err != nil {
			return nil, err
		}
		paths = append(paths, path)
	}
	return paths, nil
}

// replace copies from to dir/name, which is whole or not there at any time.
func replace(from, dir, name string) (path string, err error) {
	in, err := os.Open(from)
	if err != nil {
		return "", err
	}
	defer in.Close()
	out, err := os.CreateTemp(dir, ".mpiup-*")
	if err != nil {
		return "", err
	}
	_, err = io.Copy(out, in)
	err = errors.Join(err, out.Chmod(0o755), out.Close())
	path = filepath.Join(dir, name)
	if err == nil {
		err = os.Rename(out.Name(), path)
	}
	if err != nil {
		os.Remove(out.Name())
		return "", err
	}
	return path, nil
}
