package leftover

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

const (
	maxPaths = 16 << 10 // that processes of a host can register; Open MPI registers two or three each
	maxPath  = 4095     // PATH_MAX, linux/limits.h
)

// Why a Registry does not take a path.
var (
	ErrElsewhere = errors.New("it is not below a directory where files are removed")
	ErrFull      = errors.New("no more paths are taken")
)

// Registry is what processes of several jobs asked to be removed when they have ended. NewRegistry makes one.
type Registry struct {
	bases []string

	mu    sync.Mutex
	paths map[string]registered // guarded by mu
}

type registered struct {
	Extent
	jobs map[int]bool // by number, that registered it
}

// NewRegistry removes below bases only, none of which is "".
func NewRegistry(bases ...string) *Registry {
	return &Registry{bases: bases, paths: map[string]registered{}}
}

// Add notes a path for a job: ErrElsewhere, ErrFull.
func (r *Registry) Add(job int, path string, what Extent) error {
	if base, _ := r.below(path); base == "" || len(path) > maxPath {
		return ErrElsewhere
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	path = filepath.Clean(path)
	old, known := r.paths[path]
	if !known {
		if len(r.paths) >= maxPaths {
			return ErrFull
		}
		old.jobs = map[int]bool{}
	}
	old.jobs[job] = true
	r.paths[path] = registered{what, old.jobs}
	return nil
}

// below is the directory of ours that path lies in, and the way from there.
func (r *Registry) below(path string) (base, rest string) {
	if !filepath.IsAbs(path) {
		return "", ""
	}
	for _, base := range r.bases {
		rest, err := filepath.Rel(base, path)
		if err == nil && rest != "." && filepath.IsLocal(rest) {
			return base, rest
		}
	}
	return "", ""
}

// RemoveAll removes what was registered, as far as it belongs to the caller's user. It is for after the last process
// has ended.
func (r *Registry) RemoveAll() error {
	r.mu.Lock()
	paths := r.paths
	r.paths = map[string]registered{}
	r.mu.Unlock()
	return r.remove(paths)
}

// RemoveOf is RemoveAll of what only jobs that are over have registered, of which this is the last.
func (r *Registry) RemoveOf(job int) error {
	r.mu.Lock()
	paths := map[string]registered{}
	for path, l := range r.paths {
		if delete(l.jobs, job); len(l.jobs) == 0 {
			paths[path] = l
			delete(r.paths, path)
		}
	}
	r.mu.Unlock()
	return r.remove(paths)
}

func (r *Registry) remove(paths map[string]registered) error {
	var errs []error
	for path, l := range paths {
		base, rest := r.below(path)
		err := Remove(base, rest, l.Extent, os.Geteuid()) // ranks run as the agent does
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
