package streams

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// Raw calls f with the terminal in raw mode and restores it on every way out of f, a panic included. In raw mode, for `exec -t`, each
// key goes to the remote terminal, which echoes and makes signals of ^C and ^Z. The process must not end otherwise
// meanwhile: signals must cancel what f waits for. stuck is told why a terminal that is still there could not be restored.
func Raw(file *os.File, stuck func(error), f func() error) error {
	var saved *term.State
	err := control(file, func(fd int) (err error) {
		saved, err = term.MakeRaw(fd)
		return err
	})
	if err != nil {
		return fmt.Errorf("raw mode of the terminal: %w", err)
	}
	defer func() {
		err := control(file, func(fd int) error { return term.Restore(fd, saved) })
		if err != nil && !errors.Is(err, unix.EIO) { // EIO: it is gone
			stuck(err)
		}
	}()
	return f()
}

// IsTerminal says whether w is a terminal.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	is := false
	return withFD(f, func(fd int) error { is = term.IsTerminal(fd); return nil }) == nil && is
}

// TerminalSize is the size of the terminal that file is, to be asked again on SIGWINCH.
func TerminalSize(file *os.File) (rows, columns uint16, err error) {
	err = control(file, func(fd int) error {
		ws, err := unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ)
		if err == nil {
			rows, columns = ws.Row, ws.Col
		}
		return err
	})
	if err != nil {
		return 0, 0, fmt.Errorf("size of the terminal: %w", err)
	}
	return rows, columns, nil
}

// control calls f on a thread that blocks SIGTTOU. Otherwise that signal would stop a process that changes a
// terminal's mode from the background (tcsetattr() of POSIX).
func control(file *os.File, f func(fd int) error) error {
	defer blockSignals(unix.SIGTTOU)()
	return withFD(file, f)
}

// blockSignals blocks a signal for the calling thread, which the goroutine keeps until it
// calls unblock. The rest of the process, and what it starts elsewhere, is not affected.
func blockSignals(sig syscall.Signal) (unblock func()) {
	runtime.LockOSThread()
	var set, old unix.Sigset_t
	bits := uint(64)
	n := uint(sig) - 1
	set.Val[n/bits] |= 1 << (n % bits)
	if unix.PthreadSigmask(unix.SIG_BLOCK, &set, &old) != nil {
		return runtime.UnlockOSThread
	}
	return func() {
		unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil)
		runtime.UnlockOSThread()
	}
}
