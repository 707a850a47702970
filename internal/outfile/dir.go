package outfile

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Dir is a directory that a user named, held open: what becomes of its name later does not matter.
type Dir struct {
	path string // as it was named, for sentences
	fd   *os.File
}

// Open opens a directory and makes what is missing of it, by links that MakeAll follows.
func Open(path string, mode fs.FileMode) (*Dir, error) {
	if os.Geteuid() == 0 {
		fd, err := reachFor(0, path, mode)
		if err != nil {
			return nil, err
		}
		return &Dir{path: path, fd: fd}, nil
	}
	if err := os.MkdirAll(path, mode); err != nil {
		return nil, err
	}
	return open(path, 0)
}

// Private is Open for a directory that a program chose, below a /tmp that others may write to: no link in its place is taken, and
// only this user may write to it.
func Private(path string) (*Dir, error) {
	if err := MakeAll(path, 0o700); err != nil {
		return nil, err
	}
	d, err := open(path, unix.O_NOFOLLOW)
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(d.at(), &st); err != nil || int(st.Uid) != os.Geteuid() || st.Mode&0o022 != 0 {
		d.Close()
		return nil, fmt.Errorf("%s is not a directory that only uid %d may write to: it has mode %o, of uid %d; remove it",
			path, os.Geteuid(), st.Mode&0o7777, st.Uid)
	}
	return d, nil
}

func open(path string, how int) (*Dir, error) {
	fd, err := openat(unix.AT_FDCWD, path, unix.O_RDONLY|unix.O_DIRECTORY|how, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return &Dir{path: path, fd: os.NewFile(uintptr(fd), path)}, nil
}

// Path is how the directory was named.
func (d *Dir) Path() string { return d.path }

// Close lets the directory go.
func (d *Dir) Close() error { return d.fd.Close() }

// Names are those of what is in it.
func (d *Dir) Names() ([]string, error) {
	fd, err := openat(d.at(), ".", unix.O_RDONLY|unix.O_DIRECTORY, 0) // with a position of its own
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: d.path, Err: err}
	}
	again := os.NewFile(uintptr(fd), d.path)
	defer again.Close()
	return again.Readdirnames(-1)
}

func (d *Dir) at() int { return int(d.fd.Fd()) }

// openat is the system call, without a descriptor that programs inherit.
func openat(dir int, name string, how int, mode fs.FileMode) (fd int, err error) {
	for {
		if fd, err = unix.Openat(dir, name, how|unix.O_CLOEXEC, uint32(mode.Perm())); err != unix.EINTR {
			return fd, err
		}
	}
}

// errLink is of a name that somebody made a link.
var errLink = errors.New("it is a symbolic link, and none is followed here: remove it, or name the place itself")

// Sub is a directory below d, made where it is missing; no link on the way is followed.
func (d *Dir) Sub(name string) (*Dir, error) {
	at, err := d.below(name + "/x")
	return at.dir, err
}

// Make makes a directory in d, which is not there yet, and opens it.
func (d *Dir) Make(name string) (*Dir, error) {
	if err := unix.Mkdirat(d.at(), name, 0o777); err != nil {
		return nil, &fs.PathError{Op: "mkdir", Path: filepath.Join(d.path, name), Err: err}
	}
	return d.Sub(name)
}

// place is a name in an open directory.
type place struct {
	dir  *Dir
	name string
}

func (p place) path() string { return filepath.Join(p.dir.path, p.name) }

func (p place) fails(err error) error { return &fs.PathError{Op: "open", Path: p.path(), Err: err} }

// below goes to where a file is, from directory to directory, and makes those that are missing.
func (d *Dir) below(name string) (at place, err error) {
	name = filepath.Clean(name)
	if !filepath.IsLocal(name) || name == "." {
		return place{}, fmt.Errorf("%s: %q leads out of it", d.path, name)
	}
	dir := d
	parts := strings.Split(name, "/")
	for _, part := range parts[:len(parts)-1] {
		next, err := dir.step(part)
		if dir != d {
			dir.Close()
		}
		if err != nil {
			return place{}, err
		}
		dir = next
	}
	return place{dir, parts[len(parts)-1]}, nil
}

func (d *Dir) step(name string) (*Dir, error) {
	p := place{d, name}
	if err := unix.Mkdirat(d.at(), name, 0o777); err != nil && err != unix.EEXIST && err != unix.EROFS && err != unix.EACCES {
		return nil, p.fails(err)
	}
	fd, err := openat(d.at(), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		if p.isLink() {
			err = errLink
		}
		return nil, p.fails(err)
	}
	return &Dir{path: p.path(), fd: os.NewFile(uintptr(fd), p.path())}, nil
}

func (p place) isLink() bool {
	var st unix.Stat_t
	return unix.Fstatat(p.dir.at(), p.name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK
}

// Create opens a file below d for writing, empty or, with unix.O_APPEND, with what it has. It is a regular file under one name, to which no link
// leads.
func (d *Dir) Create(name string, how int) (*os.File, error) {
	p, err := d.below(name)
	if err != nil {
		return nil, err
	}
	if p.dir != d {
		defer p.dir.Close()
	}
	return p.create(how, 0o666)
}

// Replace writes a new file and gives it the name, whatever had it: a link is not followed, a pipe not opened. The file is whole
// under its name, or not there.
func (d *Dir) Replace(name string, text []byte, mode fs.FileMode) error {
	p, err := d.below(name)
	if err != nil {
		return err
	}
	if p.dir != d {
		defer p.dir.Close()
	}
	temp := place{p.dir, ".mpiup-" + rand.Text()}
	f, err := temp.create(unix.O_EXCL, mode)
	if errors.Is(err, fs.ErrNotExist) { // of the directory, which is open
		return fmt.Errorf("%s: the directory was removed since it was opened", p.path())
	}
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err == nil {
		if err = unix.Renameat(p.dir.at(), temp.name, p.dir.at(), p.name); err != nil {
			err = &fs.PathError{Op: "rename", Path: p.path(), Err: err}
		}
	}
	if err != nil {
		_ = unix.Unlinkat(p.dir.at(), temp.name, 0)
	}
	return err
}

// Remove removes a file.
func (d *Dir) Remove(name string) error { return unix.Unlinkat(d.at(), name, 0) }

// Try sees whether files can be made in d: it makes one, and removes it.
func (d *Dir) Try() error {
	p := place{d, ".mpiup-try-" + rand.Text()}
	f, err := p.create(unix.O_EXCL, 0o600)
	if err != nil {
		return &fs.PathError{Op: "create a file in", Path: d.path, Err: errors.Unwrap(err)}
	}
	_, err = f.WriteString("mpiup can write here\n") // a full file system may have a place for names
	return errors.Join(err, f.Close(), d.Remove(p.name))
}

// Statfs is what the kernel says of its file system.
func (d *Dir) Statfs() (on unix.Statfs_t, err error) {
	err = unix.Fstatfs(d.at(), &on)
	return on, err
}
