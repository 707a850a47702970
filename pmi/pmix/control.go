package pmix

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
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
	paths map[string]leftover // guarded by mu
}

type leftover struct {
	dir, recurse, keepTop bool
}

// jobControl takes registrations of files to remove, all that Open MPI uses it for.
func (c *conn) jobControl(_ context.Context, r *bfrops.Reader) (*bfrops.Writer, error) {
	bfrops.Counted[bfrops.Proc](r, bfrops.ProcType) // the targets: whose end counts makes no difference here
	infos := r.Infos()
	if r.Err() != nil {
		return nil, r.Err()
	}
	known := false
	for _, i := range infos {
		l := leftover{dir: i.Key == "pmix.reg.cleanupdir", recurse: isTrue(infos, "pmix.clnup.recurse"), keepTop: isTrue(infos, "pmix.clnup.lvtop")}
		if !l.dir && i.Key != "pmix.reg.cleanup" {
			continue
		}
		known = true
		for path := range strings.SplitSeq(i.Value.Text(), ",") {
			if err := c.s.register(path, l); err != success {
				return nil, err
			}
		}
	}
	if !known {
		return nil, errNotSupported
	}
	return nil, success
}

// register notes a path that ranks may have removed; of others nothing is said, as nothing
// depends on it: Open MPI names directories outside when it has been given none.
func (s *Server) register(path string, l leftover) status {
	base, _ := s.below(path)
	if base == "" || len(path) > maxPath {
		s.log.Debug("PMIx: not to be removed", "path", path)
		return success
	}
	s.done.mu.Lock()
	defer s.done.mu.Unlock()
	if len(s.done.paths) >= maxCleanups {
		return errOutOfResource
	}
	if s.done.paths == nil {
		s.done.paths = map[string]leftover{}
	}
	s.done.paths[filepath.Clean(path)] = l
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
// only and through no link that leads out of them. It is for after the last of them has ended.
func (s *Server) Cleanup() error {
	s.done.mu.Lock()
	paths := s.done.paths
	s.done.paths = nil
	s.done.mu.Unlock()
	var errs []error
	for path, l := range paths {
		base, rest := s.below(path)
		if base == "" {
			continue
		}
		root, err := os.OpenRoot(base)
		if err == nil {
			err = l.remove(root, rest)
			root.Close()
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (l leftover) remove(root *os.Root, path string) error {
	if !l.dir {
		return root.Remove(path)
	}
	if l.recurse && !l.keepTop {
		return root.RemoveAll(path)
	}
	entries, err := fs.ReadDir(root.FS(), filepath.ToSlash(path))
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := filepath.Join(path, e.Name())
		if l.recurse {
			err = errors.Join(err, root.RemoveAll(name))
		} else if !e.IsDir() {
			err = errors.Join(err, root.Remove(name))
		}
	}
	if l.keepTop || err != nil {
		return err
	}
	if err := root.Remove(path); err != nil && l.recurse {
		return err
	}
	return nil
}
