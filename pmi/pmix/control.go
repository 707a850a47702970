package pmix

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
	"github.com/mpiup/mpiup/pmi/pmix/leftover"
)

// maxCleanups bounds what ranks of a host can register; Open MPI registers two or three each.
const (
	maxCleanups = 16 << 10
	maxPath     = 4095 // PATH_MAX, linux/limits.h
)

// sharedMemory is where Open MPI keeps its segments; a killed rank leaves them.
const sharedMemory = "/dev/shm"

// cleanup is what ranks asked to be removed when they have ended.
type cleanup struct {
	mu    sync.Mutex
	paths map[string]registered // guarded by mu
}

type registered struct {
	leftover.Extent
	jobs map[int]bool // by number, that registered it
}

// jobControl takes registrations of files to remove, all that Open MPI uses it for, and signals to
// processes, which tools send. The rest (checkpoints, provisioning) is not supported.
func (c *conn) jobControl(ctx context.Context, r *bfrops.Reader) (*bfrops.Writer, error) {
	procs := bfrops.Counted[bfrops.Proc](r, bfrops.ProcType) // of files whose end counts makes no difference here
	infos := r.Infos()
	if r.Err() != nil {
		return nil, r.Err()
	}
	var st error = errNotSupported
	for _, i := range infos {
		switch i.Key {
		case "pmix.reg.cleanup", "pmix.reg.cleanupdir":
			l := leftover.Extent{Dir: i.Key == "pmix.reg.cleanupdir", Recurse: isTrue(infos, "pmix.clnup.recurse"), KeepTop: isTrue(infos, "pmix.clnup.lvtop")}
			for path := range strings.SplitSeq(i.Value.Text(), ",") {
				if err := c.s.register(c.ns.Number, path, l); err != success {
					return nil, err
				}
			}
			st = success
		case "pmix.jctrl.kill", "pmix.jctrl.term", "pmix.jctrl.pause", "pmix.jctrl.resume", "pmix.jctrl.sig":
			if err := c.control(ctx, procs, i); err != success {
				return nil, err
			}
			st = success
		}
	}
	return nil, st
}

// maxSignal is the last of Linux's signals (SIGRTMAX).
const maxSignal = 64

// control has the processes that a rank lists, or its job, get a signal.
func (c *conn) control(ctx context.Context, procs []bfrops.Proc, i bfrops.Info) status {
	signal, end := 0, false
	switch i.Key {
	case "pmix.jctrl.sig":
		n, ok := i.Value.Number()
		if !ok || n < 1 || n > maxSignal {
			return errBadParam
		}
		signal = int(n)
	case "pmix.jctrl.kill":
		signal, end = int(syscall.SIGKILL), true
	case "pmix.jctrl.term":
		signal, end = int(syscall.SIGTERM), true
	case "pmix.jctrl.pause":
		signal = int(syscall.SIGSTOP)
	default:
		signal = int(syscall.SIGCONT)
	}
	if i.Key != "pmix.jctrl.sig" && !i.Value.True() {
		return success
	}
	f := c.s.cfg.Hooks.OnControl
	if f == nil {
		return errNotSupported
	}
	for _, p := range procs { // not waited for, as in abort
		if c.s.called(p.Namespace) == nil {
			return errNotFound
		}
	}
	all, st := c.s.party(ctx, c, procs)
	if st == success {
		f(c.id(), all.set().Slice(), signal, end)
	}
	return st
}

// register notes a path that ranks may have removed; of others nothing is said, as nothing
// depends on it: Open MPI names directories outside when it has been given none.
func (s *Server) register(job int, path string, what leftover.Extent) status {
	base, _ := s.below(path)
	if base == "" || len(path) > maxPath {
		s.log.Debug("PMIx: not to be removed", "path", path)
		return success
	}
	s.done.mu.Lock()
	defer s.done.mu.Unlock()
	path = filepath.Clean(path)
	old, known := s.done.paths[path]
	if !known && len(s.done.paths) >= maxCleanups {
		return errOutOfResource
	}
	if s.done.paths == nil {
		s.done.paths = map[string]registered{}
	}
	if !known {
		old.jobs = map[int]bool{}
	}
	old.jobs[job] = true
	s.done.paths[path] = registered{what, old.jobs}
	return success
}

// below is the directory of ours that path lies in, and the way from there.
func (s *Server) below(path string) (base, rest string) {
	if !filepath.IsAbs(path) {
		return "", ""
	}
	for _, base := range []string{s.cfg.SessionDir, sharedMemory} {
		if base == "" {
			continue
		}
		rest, err := filepath.Rel(base, path)
		if err == nil && rest != "." && filepath.IsLocal(rest) {
			return base, rest
		}
	}
	return "", ""
}

// Cleanup removes what ranks of this host registered, below the session directory and /dev/shm
// only, through no link, and nothing of another user's. It is for after the last of them has ended.
func (s *Server) Cleanup() error {
	s.done.mu.Lock()
	paths := s.done.paths
	s.done.paths = nil
	s.done.mu.Unlock()
	return s.removeAll(paths)
}

// cleanupOf is Cleanup of what only jobs that are over have registered, of which this is the last.
func (s *Server) cleanupOf(job int) error {
	s.done.mu.Lock()
	paths := map[string]registered{}
	for path, l := range s.done.paths {
		if delete(l.jobs, job); len(l.jobs) == 0 {
			paths[path] = l
			delete(s.done.paths, path)
		}
	}
	s.done.mu.Unlock()
	return s.removeAll(paths)
}

func (s *Server) removeAll(paths map[string]registered) error {
	var errs []error
	for path, l := range paths {
		base, rest := s.below(path)
		if base == "" {
			continue
		}
		err := leftover.Remove(base, rest, l.Extent, os.Geteuid()) // ranks run as the agent does
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
