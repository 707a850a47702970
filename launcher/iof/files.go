package iof

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"
)

// files writes each rank's streams to files of their own, byte by byte.
type files struct {
	book    *ledger
	broken  func(error)
	byLane  map[laneKey]*os.File
	err     error // the first
	stopped atomic.Bool
}

// openFiles makes the files of all ranks, so that what is wrong with the place shows before
// anything runs.
func openFiles(cfg *Config, book *ledger) (*files, error) {
	fs := &files{book: book, broken: cfg.Broken, byLane: map[laneKey]*os.File{}}
	for rank := range cfg.Ranks {
		for _, s := range []Stream{Stdout, Stderr} {
			if s == Stderr && cfg.Merge {
				fs.byLane[laneKey{rank, s}] = fs.byLane[laneKey{rank, Stdout}]
				continue
			}
			f, err := create(filepath.Join(cfg.Dir, cfg.Path(rank, s)))
			if err != nil {
				fs.closeAll()
				return nil, fmt.Errorf("output file of rank %d: %w", rank, err)
			}
			fs.byLane[laneKey{rank, s}] = f
		}
	}
	return fs, nil
}

func create(path string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return nil, err
	}
	f, err := os.Create(path)
	if errors.Is(err, syscall.EMFILE) {
		err = fmt.Errorf("%w: raise the limit of open files (ulimit -n), two a rank are needed", err)
	}
	return f, err
}

func (fs *files) open()                          {}
func (fs *files) flush()                         {}
func (fs *files) expire(time.Time) (t time.Time) { return t }
func (fs *files) interrupt()                     { fs.stopped.Store(true) }

func (fs *files) put(p piece, _ time.Time) {
	k := laneKey{p.rank, p.stream}
	if f := fs.byLane[k]; f != nil && len(p.data) > 0 && !fs.stopped.Load() {
		if _, err := f.Write(p.data); err != nil {
			fs.fail(k, f, err)
		}
	}
	if len(p.data) > 0 {
		fs.book.filed(k, len(p.data))
	}
}

// fail gives one file up; the others go on. Only the first failure is told.
func (fs *files) fail(k laneKey, f *os.File, err error) {
	f.Close()
	for _, s := range []Stream{Stdout, Stderr} {
		if fs.byLane[laneKey{k.rank, s}] == f {
			delete(fs.byLane, laneKey{k.rank, s})
		}
	}
	if fs.err != nil {
		return
	}
	fs.err = fmt.Errorf("output file of rank %d: %w", k.rank, err)
	if fs.broken != nil {
		fs.broken(fs.err)
	}
}

func (fs *files) close() error {
	if err := fs.closeAll(); err != nil && fs.err == nil {
		fs.err = err
		if fs.broken != nil {
			fs.broken(err)
		}
	}
	return fs.err
}

// closeAll returns the first error: a network file system may keep it until then.
func (fs *files) closeAll() error {
	var first error
	for k, f := range fs.byLane {
		err := f.Close()
		if err != nil && !errors.Is(err, os.ErrClosed) && first == nil {
			first = fmt.Errorf("output file of rank %d: %w", k.rank, err)
		}
	}
	return first
}
