package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mpiup/mpiup/agent/reap/guard"
	"github.com/mpiup/mpiup/internal/awake"
	"github.com/mpiup/mpiup/internal/bounded"
	"github.com/mpiup/mpiup/internal/outfile"
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
// removes it. A container without a writable one has "", and so has one whose file system does not answer.
func (h *Host) SessionDir(session string) (dir string, remove func()) {
	base := h.SessionsDir()
	dir = guard.SessionDir(base, session)
	err := h.atBase(func() error {
		if err := outfile.MakeAll(base, 0o700); err != nil {
			return err
		}
		if err := bounded.OwnedDir(base); err != nil {
			return err
		}
		return os.MkdirAll(dir, 0o700)
	})
	if err != nil {
		return "", func() {}
	}
	return dir, func() { h.RemoveDirs(dir) }
}

// RemoveDirs removes directories of a session, with all that is in them, and then what holds sessions' directories, if nothing else is in it. A file
// system that does not answer is not waited for. Removing many files may take longer than an answer: that goes on by itself, and does not count as
// silence.
func (h *Host) RemoveDirs(dirs ...string) {
	err := h.atBase(func() error {
		_, _ = os.Lstat(h.SessionsDir()) // whatever it says, it answers
		return nil
	})
	if err != nil {
		h.cfg.Log.Warn("a session's files are not removed", "dirs", dirs, "cause", err)
		return
	}
	_, removed := awake.Call(StatBound, func() bool {
		for _, dir := range dirs {
			os.RemoveAll(dir)
		}
		os.Remove(h.SessionsDir())
		return true
	})
	if !removed {
		h.cfg.Log.Info("removing a session's files takes long, and goes on", "dirs", dirs)
	}
}

// RemoveEmpty is RemoveDirs of a session's directory if nothing is in it.
func (h *Host) RemoveEmpty(session string) {
	base := h.SessionsDir()
	_ = h.atBase(func() error { // what does not answer stays, as what is not empty does
		os.Remove(guard.SessionDir(base, session))
		os.Remove(base)
		return nil
	})
}

// atBase asks something of what holds sessions' directories, and does not wait for a file system that does not answer: once for StatBound, and not at all
// while that question stands.
func (h *Host) atBase(ask func() error) error {
	silent := fmt.Errorf("%s: %w", h.SessionsDir(), ErrNoAnswer)
	if h.unanswered.Load() > 0 {
		return silent
	}
	const over = 1
	var state atomic.Int32
	err, in := awake.Call(StatBound, func() error {
		err := ask()
		if state.Swap(over) == over { // the caller has gone on
			h.unanswered.Add(-1)
		}
		return err
	})
	if in {
		return err
	}
	h.unanswered.Add(1)
	if state.Swap(over) == over { // the answer has come since
		h.unanswered.Add(-1)
	}
	return silent
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
		at, err := outfile.Open(dir, 0o777)
		if err != nil {
			return "", err
		}
		defer at.Close()
		if err := at.Try(); err != nil {
			return "", err
		}
		on, err := at.Statfs()
		if err != nil { // it can be written to, and that is what was asked for
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
