package stdio

import (
	"errors"
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mpiup/mpiup/internal/job"
)

// reader reads one stream. Its goroutine waits in one of two places: in the poller for data,
// with the earlier of two deadlines (a held line is old enough; the drain bound has run out),
// or for window.
type reader struct {
	pump   *Pump
	stream job.Stream
	file   *os.File
	raw    syscall.RawConn

	tty   bool // the master of a terminal
	held  holder
	since time.Time // when the first held byte was read
	last  time.Time // when data was read last, or reading became possible again
	cut   bool      // ended before EOF; read after run has returned

	deadline time.Time // what file has, guarded by pump.mu
}

// Why a read returned without data.
var (
	errWindow = errors.New("no window")
	errNow    = errors.New("nothing there")
)

func newReader(p *Pump, s job.Stream, f *os.File) (*reader, error) {
	raw, err := f.SyscallConn()
	if err == nil {
		err = f.SetReadDeadline(time.Time{})
	}
	if err != nil {
		return nil, p.failure(s, err)
	}
	r := &reader{pump: p, stream: s, file: f, raw: raw, held: holder{line: min(bufferSize, p.cfg.Window/4)}}
	err = raw.Control(func(fd uintptr) {
		_, notTTY := unix.IoctlGetTermios(int(fd), unix.TCGETS)
		r.tty = notTTY == nil
	})
	return r, p.failure(s, err)
}

// run reads until the end of the stream, the drain bound, or the end of the pump.
func (r *reader) run() error {
	r.last = time.Now()
	for {
		stopped := r.setDeadline()
		n, err := r.wait()
		now := time.Now()
		switch {
		case err == nil:
			r.take(n, now)
			r.cut = stopped && r.open() // what nobody adds to is read to its end
		case err == errWindow:
			r.cut = !r.awaitWindow()
		case errors.Is(err, os.ErrDeadlineExceeded):
			r.cut = !r.expired(now)
		}
		if r.cut || err == io.EOF || isFailure(err) {
			r.cut = r.cut && r.open()
			r.flush()
			return r.pump.failure(r.stream, err)
		}
	}
}

// open says that a process has the stream open for writing: poll(2) tells of a hangup where none has, read or not what is in it.
func (r *reader) open() bool {
	open := true
	err := r.raw.Control(func(fd uintptr) {
		poll := []unix.PollFd{{Fd: int32(fd)}}
		_, err := unix.Poll(poll, 0)
		open = err != nil || poll[0].Revents&unix.POLLHUP == 0
	})
	return err != nil || open
}

func isFailure(err error) bool {
	return err != nil && err != errWindow && !errors.Is(err, os.ErrDeadlineExceeded)
}

// wait reads once, and waits for data if there is none until the deadline passes.
func (r *reader) wait() (n int, err error) {
	var readErr error
	err = r.raw.Read(func(fd uintptr) bool {
		n, readErr = r.read(fd)
		return readErr != errNow
	})
	if err == nil {
		return n, readErr
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return 0, err
	}
	// A deadline counts only after what had arrived was read. This process may have been stopped, and the poller
	// reports a passed deadline before it looks at the file.
	ctlErr := r.raw.Control(func(fd uintptr) { n, readErr = r.read(fd) })
	if ctlErr != nil {
		return 0, ctlErr
	}
	if readErr == errNow {
		return 0, os.ErrDeadlineExceeded
	}
	return n, readErr
}

// read is one read(2) of as much as the window allows. The window is only taken for the
// moment of the call, so that a quiet stream does not keep it from the other.
func (r *reader) read(fd uintptr) (int, error) {
	win := r.pump.window
	room := win.take(r.stream, bufferSize-r.held.n)
	if room == 0 {
		return 0, errWindow
	}
	n, err := r.fill(int(fd), r.held.space(room))
	if n < room {
		win.put(room - max(n, 0))
	}
	if n > 0 {
		return n, nil
	}
	r.held.idle()
	switch {
	case err == unix.EAGAIN:
		return 0, errNow
	case err == nil, err == unix.EIO: // EIO: a terminal that no process has open any more
		return 0, io.EOF
	}
	return 0, os.NewSyscallError("read", err)
}

// fill reads into b: once from a pipe, until there is nothing more from a terminal, which gives 4095 bytes a
// read at most (N_TTY_BUF_SIZE of drivers/tty/n_tty.c). What ends a terminal is told again by the next read.
func (r *reader) fill(fd int, b []byte) (n int, err error) {
	for {
		m, err := ignoringEINTR(fd, b[n:])
		n += max(m, 0)
		if m <= 0 || !r.tty || n == len(b) {
			return n, err
		}
	}
}

func ignoringEINTR(fd int, b []byte) (int, error) {
	for {
		n, err := unix.Read(fd, b)
		if err != unix.EINTR {
			return n, err
		}
	}
}

// take keeps n bytes that were read, and emits what is ready.
func (r *reader) take(n int, now time.Time) {
	r.last = now
	if r.held.n == 0 {
		r.since = now
	}
	if c, ok := r.held.add(n); ok {
		r.since = now
		r.emit(c)
	}
}

func (r *reader) emit(c Chunk) {
	c.Stream, c.Time = r.stream, r.last
	r.pump.emit(c)
}

// flush emits a held line as it is.
func (r *reader) flush() {
	if c, ok := r.held.rest(); ok {
		r.emit(c)
	}
	r.held.idle()
}

// setDeadline tells the file until when to wait for data. stopped: not at all.
func (r *reader) setDeadline() (stopped bool) {
	var t time.Time
	if r.held.n > 0 {
		t = r.since.Add(r.pump.cfg.Quiet)
	}
	r.pump.mu.Lock()
	defer r.pump.mu.Unlock()
	if end := r.drainEnd(); !end.IsZero() && (t.IsZero() || end.Before(t)) {
		t = end
	}
	if r.pump.stopped {
		t = past
	}
	if !t.Equal(r.deadline) {
		r.file.SetReadDeadline(t)
		r.deadline = t
	}
	return r.pump.stopped
}

var past = time.Unix(1, 0)

// drainEnd is when to give the stream up, zero while its process runs. pump.mu is held.
func (r *reader) drainEnd() time.Time {
	from := r.pump.exited
	if from.IsZero() {
		return from
	}
	if r.last.After(from) {
		from = r.last
	}
	return from.Add(r.pump.cfg.DrainBound)
}

// expired acts on a passed deadline and says whether to go on reading.
func (r *reader) expired(now time.Time) bool {
	if r.held.n > 0 && now.Sub(r.since) >= r.pump.cfg.Quiet {
		r.flush()
	}
	r.pump.mu.Lock()
	defer r.pump.mu.Unlock()
	end := r.drainEnd()
	return !r.pump.stopped && (end.IsZero() || now.Before(end))
}

// awaitWindow waits until the window may have room again; the drain bound starts anew then. A
// held line leaves when its time has come: what is on the way need not come back before. It
// returns false when the pump is to stop.
func (r *reader) awaitWindow() bool {
	var quiet <-chan time.Time
	if r.held.n > 0 {
		t := time.NewTimer(time.Until(r.since.Add(r.pump.cfg.Quiet)))
		defer t.Stop()
		quiet = t.C
	}
	select {
	case <-r.pump.window.wake[r.stream]:
	case <-quiet:
		r.flush()
	case <-r.pump.stop:
		return false
	}
	r.last = time.Now()
	return true
}
