package incoming

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// placed is a file that was made at an absolute path.
type placed struct {
	path     string // "": in the session's directory, which goes as a whole; or it was there before
	dev, ino uint64
}

// incoming is a file that is being written.
type incoming struct {
	dir  *os.File // that it is in
	file *os.File // under a name of its own in dir
	temp string
	name string // in dir, when it is whole
	mode uint32
	abs  string // its path where that was given as an absolute one
	placed
}

// prepare makes the session's directory where it is needed, and refuses what cannot end well before
// much was sent.
func (s *Set) prepare() error {
	var sum int64
	for _, f := range s.cfg.Files {
		if path.IsAbs(f.Name) {
			continue
		}
		sum += f.Size
		if s.dir != "" {
			continue
		}
		var err error
		if s.dir, err = s.cfg.Dir(); err != nil {
			s.dir = ""
			return &Error{Name: f.Name, Path: "the session's directory", Err: err}
		}
	}
	if s.dir == "" {
		return nil
	}
	var st unix.Statfs_t
	if err := unix.Statfs(s.dir, &st); err != nil {
		return nil // writing will tell
	}
	if free := int64(st.Bavail) * st.Bsize; sum > free {
		return &Error{Name: s.cfg.Files[0].Name, Path: s.dir, Err: fmt.Errorf("the files have %d bytes and %d are free there: "+
			"set TMPDIR of the agent to a larger volume", sum, max(free, 0))}
	}
	return nil
}

// create opens a file's directory, link by link, and a new file there.
func (s *Set) create(f File) (*incoming, error) {
	to := &incoming{name: path.Base(f.Name), mode: uint32(f.Mode.Perm())}
	root, below := s.dir, path.Dir(f.Name)
	if path.IsAbs(f.Name) {
		root, below, to.abs = "/", strings.TrimPrefix(below, "/"), f.Name
	}
	var err error
	if to.dir, err = walk(root, below, to.abs == ""); err != nil {
		return nil, err
	}
	if err = to.free(f.Size); err == nil {
		err = to.open()
	}
	if err != nil {
		to.dir.Close()
		return nil, err
	}
	return to, nil
}

// walk opens the directory below root and follows no symbolic link. Missing ones are made if that
// is wanted: in the session's directory, which only this user writes to.
func walk(root, below string, create bool) (*os.File, error) {
	const flags = unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Open(root, flags, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", root, err)
	}
	at := root
	for name := range strings.SplitSeq(below, "/") {
		if name == "" || name == "." {
			continue
		}
		at = path.Join(at, name)
		if create {
			if err := unix.Mkdirat(fd, name, 0o700); err != nil && err != unix.EEXIST {
				unix.Close(fd)
				return nil, fmt.Errorf("%s: %w", at, err)
			}
		}
		next, err := unix.Openat(fd, name, flags, 0)
		unix.Close(fd)
		switch {
		case err == unix.ENOTDIR || err == unix.ELOOP: // a link, with O_PATH and O_DIRECTORY
			return nil, fmt.Errorf("%s is no directory, or a symbolic link, and none is followed: name the place itself", at)
		case err == unix.ENOENT:
			return nil, fmt.Errorf("%s is not there: make it, or give the file without a directory", at)
		case err != nil:
			return nil, fmt.Errorf("%s: %w", at, err)
		}
		fd = next
	}
	return os.NewFile(uintptr(fd), at), nil
}

var errTaken = errors.New("something else is there already, and nothing is overwritten: remove it, or choose another name")

// free refuses a name that is taken by what cannot be the same file.
func (to *incoming) free(size int64) error {
	var st unix.Stat_t
	err := unix.Fstatat(int(to.dir.Fd()), to.name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if err == nil && (st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size != size) {
		return errTaken
	}
	return nil // or writing will tell
}

func (to *incoming) open() error {
	to.temp = ".mpiup-copy-" + rand.Text()
	fd, err := unix.Openat(int(to.dir.Fd()), to.temp, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	to.file = os.NewFile(uintptr(fd), to.temp)
	return nil
}

// finish gives the file its mode and its name, unless err says that it is not whole.
func (to *incoming) finish(err error) error {
	defer to.dir.Close()
	dir := int(to.dir.Fd())
	if err == nil {
		err = unix.Fchmod(int(to.file.Fd()), to.mode)
	}
	if err == nil {
		err = unix.Linkat(dir, to.temp, dir, to.name, 0)
		switch {
		case err == unix.EEXIST && to.same():
			err, to.abs = nil, "" // somebody else's, who may go on using it
		case err == unix.EEXIST:
			err = errTaken
		case err == unix.EPERM || err == unix.EOPNOTSUPP: // a file system without links
			err = unix.Renameat2(dir, to.temp, dir, to.name, unix.RENAME_NOREPLACE)
		}
	}
	if err == nil && to.abs != "" {
		to.placed = to.note()
	}
	unix.Unlinkat(dir, to.temp, 0) // gone already after a rename
	// A child that was forked meanwhile holds the file open for writing until it has called exec, and
	// the program could not be started (ETXTBSY, golang/go#22315).
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return errors.Join(err, to.file.Close())
}

// note is what Remove needs to know the file again.
func (to *incoming) note() placed {
	var st unix.Stat_t
	if err := unix.Fstat(int(to.file.Fd()), &st); err != nil {
		return placed{}
	}
	return placed{path: to.abs, dev: st.Dev, ino: st.Ino}
}

// same says that the file of that name holds what was sent: the launcher's own host has it, or another
// host that shares the volume was faster.
func (to *incoming) same() bool {
	fd, err := unix.Openat(int(to.dir.Fd()), to.name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	other := os.NewFile(uintptr(fd), to.name)
	defer other.Close()
	fi, err := other.Stat()
	if err != nil || !fi.Mode().IsRegular() || uint32(fi.Mode().Perm())&to.mode != to.mode {
		return false
	}
	if _, err := to.file.Seek(0, io.SeekStart); err != nil {
		return false
	}
	return equal(to.file, other)
}

// equal compares two streams.
func equal(a, b io.Reader) bool {
	x, y := make([]byte, 128<<10), make([]byte, 128<<10)
	for {
		n, errA := io.ReadFull(a, x)
		m, errB := io.ReadFull(b, y)
		if string(x[:n]) != string(y[:m]) {
			return false
		}
		if errA != nil || errB != nil {
			atEnd := func(err error) bool { return err == io.EOF || err == io.ErrUnexpectedEOF }
			return atEnd(errA) && atEnd(errB)
		}
	}
}

// Remove removes the files that were made at absolute paths and are still those. The session's
// directory is its owner's to remove. Run has returned.
func (s *Set) Remove() {
	for _, p := range s.made {
		if p.path == "" {
			continue
		}
		dir, err := walk("/", strings.TrimPrefix(path.Dir(p.path), "/"), false)
		if err != nil {
			continue // its directory went with it
		}
		var st unix.Stat_t
		if err := unix.Fstatat(int(dir.Fd()), path.Base(p.path), &st, unix.AT_SYMLINK_NOFOLLOW); err == nil && st.Dev == p.dev && st.Ino == p.ino {
			unix.Unlinkat(int(dir.Fd()), path.Base(p.path), 0)
		}
		dir.Close()
	}
	s.made = nil
}
