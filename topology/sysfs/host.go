package sysfs

import (
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// host is this machine's root directory. Reading a file is three system calls. An os.File would add the file to the
// poller first, which costs as much again and is of no use for files of sysfs.
type host struct{}

func (host) Open(name string) (fs.File, error)      { return os.DirFS("/").Open(name) }
func (host) Stat(name string) (fs.FileInfo, error)  { return os.Stat("/" + name) }
func (host) Lstat(name string) (fs.FileInfo, error) { return os.Lstat("/" + name) }
func (host) ReadLink(name string) (string, error)   { return os.Readlink("/" + name) }
func (host) readPrefix(name string, b []byte) (int, error) {
	var fd int
	err := again(func() (err error) {
		fd, err = unix.Open("/"+name, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
		return err
	})
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	return readFull(func(b []byte) (int, error) { return unix.Read(fd, b) }, b, sysfsFile(name))
}

// readFull reads until b is full or the file ends; one read of a sysfs file gives all of it, up to a
// page.
func readFull(read func([]byte) (int, error), b []byte, sysfs bool) (total int, err error) {
	for total < len(b) {
		var n int
		err := again(func() (err error) {
			n, err = read(b[total:])
			return err
		})
		if total += n; err == io.EOF {
			break
		}
		if err != nil {
			return 0, err
		}
		if n == 0 || sysfs && n < page && total < len(b) {
			break
		}
	}
	return total, nil
}

// writable asks with the effective user, as an open would, and does not open: some devices wake.
func writable(name string) bool {
	return again(func() error {
		return unix.Faccessat(unix.AT_FDCWD, "/"+name, unix.R_OK|unix.W_OK, unix.AT_EACCESS)
	}) == nil
}

// sysfsFile: files of /sys whose show function fills one page, thus all but the binary ones.
func sysfsFile(name string) bool { return len(name) > 4 && name[:4] == "sys/" }

// again repeats a system call that a signal interrupted, as the Go runtime's preemption does.
func again(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}
