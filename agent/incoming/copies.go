// Package incoming takes files that a launcher sends before a job's ranks start (--preload-binary,
// --preload-files) and removes them when the job has ended.
//
//	New ──Write, Write...──▶ queue (at most Window bytes) ──Run──▶ .mpiup-copy-*, then the name
//
// Where a file goes is its name: a relative one below the session's directory, an absolute one
// there. The package trusts a launcher with neither. It follows no symbolic link on the way,
// takes no name that leads upwards, and overwrites nothing. Sizes and their sum are bounded, and more
// bytes than the launcher announced are an error. A file appears under its name when it is whole.
//
// Write does not block and may be called beside Run, which one goroutine calls once.
//
// The package does not decide who may copy (agent/policy) and starts nothing.
package incoming

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"sync"
)

// Bounds of what one job may copy to a host.
const (
	MaxFiles = 1024
	MaxBytes = 8 << 30 // of all files; session directories are often in memory
	maxName  = 4000    // bytes; PATH_MAX is 4096, and the session's directory comes before it
)

// File is one file to come.
type File struct {
	Name string
	Mode fs.FileMode // permission bits; others are dropped
	Size int64       // bytes
}

// Config says what comes and where to.
type Config struct {
	Files  []File // that Check has passed
	Window int    // bytes that may wait to be written
	// Dir makes the session's directory. It is called where a name is relative.
	Dir func() (string, error)
	// Wrote gives n bytes of window back. It is called from Run and must not block.
	Wrote func(n int)
}

// Error is a file that could not be copied.
type Error struct {
	Name string // as the launcher has it
	Path string // on this host
	Err  error
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s cannot be copied to %s: %v", e.Name, e.Path, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// ErrOverrun: the launcher sent more than was announced, or than it had window for.
var ErrOverrun = errors.New("more bytes of files than announced, or than the window allows")

// Set is the files of one job.
type Set struct {
	cfg  Config
	wake chan struct{} // capacity 1

	mu      sync.Mutex
	queue   [][]byte // guarded by mu
	waiting int      // bytes in queue and being written, guarded by mu
	left    int64    // bytes that are still to come, guarded by mu
	ended   bool     // nobody writes any more: what comes is forgotten, guarded by mu

	dir  string   // of relative names, set by Run
	made []placed // by Run, for Remove
}

// Check says what is wrong with files that a launcher announces.
func Check(files []File) error {
	if len(files) > MaxFiles {
		return fmt.Errorf("%d files to copy; %d are possible", len(files), MaxFiles)
	}
	seen := make(map[string]bool, len(files))
	var sum int64
	for _, f := range files {
		if err := checkName(f.Name); err != nil {
			return err
		}
		if seen[f.Name] {
			return fmt.Errorf("file %q is to be copied twice", f.Name)
		}
		seen[f.Name] = true
		if f.Size < 0 || f.Size > MaxBytes-sum {
			return fmt.Errorf("file %q of %d bytes: all files together may have %d GiB", f.Name, f.Size, MaxBytes>>30)
		}
		sum += f.Size
	}
	return nil
}

// checkName allows a path that is as short as it can be and does not lead upwards.
func checkName(name string) error {
	switch {
	case name == "" || len(name) > maxName || strings.ContainsRune(name, 0):
		return fmt.Errorf("a file's name of %d bytes, or with a zero byte; 1 to %d are possible", len(name), maxName)
	case path.Clean(name) != name || name == "." || name == "/" || name == ".." || strings.HasPrefix(name, "../"):
		return fmt.Errorf("file name %.100q is none below a directory", name)
	}
	return nil
}

// New returns a Set that waits for bytes.
func New(cfg Config) *Set {
	s := &Set{cfg: cfg, wake: make(chan struct{}, 1)}
	for _, f := range cfg.Files {
		s.left += f.Size
	}
	return s
}

// Write takes the next bytes, which the Set then owns.
func (s *Set) Write(data []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.ended:
		return nil
	case int64(len(data)) > s.left || s.waiting+len(data) > s.cfg.Window:
		return ErrOverrun
	}
	s.left -= int64(len(data))
	s.waiting += len(data)
	s.queue = append(s.queue, data)
	select {
	case s.wake <- struct{}{}:
	default:
	}
	return nil
}

// Run writes the files, in order, and returns when all are there. Errors are *Errors, but for ctx's.
// What was made stays until Remove.
func (s *Set) Run(ctx context.Context) error {
	defer s.end()
	if err := s.prepare(); err != nil {
		return err
	}
	var rest []byte
	for _, f := range s.cfg.Files {
		to, err := s.create(f)
		if err == nil {
			rest, err = s.fill(ctx, to, f.Size, rest)
			err = to.finish(err)
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return &Error{Name: f.Name, Path: s.path(f.Name), Err: err}
		}
		s.made = append(s.made, to.placed)
	}
	return nil
}

// fill writes size bytes of what arrives, rest first, and returns what is the next file's.
func (s *Set) fill(ctx context.Context, to *incoming, size int64, rest []byte) ([]byte, error) {
	for size > 0 {
		if len(rest) == 0 {
			var err error
			if rest, err = s.next(ctx); err != nil {
				return nil, err
			}
		}
		n := int(min(int64(len(rest)), size))
		if _, err := to.file.Write(rest[:n]); err != nil {
			return nil, err
		}
		rest, size = rest[n:], size-int64(n)
		s.mu.Lock()
		s.waiting -= n
		s.mu.Unlock()
		s.cfg.Wrote(n)
	}
	return rest, nil
}

func (s *Set) next(ctx context.Context) ([]byte, error) {
	for {
		s.mu.Lock()
		if len(s.queue) > 0 {
			data := s.queue[0]
			s.queue = s.queue[1:]
			s.mu.Unlock()
			return data, nil
		}
		s.mu.Unlock()
		select {
		case <-s.wake:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// end forgets what has come and what will.
func (s *Set) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended, s.queue = true, nil
}

// Path is where file i is. Run has returned nil.
func (s *Set) Path(i int) string { return s.path(s.cfg.Files[i].Name) }

func (s *Set) path(name string) string {
	if path.IsAbs(name) {
		return name
	}
	return path.Join(s.dir, name)
}

// Dir is the directory of relative names, "" where there are none.
func (s *Set) Dir() string { return s.dir }
