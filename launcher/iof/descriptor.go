package iof

import (
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// descriptor writes to one of the launcher's streams so that a write which blocks can be
// interrupted, and without making the stream non-blocking for the shell and whoever else shares it.
//
// A pipe or terminal is opened anew through /proc/self/fd: that gives a file description of
// our own, whose flags are ours. Where that is refused (a socket; a terminal of another user; no
// /proc) each write waits in poll(2) first and takes no more than fits then. Regular files share
// their offset with others and never block for long: they are written through a duplicate.
type descriptor struct {
	file *os.File
	// most is what one write takes after poll(2) said that the file is writable. 0: any amount,
	// and no poll is needed.
	most    int
	socket  bool
	stopped atomic.Bool
}

// pollSlice is how often a wait in poll(2) looks whether it was interrupted, in milliseconds.
const pollSlice = 100

// pipeBuf is PIPE_BUF (limits.h): what a pipe takes without blocking when it is writable.
const pipeBuf = 4096

// past as a deadline makes what waits return.
var past = time.Unix(1, 0)

func openDescriptor(f *os.File) (*descriptor, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	d := &descriptor{}
	var opErr error
	err = raw.Control(func(fd uintptr) { opErr = d.open(int(fd), f.Name()) })
	if err == nil {
		err = opErr
	}
	return d, err
}

func (d *descriptor) open(fd int, name string) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	kind := st.Mode & unix.S_IFMT
	if kind == unix.S_IFIFO || kind == unix.S_IFCHR && term.IsTerminal(fd) {
		file, err := reopen(fd, unix.O_WRONLY)
		if err == nil {
			d.file = file
			return nil
		}
		d.most = pipeBuf
	}
	if kind == unix.S_IFSOCK {
		d.socket, d.most = true, 1<<20
	}
	// Not fd 1 or 2: os.File would end the process when their reader has gone.
	dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return os.NewSyscallError("fcntl", err)
	}
	d.file = os.NewFile(uintptr(dup), name)
	return nil
}

// reopen opens what fd is anew, non-blocking.
func reopen(fd, mode int) (*os.File, error) {
	path := fmt.Sprintf("/proc/self/fd/%d", fd)
	n, err := unix.Open(path, mode|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(n), path), nil
}

func (d *descriptor) Write(b []byte) (n int, err error) {
	if d.most == 0 {
		return d.file.Write(b)
	}
	for n < len(b) {
		if d.stopped.Load() {
			return n, os.ErrDeadlineExceeded
		}
		k, err := d.some(b[n:min(len(b), n+d.most)])
		n += k
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// some waits a moment and writes if it can.
func (d *descriptor) some(b []byte) (n int, err error) {
	fd := int(d.file.Fd())
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
	ready, err := unix.Poll(fds, pollSlice)
	switch {
	case err == unix.EINTR || err == nil && ready == 0:
		return 0, nil
	case err != nil:
		return 0, os.NewSyscallError("poll", err)
	case d.socket:
		n, err = unix.SendmsgN(fd, b, nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	default:
		n, err = unix.Write(fd, b)
	}
	switch {
	case err == unix.EAGAIN || err == unix.EINTR:
		return 0, nil
	case err != nil:
		return 0, os.NewSyscallError("write", err)
	case n == 0:
		return 0, io.ErrShortWrite
	}
	return n, nil
}

func (d *descriptor) interrupt() {
	d.stopped.Store(true)
	d.file.SetWriteDeadline(past) // refused where it is not needed
}

func (d *descriptor) close() { d.file.Close() }

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return false
	}
	is := false
	raw.Control(func(fd uintptr) { is = term.IsTerminal(int(fd)) })
	return is
}
