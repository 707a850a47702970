package iof

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mpiup/mpiup/internal/job"
)

// files writes each process's streams to files of their own, byte by byte.
type files struct {
	cfg     *Config
	book    *ledger
	err     error // the first
	stopped atomic.Bool

	tags map[laneKey]*tagger // with Config.TagFiles, of what was written to; only put uses them
	text []byte              // of a piece with its tags; only put uses it

	mu     sync.Mutex
	byLane map[laneKey]*os.File // guarded by mu
	byPath map[string]*os.File  // those of patterns, guarded by mu
}

func newFiles(cfg *Config, book *ledger) *files {
	return &files{cfg: cfg, book: book, byLane: map[laneKey]*os.File{}, byPath: map[string]*os.File{}, tags: map[laneKey]*tagger{}}
}

// add makes the files of a job's processes, so that what is wrong with the place shows before
// any of them runs.
func (fs *files) add(number, base, size int) error {
	path := fs.cfg.rankPath(number, size)
	made := map[laneKey]*os.File{}
	for rank := range size {
		for _, s := range []job.Stream{job.Stdout, job.Stderr} {
			k := laneKey{base + rank, s}
			if s == job.Stderr && fs.cfg.Merge {
				made[k] = made[laneKey{base + rank, job.Stdout}]
				continue
			}
			f, err := fs.cfg.places.dir.Create(path(rank, s), fs.how())
			if err != nil {
				for _, f := range made {
					f.Close()
				}
				return fmt.Errorf("output file of rank %s: %w", job.Process{Job: number, Rank: rank}.Tag(), plenty(err))
			}
			made[k] = f
		}
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	maps.Copy(fs.byLane, made)
	return nil
}

func (fs *files) file(k laneKey) *os.File {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return fs.byLane[k]
}

func (fs *files) open()                          {}
func (fs *files) flush()                         {}
func (fs *files) expire(time.Time) (t time.Time) { return t }

func (fs *files) interrupt() {
	fs.stopped.Store(true)
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, f := range fs.byLane {
		_ = f.SetWriteDeadline(time.Now()) // of what is a pipe
	}
}

func (fs *files) put(p piece, _ time.Time) {
	k := laneKey{p.id, p.stream}
	f := fs.file(k)
	if f == nil && fs.cfg.Files[k.stream] != "" && len(p.data) > 0 && fs.err == nil {
		if err := fs.patterned(k); err != nil {
			fs.tell(k, err)
		}
		f = fs.file(k)
	}
	if f != nil && len(p.data) > 0 && !fs.stopped.Load() {
		if _, err := f.Write(fs.tagged(k, p)); err != nil {
			fs.fail(k, f, err)
		}
	}
	if len(p.data) > 0 {
		fs.book.filed(k, len(p.data))
	}
}

// tagged is what of a piece goes to its file.
func (fs *files) tagged(k laneKey, p piece) []byte {
	if !fs.cfg.TagFiles {
		return p.data
	}
	if fs.tags[k] == nil {
		t := fs.cfg.tagger(k)
		fs.tags[k] = &t
	}
	fs.text = fs.tags[k].append(fs.text[:0], p.data, p.time)
	return fs.text
}

// fail gives one file up; the others go on. Only the first failure is told.
func (fs *files) fail(k laneKey, f *os.File, err error) {
	f.Close()
	fs.mu.Lock()
	for _, s := range []job.Stream{job.Stdout, job.Stderr} {
		if fs.byLane[laneKey{k.id, s}] == f {
			delete(fs.byLane, laneKey{k.id, s})
		}
	}
	fs.mu.Unlock()
	fs.tell(k, err)
}

func (fs *files) tell(k laneKey, err error) {
	if fs.err != nil {
		return
	}
	fs.err = fmt.Errorf("output file of rank %s: %w", fs.cfg.process(k.id).Tag(), err)
	if fs.cfg.Broken != nil {
		fs.cfg.Broken(fs.err)
	}
}

func (fs *files) close() error {
	if err := fs.closeAll(); err != nil && fs.err == nil {
		fs.err = err
		if fs.cfg.Broken != nil {
			fs.cfg.Broken(err)
		}
	}
	return fs.err
}

// closeAll returns the first error: a network file system may keep it until then.
func (fs *files) closeAll() error {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	var first error
	for k, f := range fs.byLane {
		err := f.Close()
		if err != nil && !errors.Is(err, os.ErrClosed) && first == nil {
			first = fmt.Errorf("output file of rank %s: %w", fs.cfg.process(k.id).Tag(), err)
		}
	}
	return first
}
