package streams

import (
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// Output writes to one of the launcher's streams so that a write which blocks can be interrupted. It does not make
// the stream non-blocking for the shell and others that share it.
//
// A pipe or terminal is opened anew through /proc/self/fd: that gives a file description of
// our own, whose flags are ours. Where that is refused (a socket; a terminal of another user; no
// /proc) each write waits in poll(2) first and takes no more than fits then. Regular files share
// their offset with others and never block for long: they are written through a duplicate.
type Output struct {
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

// OpenOutput prepares f for writing. f stays its owner's.
func OpenOutput(f *os.File) (*Output, error) {
	o := &Output{}
	return o, withFD(f, func(fd int) error { return o.open(fd, f.Name()) })
}

// withFD calls do with a file's descriptor, and leaves its flags as they are.
func withFD(f *os.File, do func(fd int) error) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = do(int(fd)) }); err != nil {
		return err
	}
	return failed
}

func (o *Output) open(fd int, name string) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	kind := st.Mode & unix.S_IFMT
	if kind == unix.S_IFIFO || kind == unix.S_IFCHR && term.IsTerminal(fd) {
		if n, err := reopen(fd, unix.O_WRONLY); err == nil {
			o.file = os.NewFile(uintptr(n), name)
			return nil
		}
		o.most = pipeBuf
	}
	if kind == unix.S_IFSOCK {
		o.socket, o.most = true, 1<<20
	}
	// Not fd 1 or 2: os.File would end the process when their reader has gone.
	dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return os.NewSyscallError("fcntl", err)
	}
	o.file = os.NewFile(uintptr(dup), name)
	return nil
}

// reopen opens what fd is anew, non-blocking.
func reopen(fd, mode int) (int, error) {
	return unix.Open(fmt.Sprintf("/proc/self/fd/%d", fd), mode|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
}

// Write blocks until all of b has left, or returns os.ErrDeadlineExceeded after Interrupt.
func (o *Output) Write(b []byte) (n int, err error) {
	if o.most == 0 {
		return o.file.Write(b)
	}
	for n < len(b) {
		if o.stopped.Load() {
			return n, os.ErrDeadlineExceeded
		}
		k, err := o.some(b[n:min(len(b), n+o.most)])
		n += k
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// some waits a moment and writes if it can.
func (o *Output) some(b []byte) (n int, err error) {
	fd := int(o.file.Fd())
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
	ready, err := unix.Poll(fds, pollSlice)
	switch {
	case err == unix.EINTR || err == nil && ready == 0:
		return 0, nil
	case err != nil:
		return 0, os.NewSyscallError("poll", err)
	case o.socket:
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

// Interrupt makes a blocked write return, and all later ones. Any goroutine may call it.
func (o *Output) Interrupt() {
	o.stopped.Store(true)
	o.file.SetWriteDeadline(past) // refused where it is not needed
}

// Close ends what OpenOutput opened.
func (o *Output) Close() { o.file.Close() }
