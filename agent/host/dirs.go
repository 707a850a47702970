package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mpiup/mpiup/agent/reap/guard"
	"github.com/mpiup/mpiup/internal/awake"
	"github.com/mpiup/mpiup/internal/bounded"
	"github.com/mpiup/mpiup/pmi/pmix/leftover"
)

// SessionsDir is where sessions have directories: where the record is kept, or where it would be.
func (h *Host) SessionsDir() string {
	if h.cfg.RunDir != "" {
		return h.cfg.RunDir
	}
	return RunDir(os.TempDir(), os.Getuid())
}

// SessionDir makes a directory that ranks of a session may use for files, and returns what
// removes it. A container without a writable one has "".
func (h *Host) SessionDir(session string) (dir string, remove func()) {
	base := h.SessionsDir()
	dir = guard.SessionDir(base, session)
	if os.MkdirAll(base, 0o700) != nil || bounded.OwnedDir(base) != nil || os.MkdirAll(dir, 0o700) != nil {
		return "", func() {}
	}
	return dir, func() {
		os.RemoveAll(dir)
		os.Remove(base) // if nothing else is in it
	}
}

// RemoveSegments removes shared memory that killed ranks left behind, and that nobody uses: of a session that has
// ended, and of what ran here before this agent, which may have been killed with its ranks.
func (h *Host) RemoveSegments() {
	gone, err := leftover.Segments(leftover.Shm, os.Geteuid())
	if len(gone) > 0 {
		h.cfg.Log.Info("removed shared memory that nobody uses", "dir", leftover.Shm, "files", gone)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		h.cfg.Log.Info("cannot remove shared memory that nobody uses", "dir", leftover.Shm, "cause", err)
	}
}

// DirExists asks for a directory, but does not wait for a mount that does not answer.
func DirExists(dir string) error {
	_, err := answered(dir, func() (struct{}, error) {
		fi, err := os.Stat(dir)
		if err == nil && !fi.IsDir() {
			err = fmt.Errorf("%s: %w", dir, syscall.ENOTDIR)
		}
		return struct{}{}, err
	})
	return err
}

// Exists says whether a path leads to something, but does not wait for a mount that does not answer. An error says that it does not show.
func Exists(path string) (bool, error) {
	return answered(path, func() (bool, error) {
		_, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
			return false, nil
		}
		return err == nil, err
	})
}

// Writable makes dir if it is missing and tries a write there; it does not wait for a mount that does not answer. passing names a file
// system that does not outlive the container; "": it may.
func Writable(dir string) (passing string, err error) {
	return answered(dir, func() (string, error) {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return "", err
		}
		f, err := os.CreateTemp(dir, ".mpiup-try-")
		if err != nil {
			return "", err
		}
		_, err = f.Write([]byte("mpiup can write here\n"))
		if err = errors.Join(err, f.Close(), os.Remove(f.Name())); err != nil {
			return "", err
		}
		var on unix.Statfs_t
		if unix.Statfs(dir, &on) != nil {
			return "", nil
		}
		return map[int64]string{unix.OVERLAYFS_SUPER_MAGIC: "the container's own file system (overlay)", unix.TMPFS_MAGIC: "memory (tmpfs)",
			unix.RAMFS_MAGIC: "memory (ramfs)"}[int64(on.Type)], nil
	})
}

// answered is what ask finds of a directory, if its file system answers in time.
func answered[T any](dir string, ask func() (T, error)) (T, error) {
	type result struct {
		what T
		err  error
	}
	r, in := awake.Call(StatBound, func() (r result) { // a stuck mount costs a goroutine
		r.what, r.err = ask()
		return r
	})
	if !in {
		r.err = fmt.Errorf("%s: %w", dir, ErrNoAnswer)
	}
	return r.what, r.err
}

// StatBound is how long a file system has to answer.
const StatBound = 5 * time.Second

// ErrNoAnswer is of a directory whose file system does not answer.
var ErrNoAnswer = errors.New("its file system does not answer")
