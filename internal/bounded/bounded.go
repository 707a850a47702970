// Package bounded reads small texts whole, from files and streams that others write: what is longer than its bound is an error, and nothing of it
// is returned. It says which connection of a stranger goes for one more (Crowd), and tells directories and programs that others may change from
// those that they may not. Refusals decides which refused callers are worth a line in a log.
//
// Concurrency: functions share nothing, and a Crowd and Refusals may be used by any number of goroutines. The package knows no format.
package bounded

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

var (
	// ErrTooLarge is of a text beyond its bound.
	ErrTooLarge = errors.New("too large")
	// ErrNotRegular is of a path that is no file: a directory, a device, a pipe.
	ErrNotRegular = errors.New("not a regular file")
)

// Read reads r to its end, at most most bytes.
func Read(r io.Reader, most int) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, int64(most)+1))
	if err == nil && len(text) > most {
		text, err = nil, fmt.Errorf("longer than %d bytes: %w", most, ErrTooLarge)
	}
	return text, err
}

// File reads what a user named: a file, or a pipe that a shell made for him. Errors name it.
func File(path string, most int) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return whole(f, path, most)
}

// Regular reads a file that nobody named, or that somebody else may have put there: no pipe blocks it, and no device is read.
func Regular(path string, most int) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	return whole(f, path, most)
}

// Open opens such a file.
func Open(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		f.Close()
		if err == nil {
			err = &fs.PathError{Op: "read", Path: path, Err: ErrNotRegular}
		}
		return nil, err
	}
	return f, nil
}

// Cause is what went wrong with a path, without the operation and the path, which the caller says.
func Cause(err error) error {
	var failed *fs.PathError
	if errors.As(err, &failed) {
		return failed.Err
	}
	return err
}

func whole(f *os.File, path string, most int) ([]byte, error) {
	defer f.Close()
	text, err := Read(f, most)
	if errors.Is(err, ErrTooLarge) {
		err = &fs.PathError{Op: "read", Path: path, Err: err}
	}
	return text, err
}
