package sysfs

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Dir is a directory that holds a machine's files, as an fs.FS. Symbolic links do not lead out of it: the kernel
// reads them as after a chroot (openat2, Linux 5.6). Where openat2 is not allowed, os.Root refuses links that lead
// out. Only regular files and directories are read: a pipe would wait for a writer, a device may never end.
type Dir struct {
	root *os.Root
	fd   int // of the directory; -1: openat2 is not to be had
	file *os.File
}

// OpenDir opens a directory. Close ends it.
func OpenDir(dir string) (Dir, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Dir{}, err
	}
	file, err := root.Open(".")
	if err != nil {
		root.Close()
		return Dir{}, err
	}
	d := Dir{root: root, fd: int(file.Fd()), file: file}
	if fd, err := d.openat2(".", unix.O_PATH); err == nil {
		unix.Close(fd)
	} else {
		d.fd = -1 // ENOSYS of an old kernel, EPERM of a container's system call filter
	}
	return d, nil
}

// Close ends the use of the directory.
func (d Dir) Close() error { return errors.Join(d.file.Close(), d.root.Close()) }

var errNotRegular = errors.New("neither a regular file nor a directory")

// Flags with which nothing waits and nothing becomes this process's terminal.
const readFlags = unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY

func (d Dir) openat2(name string, flags uint64) (fd int, err error) {
	how := unix.OpenHow{Flags: flags | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	err = again(func() (err error) {
		fd, err = unix.Openat2(d.fd, name, &how)
		return err
	})
	return fd, err
}

// opened is an open file or directory.
func (d Dir) opened(name string) (fd int, err error) {
	if fd, err = d.openat2(name, readFlags); err != nil {
		return 0, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG && st.Mode&unix.S_IFMT != unix.S_IFDIR {
		err = errNotRegular
	}
	if err != nil {
		unix.Close(fd)
		return 0, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return fd, nil
}

// Open is fs.FS's.
func (d Dir) Open(name string) (fs.File, error) {
	if d.fd >= 0 {
		fd, err := d.opened(name)
		if err != nil {
			return nil, err
		}
		return os.NewFile(uintptr(fd), name), nil
	}
	f, err := d.root.OpenFile(name, readFlags, 0)
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

// readPrefix reads a file with few system calls; those of os.Root are one for each part of a name.
func (d Dir) readPrefix(name string, b []byte) (int, error) {
	if d.fd < 0 {
		f, err := d.Open(name)
		if err != nil {
			return 0, err
		}
		defer f.Close()
		return readFull(f.Read, b, false)
	}
	fd, err := d.opened(name)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	return readFull(func(b []byte) (int, error) { return unix.Read(fd, b) }, b, sysfsFile(name))
}

// Stat is fs.StatFS's.
func (d Dir) Stat(name string) (fs.FileInfo, error) {
	if d.fd < 0 {
		return d.root.Stat(name)
	}
	fd, err := d.openat2(name, unix.O_PATH)
	if err != nil {
		return nil, &fs.PathError{Op: "stat", Path: name, Err: err}
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	return f.Stat()
}

// Lstat is fs.ReadLinkFS's.
func (d Dir) Lstat(name string) (fs.FileInfo, error) { return d.root.Lstat(name) }

// ReadLink is fs.ReadLinkFS's.
func (d Dir) ReadLink(name string) (string, error) {
	if d.fd < 0 {
		return d.root.Readlink(name)
	}
	bad := func(err error) (string, error) { return "", &fs.PathError{Op: "readlink", Path: name, Err: err} }
	fd, err := d.openat2(name, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return bad(err)
	}
	defer unix.Close(fd)
	b := make([]byte, page+1)
	n, err := unix.Readlinkat(fd, "", b)
	if err != nil {
		if errors.Is(err, unix.ENOENT) { // of an empty name that is no link
			err = unix.EINVAL
		}
		return bad(err)
	}
	return string(b[:n]), nil
}
