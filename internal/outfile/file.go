package outfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mpiup/mpiup/internal/awake"
	"github.com/mpiup/mpiup/internal/visible"
)

// File is a file that a user named by this very path: its directory is held open. It may be a device or a pipe, and no link but
// in places (devices) that are this container's own.
type File struct {
	place
	links int // unix.O_NOFOLLOW; 0: they are followed
}

// devices are directories of links such as stdout and 1, which nobody else writes to.
var devices = []string{"/dev", "/dev/fd", "/proc/self/fd"}

// At is the file of a path, whose directory is there.
func At(path string) (*File, error) {
	dir, err := open(filepath.Dir(path), 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: errors.Unwrap(err)}
	}
	f := &File{place{dir, filepath.Base(path)}, unix.O_NOFOLLOW}
	if slices.Contains(devices, filepath.Dir(filepath.Clean(path))) {
		f.links = 0
	}
	return f, nil
}

// Close lets its directory go.
func (f *File) Close() error { return f.dir.Close() }

// Open opens it for writing: empty, or with unix.O_APPEND with what it has; with unix.O_CREAT it is made where it is missing.
func (f *File) Open(how int) (*os.File, error) {
	return f.open(how|unix.O_WRONLY|f.links, 0o666, true)
}

// Try sees whether it can be written, and changes nothing.
func (f *File) Try() error {
	file, err := f.open(unix.O_WRONLY|unix.O_APPEND|f.links, 0, true)
	switch {
	case err == nil:
		return file.Close()
	case errors.Is(err, fs.ErrNotExist):
		return f.dir.Try()
	}
	return err
}

// patience is how long a pipe may take what is written to it whole.
const patience = time.Second

// Write writes a short text in its place, which may be a mount's: made is whether it is made where it is missing. A pipe that nobody reads
// is waited for a second.
func (f *File) Write(text []byte, made bool) error {
	how := 0
	if made {
		how = unix.O_CREAT
	}
	file, err := f.Open(how)
	if err != nil {
		return err
	}
	lift := awake.Until(file.SetWriteDeadline, patience) // of what is a pipe
	_, err = file.Write(text)
	_ = lift()
	return errors.Join(err, file.Close())
}

// Replace writes a new file and gives it the name, whatever had it.
func (f *File) Replace(text []byte, mode fs.FileMode) error { return f.dir.Replace(f.name, text, mode) }

// Write writes a short text to a file that a user named by its path.
func Write(path string, text []byte) error {
	f, err := At(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Write(text, true)
}

// Draw writes a picture to a file that a user named by its path, "-" for standard output; "": none was wanted.
func Draw(path string, stdout io.Writer, draw func(io.Writer) error) error {
	var b bytes.Buffer
	switch path {
	case "":
		return nil
	case "-":
		return draw(stdout)
	}
	if err := draw(&b); err != nil {
		return err
	}
	err := Write(path, b.Bytes())
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: make its directory first (mkdir -p %s)", err, visible.Path(filepath.Dir(path)))
	}
	return err
}

// create opens a file that no user named, which a link may not be.
func (p place) create(how int, mode fs.FileMode) (*os.File, error) {
	return p.open(how|unix.O_WRONLY|unix.O_CREAT|unix.O_NOFOLLOW, mode, false)
}

// open opens what is there and looks at what that is before a byte of it changes. named is a path that a user gave: a device or a pipe is
// meant, where one is there.
func (p place) open(how int, mode fs.FileMode, named bool) (*os.File, error) {
	var st unix.Stat_t
	seen := unix.Fstatat(p.dir.at(), p.name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil
	if seen && st.Mode&unix.S_IFMT != unix.S_IFLNK {
		if err := fit(&st, named); err != nil {
			return nil, p.fails(err)
		}
	}
	if seen && named && st.Mode&unix.S_IFMT == unix.S_IFIFO { // which needs no reader at once
		how = how&^unix.O_ACCMODE | unix.O_RDWR
	}
	fd, err := openat(p.dir.at(), p.name, how|unix.O_NONBLOCK|unix.O_NOCTTY, mode)
	if err == unix.ELOOP && how&unix.O_NOFOLLOW != 0 {
		err = errLink
	}
	if err != nil {
		return nil, p.fails(err)
	}
	if err = unix.Fstat(fd, &st); err == nil {
		err = fit(&st, named)
	}
	if err == nil && st.Mode&unix.S_IFMT == unix.S_IFREG && how&(unix.O_APPEND|unix.O_EXCL) == 0 {
		err = unix.Ftruncate(fd, 0)
	}
	if err != nil {
		unix.Close(fd)
		return nil, p.fails(err)
	}
	return os.NewFile(uintptr(fd), p.path()), nil
}

// fit refuses what output does not go to.
func fit(st *unix.Stat_t, named bool) error {
	switch kind := st.Mode & unix.S_IFMT; {
	case kind == unix.S_IFREG && st.Nlink > 1:
		return fmt.Errorf("it has %d names (hard links), and another's file may be meant: remove it, or name another place", st.Nlink)
	case kind == unix.S_IFREG, named && (kind == unix.S_IFIFO || kind == unix.S_IFCHR):
		return nil
	case kind == unix.S_IFDIR:
		return unix.EISDIR
	}
	return errors.New("it is no regular file: remove it, or name another place")
}
