package bounded

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// openPath is O_PATH, which package syscall lacks (include/uapi/asm-generic/fcntl.h; the same on amd64 and arm64). This package is behind pure ones,
// which have no golang.org/x/sys/unix.
const openPath = 0x200000

// Dir is a directory that is held open. What is opened in it lies in it, whatever its path leads to by now: no link is followed below it. What is not
// of the kind that was asked for is looked at (O_PATH) and not opened, by which a pipe would wait and a device act. Its methods may be used by several
// goroutines, and while it is closed.
type Dir struct {
	at *os.File
}

// HoldDir opens a directory to hold it. Links on the way to it are followed.
func HoldDir(path string) (*Dir, error) {
	at, err := os.OpenFile(path, openPath|syscall.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	return &Dir{at}, nil
}

// Name is the path by which it was opened: for people.
func (d *Dir) Name() string { return d.at.Name() }

// Close lets go of it.
func (d *Dir) Close() error { return d.at.Close() }

// Dir holds a directory below this one; name may have slashes.
func (d *Dir) Dir(name string) (*Dir, error) {
	at := d
	for part := range strings.SplitSeq(filepath.Clean(name), "/") {
		below, err := at.open(part, openPath|syscall.O_DIRECTORY)
		if at != d {
			at.Close()
		}
		if err != nil {
			return nil, err
		}
		at = &Dir{below}
	}
	return at, nil
}

// Names are the names in it, at most most of them, in the order of the file system. They are those that could be read.
func (d *Dir) Names(most int) []string {
	dir, err := d.open(".", syscall.O_RDONLY|syscall.O_DIRECTORY)
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(most)
	return names
}

// Open opens a file in it to be read.
func (d *Dir) Open(name string) (*os.File, error) {
	return d.of(name, 0, os.O_RDONLY)
}

// Change opens a file in it to be read and written.
func (d *Dir) Change(name string) (*os.File, error) {
	return d.of(name, 0, os.O_RDWR)
}

// Pipe opens a pipe in it to be written to. That nobody reads it is an error.
func (d *Dir) Pipe(name string) (*os.File, error) {
	return d.of(name, fs.ModeNamedPipe, os.O_WRONLY)
}

// Regular reads a file in it, of at most most bytes.
func (d *Dir) Regular(name string, most int) ([]byte, error) {
	f, err := d.Open(name)
	if err != nil {
		return nil, err
	}
	return whole(f, f.Name(), most)
}

// Lstat is what a name in it is, without opening that.
func (d *Dir) Lstat(name string) (fs.FileInfo, error) {
	seen, err := d.open(name, openPath)
	if err != nil {
		return nil, err
	}
	defer seen.Close()
	return seen.Stat()
}

// Follow opens a file by a path as a program with this working directory would: links are followed, out of it too. Where d is nil the path must
// be absolute.
func (d *Dir) Follow(path string) (*os.File, error) {
	var seen *os.File
	var err error
	switch {
	case filepath.IsAbs(path):
		seen, err = os.OpenFile(path, openPath, 0)
	case d == nil:
		err = &fs.PathError{Op: "open", Path: path, Err: fs.ErrInvalid}
	default:
		seen, err = d.openAt(path, openPath)
	}
	if err != nil {
		return nil, err
	}
	defer seen.Close()
	return reopened(seen, 0, os.O_RDONLY)
}

// of opens what is of a kind (fs.ModeType); 0: a file.
func (d *Dir) of(name string, kind fs.FileMode, how int) (*os.File, error) {
	seen, err := d.open(name, openPath)
	if err != nil {
		return nil, err
	}
	defer seen.Close()
	return reopened(seen, kind, how)
}

// reopened is what was looked at, if it is of that kind: no other by the same name, which a second lookup could find.
func reopened(seen *os.File, kind fs.FileMode, how int) (*os.File, error) {
	info, err := seen.Stat()
	if err == nil && info.Mode().Type() != kind {
		err = &fs.PathError{Op: "open", Path: seen.Name(), Err: ErrNotRegular}
	}
	if err != nil {
		return nil, err
	}
	fd, err := unlessInterrupted(func() (int, error) {
		return syscall.Open(fmt.Sprintf("/proc/self/fd/%d", seen.Fd()), how|syscall.O_NONBLOCK|syscall.O_NOCTTY|syscall.O_CLOEXEC, 0)
	})
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: seen.Name(), Err: err}
	}
	return os.NewFile(uintptr(fd), seen.Name()), nil
}

// open opens one name in the directory, whatever that is, and no link.
func (d *Dir) open(name string, how int) (*os.File, error) {
	if name == "" || name == ".." || strings.ContainsAny(name, "/\x00") {
		return nil, &fs.PathError{Op: "open", Path: filepath.Join(d.Name(), name), Err: fs.ErrInvalid}
	}
	return d.openAt(name, how|syscall.O_NOFOLLOW)
}

// openAt is openat(2).
func (d *Dir) openAt(name string, how int) (*os.File, error) {
	path := filepath.Join(d.Name(), name)
	fd := -1
	err := d.use(func(at int) (err error) {
		fd, err = unlessInterrupted(func() (int, error) { return syscall.Openat(at, name, how|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0) })
		return err
	})
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// unlessInterrupted is what a call gives that a signal has not interrupted.
func unlessInterrupted(open func() (int, error)) (int, error) {
	for {
		fd, err := open()
		if !errors.Is(err, syscall.EINTR) {
			return fd, err
		}
	}
}

// use calls f with the directory's descriptor, which is not closed meanwhile.
func (d *Dir) use(f func(at int) error) error {
	conn, err := d.at.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := conn.Control(func(fd uintptr) { failed = f(int(fd)) }); err != nil {
		return err
	}
	return failed
}
