package streams

import (
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// source reads a file it shares with the shell: without changing its flags, without being
// stopped by SIGTTIN, and without a read that cannot be interrupted.
type source struct {
	fd    int // ours to close
	tty   bool
	event int // eventfd, readable when to stop
	ask   chan int
}

// background is how often a launcher in the background looks whether it is in the foreground.
const background = 250 * time.Millisecond

func openSource(f *os.File) (*source, error) {
	s := &source{ask: make(chan int)}
	return s, withFD(f, s.open)
}

func (s *source) open(fd int) (err error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	// nohup opens /dev/null for writing in place of a terminal (coreutils: nohup.c): nobody is to read there.
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil {
		return os.NewSyscallError("fcntl", err)
	}
	if flags&unix.O_ACCMODE == unix.O_WRONLY {
		return errWriteOnly
	}

	s.tty = term.IsTerminal(fd)
	if s.tty || st.Mode&unix.S_IFMT == unix.S_IFIFO {
		if n, err := reopen(fd, unix.O_RDONLY); err == nil {
			s.fd = n
		}
	}
	if s.fd == 0 { // not opened anew: shared, so read only after poll(2)
		if s.fd, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3); err != nil {
			return os.NewSyscallError("fcntl", err)
		}
	}
	if s.event, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		unix.Close(s.fd)
		return os.NewSyscallError("eventfd", err)
	}
	return nil
}

func (s *source) stop() {
	close(s.ask)
	unix.Write(s.event, []byte{1, 0, 0, 0, 0, 0, 0, 0})
}

func (s *source) close() {
	unix.Close(s.fd)
	unix.Close(s.event)
}

// serve answers each question with one read. On its thread SIGTTIN is blocked: a read from
// the background then fails with EIO instead of stopping the launcher (tty_ioctl(4)).
func (s *source) serve(reads chan<- readResult) {
	restore := blockSignals(unix.SIGTTIN)
	defer restore()
	for n := range s.ask {
		data, err := s.read(n)
		if err == errStopped {
			return
		}
		reads <- readResult{data, err}
	}
}

var (
	errStopped = errors.New("stopped")
	errNotNow  = errors.New("in the background")

	// errWriteOnly says that a file is no input.
	errWriteOnly = errors.New("it is open for writing alone")
)

// read waits for data and reads up to n bytes of it.
func (s *source) read(n int) ([]byte, error) {
	buf := make([]byte, n)
	for {
		err := s.wait()
		if err == nil {
			n, err = unix.Read(s.fd, buf)
		}
		switch {
		case err == unix.EAGAIN || err == unix.EINTR:
		case err == errNotNow || err == unix.EIO && !s.foreground():
			if stopped, _ := s.poll(background, false); stopped {
				return nil, errStopped
			}
		case err == unix.EIO && s.tty: // the terminal is gone
			return nil, io.EOF
		case err != nil:
			return nil, err
		case n == 0:
			return nil, io.EOF
		default:
			return buf[:n:n], nil
		}
	}
}

// wait returns nil when a read gives something at once.
func (s *source) wait() error {
	if !s.foreground() {
		return errNotNow
	}
	stopped, data := s.poll(-1, true)
	switch {
	case stopped:
		return errStopped
	case !data: // a signal came; a read of a shared file would block, and nothing would end it
		return unix.EAGAIN
	case !s.foreground(): // in the meantime
		return errNotNow
	}
	return nil
}

// poll waits for the end, at most d (-1: for ever), and for data if input is set. A signal, such as
// the one by which Go interrupts a thread, ends the wait with neither.
func (s *source) poll(d time.Duration, input bool) (stopped, data bool) {
	fds := []unix.PollFd{{Fd: int32(s.event), Events: unix.POLLIN}}
	if input {
		fds = append(fds, unix.PollFd{Fd: int32(s.fd), Events: unix.POLLIN})
	}
	ms := -1
	if d >= 0 {
		ms = int(d.Milliseconds())
	}
	unix.Poll(fds, ms) // EINTR: the caller tries again
	return fds[0].Revents != 0, input && fds[1].Revents != 0
}

// foreground: the file is no terminal, or our process group may read from it.
func (s *source) foreground() bool {
	if !s.tty {
		return true
	}
	group, err := unix.IoctlGetInt(s.fd, unix.TIOCGPGRP)
	return err != nil || group == unix.Getpgrp() // an error: not our controlling terminal
}

type readResult struct {
	data []byte
	err  error
}
