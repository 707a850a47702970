package checkup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mpiup/mpiup/internal/awake"
	"github.com/mpiup/mpiup/internal/job"
)

const raises = 20 // of the counter, by each host

// What a host's file "turn" says of its file "lock", in this order. Others open it anew for each look: NFS clients ask the server
// then (close-to-open), while they remember for a minute that a name was not there.
const (
	held   = "held"   // it is locked, until the host before has tried
	looked = "looked" // and this host has tried the next one's
	none   = "none"   // it cannot be locked
)

// locks tries whether a lock keeps other hosts out, then lets all hosts raise a counter at once.
func (s *Shared) locks(ctx context.Context, r *job.DirTrial) error {
	dir, err := s.open()
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := s.hold(ctx, dir, r); err != nil || r.NoLocks != "" || r.Loose || r.Stale {
		return err
	}
	return s.raise(ctx, dir, r)
}

// hold locks this host's file for as long as the host before it needs to try that lock, and tries the next host's. Counting alone
// would not do: where locks are each host's own and hosts do not count at the same moments, nothing is lost.
func (s *Shared) hold(ctx context.Context, dir *os.Root, r *job.DirTrial) error {
	own, err := opened(dir, fmt.Sprint("lock-", s.Host), os.O_RDWR)
	if err != nil {
		return err
	}
	defer own.Close() // and the lock ends
	if err := try(own, unix.F_WRLCK); err != nil {
		r.NoLocks = err.Error()
		return s.say(dir, none)
	}
	if err := s.say(dir, held); err != nil {
		return err
	}
	next, before := (s.Host+1)%s.Hosts, (s.Host+s.Hosts-1)%s.Hosts
	word, err := s.turn(ctx, dir, next, held, looked, none)
	if err != nil {
		return err
	}
	if word == held || word == looked {
		other, err := opened(dir, fmt.Sprint("lock-", next), os.O_RDWR)
		if err != nil {
			return err
		}
		defer other.Close()
		switch err := try(other, unix.F_WRLCK); {
		case err == nil:
			r.Loose = true
		case !busy(err):
			r.NoLocks = err.Error()
		}
	}
	if err := s.say(dir, looked); err != nil {
		return err
	}
	last, err := s.turn(ctx, dir, before, looked, none)
	r.Stale = word == "" || last == ""
	return err
}

// say writes this host's turn.
func (s *Shared) say(dir *os.Root, word string) error {
	f, err := opened(dir, fmt.Sprint("turn-", s.Host), os.O_WRONLY)
	if err != nil {
		return err
	}
	if err = f.Truncate(0); err == nil {
		_, err = f.WriteString(word)
	}
	return errors.Join(err, f.Sync(), f.Close())
}

// turn waits until a host's turn is one of words, and returns that; "": it was not within the patience.
func (s *Shared) turn(ctx context.Context, dir *os.Root, host int, words ...string) (string, error) {
	var text string
	if s.wait(ctx, 20*time.Millisecond, func() (done bool) {
		var err error
		text, err = says(dir, fmt.Sprint("turn-", host))
		return err == nil && slices.Contains(words, text)
	}) {
		return text, nil
	}
	return "", ctx.Err()
}

// raise adds to the counter that all hosts raise at once, each time under a lock of the whole file.
func (s *Shared) raise(ctx context.Context, dir *os.Root, r *job.DirTrial) error {
	f, err := opened(dir, "counter", os.O_RDWR|os.O_CREATE)
	if err != nil {
		return err
	}
	defer f.Close()
	ctx, cancel := awake.Within(ctx, 6*s.Patience)
	defer cancel()
	for r.Locked < raises {
		if err := lock(ctx, f, unix.F_WRLCK); err != nil {
			r.NoLocks = err.Error()
			return nil
		}
		n, err := count(f)
		if err == nil {
			_, err = f.WriteAt(fmt.Appendf(nil, "%-12d", n+1), 0)
		}
		if err := errors.Join(err, f.Sync(), lock(ctx, f, unix.F_UNLCK)); err != nil {
			return err
		}
		r.Locked++
	}
	return nil
}

// lock takes or gives back a lock of the file's open description, as MPI-IO, HDF5 and SQLite ask for them of processes.
func lock(ctx context.Context, f *os.File, kind int16) error {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		if err := try(f, kind); !busy(err) {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.New("no turn came: some host holds the lock, or its loss was not noticed")
		}
	}
}

// try takes or gives back such a lock, or is why that cannot be done now.
func try(f *os.File, kind int16) error {
	return unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: kind, Whence: io.SeekStart})
}

// busy says of an error of try that it may succeed later.
func busy(err error) bool {
	return errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.EINTR)
}

func count(r io.ReaderAt) (int, error) {
	b := make([]byte, 12)
	n, err := r.ReadAt(b, 0)
	if n == 0 && errors.Is(err, io.EOF) {
		return 0, nil
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	return strconv.Atoi(string(bytes.TrimSpace(b[:n])))
}
