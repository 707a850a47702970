package outfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// mostLinks is how many links a path may lead through, as Linux has it (MAXSYMLINKS, path_resolution(7)).
const mostLinks = 40

// MakeAll is os.MkdirAll, but that root follows no link of another user: a rank that may write to a directory on the way puts one there, and root's
// directories would be made where it leads. Other users can make nothing by a link that its owner could not.
func MakeAll(path string, mode fs.FileMode) error {
	if os.Geteuid() != 0 {
		return os.MkdirAll(path, mode)
	}
	dir, err := reachFor(0, path, mode)
	if err != nil {
		return err
	}
	return dir.Close()
}

// reachFor opens a directory as root, uid, going from directory to directory, and makes those that are missing. A link on the way is followed if it
// is uid's own.
func reachFor(uid uint32, path string, mode fs.FileMode) (*os.File, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	fails := func(at string, err error) error { return &fs.PathError{Op: "mkdir", Path: at, Err: err} }

	root, err := enter(unix.AT_FDCWD, "/")
	if err != nil {
		return nil, fails("/", err)
	}
	dir, at := root, "/"
	defer func() { unix.Close(dir) }()

	rest, links := strings.Split(absolute, "/"), 0
	for len(rest) > 0 {
		name := rest[0]
		rest = rest[1:]
		if name == "" || name == "." {
			continue
		}
		here := filepath.Join(at, name)

		next, err := enter(dir, name)
		if err == unix.ENOENT {
			if err := unix.Mkdirat(dir, name, uint32(mode.Perm())); err != nil && err != unix.EEXIST {
				return nil, fails(here, err)
			}
			next, err = enter(dir, name)
		}
		if err == nil {
			unix.Close(dir)
			dir, at = next, here
			continue
		}

		target, linked := linkOf(uid, dir, name)
		if linked != nil {
			if errors.Is(linked, errNoLink) {
				linked = err
			}
			return nil, fails(here, linked)
		}
		if links++; links > mostLinks {
			return nil, fails(here, unix.ELOOP)
		}
		rest = append(strings.Split(target, "/"), rest...)
		if filepath.IsAbs(target) {
			top, err := enter(unix.AT_FDCWD, "/")
			if err != nil {
				return nil, fails("/", err)
			}
			unix.Close(dir)
			dir, at = top, "/"
		}
	}
	fd, err := unix.FcntlInt(uintptr(dir), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fails(at, err)
	}
	return os.NewFile(uintptr(fd), path), nil
}

// enter opens a directory without following a link. One that may not be read is opened as a place on the way (O_PATH), which mounts nothing by itself.
func enter(dir int, name string) (int, error) {
	const how = unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_NONBLOCK
	fd, err := openat(dir, name, unix.O_RDONLY|how, 0)
	if err == unix.EACCES {
		fd, err = openat(dir, name, unix.O_PATH|how, 0)
	}
	return fd, err
}

var errNoLink = errors.New("it is no link")

// linkOf is where a link of uid's leads.
func linkOf(uid uint32, dir int, name string) (string, error) {
	link, err := openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(link)
	var st unix.Stat_t
	if err := unix.Fstat(link, &st); err != nil {
		return "", err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFLNK {
		return "", errNoLink
	}
	if st.Uid != uid {
		return "", fmt.Errorf("it is a symbolic link of uid %d, which root does not follow: remove it, or name the place itself", st.Uid)
	}
	target := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(link, "", target)
	if err != nil {
		return "", err
	}
	return string(target[:n]), nil
}
