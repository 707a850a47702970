package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/mpiup/mpiup/agent/reap/guard"
	"github.com/mpiup/mpiup/internal/owned"
	"github.com/mpiup/mpiup/pmi/pmix/leftover"
)

// RunDir is where sessions have directories.
func (h *Host) RunDir() string {
	if h.cfg.RunDir != "" {
		return h.cfg.RunDir
	}
	return RunDir(os.TempDir(), os.Getuid())
}

// SessionDir makes a directory that ranks of a session may use for files, and returns what
// removes it. A container without a writable one has "".
func (h *Host) SessionDir(session string) (dir string, remove func()) {
	base := h.RunDir()
	dir = guard.SessionDir(base, session)
	if err := os.MkdirAll(dir, 0o700); err == nil {
		err = owned.Dir(base)
		if err == nil {
			return dir, func() {
				os.RemoveAll(dir)
				os.Remove(base) // if nothing else is in it
			}
		}
		os.Remove(dir)
	}
	return "", func() {}
}

// RemoveSegments removes shared memory that killed ranks left behind, and that nobody uses: of a session that has
// ended, and of what ran here before this agent, which may have been killed with its ranks.
func (h *Host) RemoveSegments() {
	gone, err := leftover.Segments(leftover.Shm, os.Geteuid())
	if len(gone) > 0 {
		h.cfg.Log.Info("removed shared memory that nobody uses", "dir", leftover.Shm, "files", gone)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		h.cfg.Log.Info("shared memory that nobody uses", "dir", leftover.Shm, "cause", err)
	}
}

// DirExists asks for a directory, but does not wait for a mount that does not answer.
func DirExists(dir string) error {
	type result struct {
		fi  os.FileInfo
		err error
	}
	got := make(chan result, 1)
	go func() { // ends when the mount answers; a stuck one costs this goroutine
		fi, err := os.Stat(dir)
		got <- result{fi, err}
	}()
	select {
	case r := <-got:
		if r.err == nil && !r.fi.IsDir() {
			return fmt.Errorf("%s: %w", dir, syscall.ENOTDIR)
		}
		return r.err
	case <-time.After(StatBound):
		return fmt.Errorf("%s: %w", dir, ErrNoAnswer)
	}
}

// StatBound is how long a file system has to answer.
const StatBound = 5 * time.Second

// ErrNoAnswer is of a directory whose file system does not answer.
var ErrNoAnswer = errors.New("its file system does not answer")
