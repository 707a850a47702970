package leftover

import (
	"errors"
	"io/fs"
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
	paths map[named]registered // guarded by mu
}

// named is a path that a process of a user's has named.
type named struct {
	path  string
	owner int
}

type registered struct {
	Extent
	jobs map[int]bool // by number, that registered it
}

// NewRegistry removes below bases only, none of which is "".
func NewRegistry(bases ...string) *Registry {
	return &Registry{bases: bases, paths: map[named]registered{}}
}

// Add notes a path for a job, of a process of the user owner: ErrElsewhere, ErrFull.
func (r *Registry) Add(job, owner int, path string, what Extent) error {
	if base, _ := r.below(path); base == "" || len(path) > maxPath {
		return ErrElsewhere
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	at := named{filepath.Clean(path), owner}
	old, known := r.paths[at]
	if !known {
		if len(r.paths) >= maxPaths {
			return ErrFull
		}
		old.jobs = map[int]bool{}
	}
	old.jobs[job] = true
	r.paths[at] = registered{what, old.jobs}
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

// RemoveAll removes what was registered, as far as it belongs to the user whose process named it. It is for after the last process
// has ended.
func (r *Registry) RemoveAll() error {
	r.mu.Lock()
	paths := r.paths
	r.paths = map[named]registered{}
	r.mu.Unlock()
	return r.remove(paths)
}

// RemoveOf forgets a job that is over, and removes what no other job has registered.
func (r *Registry) RemoveOf(job int) error {
	r.mu.Lock()
	paths := map[named]registered{}
	for at, l := range r.paths {
		if delete(l.jobs, job); len(l.jobs) == 0 {
			paths[at] = l
			delete(r.paths, at)
		}
	}
	r.mu.Unlock()
	return r.remove(paths)
}

func (r *Registry) remove(paths map[named]registered) error {
	var errs []error
	for at, l := range paths {
		base, rest := r.below(at.path)
		err := Remove(base, rest, l.Extent, at.owner)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
