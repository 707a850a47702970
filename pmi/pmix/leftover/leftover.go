// Package leftover removes what ranks leave behind: files and directories that they named while they ran, below a
// directory that others may write to as well (/dev/shm), and shared memory that nobody uses any more (Segments).
//
//	base ─▶ openat(O_NOFOLLOW) each directory of the way ─▶ openat(O_PATH|O_NOFOLLOW) the thing ─▶ fstat: ours?
//	                                                                                           └─▶ unlinkat
//
// A rank names what it likes, and who ends it may be root: so no link is followed, and nothing is removed but what
// belongs to the owner that is given. Between the look and the removal nobody else can put another file in the place of
// one of ours: not in a directory of ours, and not in one with the sticky bit (unlink(2), EPERM), as /dev/shm has.
package leftover

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Extent is how much of a named thing goes.
type Extent struct {
	Dir     bool // it is a directory: its files go, and it where it is empty then
	Recurse bool // with Dir: all below it goes, and it
	KeepTop bool // with Dir: it stays
}

// maxDepth bounds directories in directories, each of which holds a descriptor open.
const maxDepth = 64

// errForeign is of what is somebody else's.
var errForeign = errors.New("it belongs to another user, and stays")

// Remove removes rest, a local path below base, as far as it belongs to owner. What is not there is an
// fs.ErrNotExist.
func Remove(base, rest string, what Extent, owner int) error {
	if !filepath.IsLocal(rest) {
		return fmt.Errorf("%s: not below %s", rest, base)
	}
	dir, err := unix.Open(base, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &fs.PathError{Op: "open", Path: base, Err: err}
	}
	defer func() { _ = unix.Close(dir) }()
	names := strings.Split(filepath.Clean(rest), "/")
	for _, name := range names[:len(names)-1] {
		next, err := unix.Openat(dir, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return &fs.PathError{Op: "open", Path: filepath.Join(base, rest), Err: err}
		}
		_ = unix.Close(dir)
		dir = next
	}
	r := remover{owner: owner}
	if err := r.named(dir, names[len(names)-1], what); err != nil {
		return &fs.PathError{Op: "remove", Path: filepath.Join(base, rest), Err: err}
	}
	return nil
}

type remover struct{ owner int }

func (r remover) named(dir int, name string, what Extent) error {
	if !what.Dir {
		return r.one(dir, name)
	}
	err := r.content(dir, name, what.Recurse, maxDepth)
	if what.KeepTop || err != nil {
		return err
	}
	if err := r.one(dir, name); err != nil && (what.Recurse || !errors.Is(err, unix.ENOTEMPTY)) {
		return err
	}
	return nil
}

// one removes a file or an empty directory.
func (r remover) one(dir int, name string) error {
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	mode, err := r.ours(fd)
	_ = unix.Close(fd)
	if err != nil {
		return err
	}
	flags := 0
	if mode&unix.S_IFMT == unix.S_IFDIR {
		flags = unix.AT_REMOVEDIR
	}
	return unix.Unlinkat(dir, name, flags)
}

// ours is the mode of what a descriptor has open, if it belongs to the owner.
func (r remover) ours(fd int) (mode uint32, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, err
	}
	if int64(st.Uid) != int64(r.owner) {
		return 0, errForeign
	}
	return st.Mode, nil
}

// content removes what is in a directory, with recurse also what is in directories there. The first error is
// returned; the rest goes on.
func (r remover) content(parent int, name string, recurse bool, depth int) error {
	if depth == 0 {
		return fmt.Errorf("more than %d directories deep", maxDepth)
	}
	fd, err := unix.Openat(parent, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	dir := os.NewFile(uintptr(fd), name)
	defer dir.Close()
	if _, err := r.ours(fd); err != nil {
		return err
	}
	const atOnce = 256
	var failed error
	for {
		entries, err := dir.ReadDir(atOnce)
		for _, e := range entries {
			if err := r.entry(fd, e, recurse, depth); err != nil && failed == nil {
				failed = err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return failed
		case err != nil:
			return err
		}
	}
}

func (r remover) entry(dir int, e fs.DirEntry, recurse bool, depth int) error {
	if e.IsDir() {
		if !recurse {
			return nil
		}
		if err := r.content(dir, e.Name(), recurse, depth-1); err != nil {
			return err
		}
	}
	return r.one(dir, e.Name())
}
