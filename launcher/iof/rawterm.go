package iof

import (
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// RawTerminal is a terminal in raw mode, for `exec -t`: each key goes to the remote terminal,
// which echoes and makes signals of ^C and ^Z.
type RawTerminal struct {
	file *os.File

	mu    sync.Mutex
	saved *term.State // guarded by mu; nil: restored
}

// Raw calls f with the terminal in raw mode and restores it on every way out of f, a panic
// included. The process must not end otherwise meanwhile: signals must cancel what f waits for.
func Raw(file *os.File, f func(*RawTerminal) error) error {
	t := &RawTerminal{file: file}
	if err := t.Resume(); err != nil {
		return err
	}
	defer t.Suspend()
	return f(t)
}

// IsTerminal says whether file is a terminal.
func IsTerminal(file *os.File) bool { return isTerminal(file) }

// Resume puts the terminal into raw mode (again, after Suspend).
func (t *RawTerminal) Resume() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.saved != nil {
		return nil
	}
	err := t.control(func(fd int) (err error) {
		t.saved, err = term.MakeRaw(fd)
		return err
	})
	if err != nil {
		return fmt.Errorf("raw mode of the terminal: %w", err)
	}
	return nil
}

// Suspend restores the terminal as it was before. It may be called any number of times, from
// any goroutine, and works from the background too.
func (t *RawTerminal) Suspend() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.saved == nil {
		return nil
	}
	err := t.control(func(fd int) error { return term.Restore(fd, t.saved) })
	if err != nil {
		return fmt.Errorf("restore the terminal: %w (type `reset`)", err)
	}
	t.saved = nil
	return nil
}

// Size is the terminal's size, to be asked again on SIGWINCH.
func (t *RawTerminal) Size() (rows, columns uint16, err error) { return TerminalSize(t.file) }

// TerminalSize is the size of the terminal that file is.
func TerminalSize(file *os.File) (rows, columns uint16, err error) {
	err = (&RawTerminal{file: file}).control(func(fd int) error {
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

// control calls f on a thread that SIGTTOU does not stop: changing a terminal's mode from the
// background would, while it is blocked the call goes through (termios(3)).
func (t *RawTerminal) control(f func(fd int) error) error {
	raw, err := t.file.SyscallConn()
	if err != nil {
		return err
	}
	restore := blockSignals(unix.SIGTTOU)
	defer restore()
	var opErr error
	if err := raw.Control(func(fd uintptr) { opErr = f(int(fd)) }); err != nil {
		return err
	}
	return opErr
}
