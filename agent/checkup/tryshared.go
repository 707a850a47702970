package checkup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mpiup/mpiup/internal/awake"
	"github.com/mpiup/mpiup/internal/bounded"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/pattern"
)

// A trial is what mpiup doctor starts on each host, as a rank of a job, to try what cannot be looked up: whether a
// directory is shared.
//
//	shared DIR:  write ─▶ read ─▶ lock ─▶ clean      a phase begins on all hosts when the last has ended on all
//	   write   files of 4 KiB, a file as large as a checkpoint, a mark
//	   read    the marks of all, the next host's file
//	   lock    whether a lock keeps others out, a counter under a lock with all others
//	   clean   the counter's end; the trial's directory goes
//
// A trial touches nothing in DIR but a directory of its own, ".mpiup-doctor-" and the launcher's random token, and follows no
// link out of it. What it writes is bounded by its caller and by job.MaxTrialSize.
//
// Each function of a trial blocks until it is done, and waits for all that it started but for what a file system holds up: that of a directory which
// does not answer within openTime, or of any when the trial is ended. A trial judges nothing.

// Shared is one host's part in the trial of a directory.
type Shared struct {
	Dir   string
	Token string // 32 hex digits, the same on all hosts
	Host  int    // this one's number, of Hosts
	Hosts int
	Size  int64 // of the large file, bytes

	Patience time.Duration // for what others wrote to appear; for all of the locks six times as long
}

const (
	smallFiles = 16
	smallSize  = 4 << 10
	block      = 4 << 20 // bytes that are written at a time
	least      = 0.8     // of the free space, that all hosts together may take
)

var token = pattern.Of(`^[0-9a-f]{32}$`)

// Phase does one of "write", "read", "lock" and "clean". All hosts have ended one before any begins the next.
func (s *Shared) Phase(ctx context.Context, name string) job.DirTrial {
	phase, ok := map[string]func(context.Context, *job.DirTrial) error{"write": s.write, "read": s.read, "lock": s.locks, "clean": s.clean}[name]
	var r job.DirTrial
	switch {
	case !ok:
		r.Error = fmt.Sprintf("%.20q is no phase of this trial", name)
	case !filepath.IsAbs(s.Dir) || !token().MatchString(s.Token) || s.Hosts < 1 || s.Hosts > job.MaxTrialHosts || s.Host < 0 || s.Host >= s.Hosts ||
		s.Size < job.MinTrialSize || s.Size > job.MaxTrialSize:
		r.Error = "the trial's words are out of range; is the launcher's mpiup of another version?"
	default:
		return s.ended(ctx, phase)
	}
	return r
}

// ended is what a phase has done, also where it is ended in the middle of a call that a file system does not answer.
func (s *Shared) ended(ctx context.Context, phase func(context.Context, *job.DirTrial) error) job.DirTrial {
	const early = "it was ended before it was done"
	r, answered := awake.InTurn(ctx, make(chan struct{}, 1), func() (r job.DirTrial) {
		err := phase(ctx, &r)
		switch {
		case errors.Is(err, context.Canceled):
			r.Error = early
		case err != nil:
			r.Error = err.Error()
		}
		if errors.Is(err, ErrSilent) {
			r.Fix = "see to the mount and its server, or name another directory"
		}
		return r
	})
	if !answered {
		r.Error = early
	}
	return r
}

// openTime is how long a file system has to open the directory.
const openTime = 10 * time.Second

// top is the directory that the user has named, for as long as its file system takes to answer, and no longer than openTime.
func (s *Shared) top() (*os.Root, error) {
	type opened struct {
		root *os.Root
		err  error
	}
	o, answered := awake.Call(openTime, func() (o opened) {
		o.root, o.err = bounded.OpenRoot(s.Dir)
		return o
	})
	if !answered {
		return nil, &fs.PathError{Op: "open", Path: s.Dir, Err: ErrSilent}
	}
	return o.root, o.err
}

func (s *Shared) own() string { return ".mpiup-doctor-" + s.Token }

// open is the trial's directory; nothing in it leads out.
func (s *Shared) open() (*os.Root, error) {
	dir, err := s.top()
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	if err := dir.Mkdir(s.own(), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return dir.OpenRoot(s.own())
}

// free is how many bytes can be written there.
func (s *Shared) free() (bytes float64, err error) {
	type asked struct {
		is  unix.Statfs_t
		err error
	}
	a, answered := awake.Call(openTime, func() (a asked) {
		a.err = unix.Statfs(s.Dir, &a.is)
		return a
	})
	if !answered {
		a.err = &fs.PathError{Op: "statfs", Path: s.Dir, Err: ErrSilent}
	}
	return float64(a.is.Bavail) * float64(a.is.Bsize), a.err
}

func (s *Shared) write(ctx context.Context, r *job.DirTrial) error {
	free, err := s.free()
	if err != nil {
		r.Fix = "mount it on every host, or name another directory"
		return err
	}
	if need := float64(s.Size) * float64(s.Hosts); need > least*free {
		r.Fix = "free some, or write less: --shared-size"
		return fmt.Errorf("%d MiB of %d hosts would take more than %d %% of what is free, %.0f MiB", s.Size>>20, s.Hosts, int(least*100), free/(1<<20))
	}
	dir, err := s.open()
	if err != nil {
		r.Fix = "mount it so that the ranks' user may write there"
		return err
	}
	defer dir.Close()
	if r.SmallNS, err = small(dir, s.Host); err != nil {
		return err
	}
	if r.WriteNS, err = s.large(ctx, dir); err != nil {
		return err
	}
	r.Size = s.Size
	for _, name := range []string{"lock-", "turn-"} {
		if err := put(dir, fmt.Sprint(name, s.Host), nil); err != nil {
			return err
		}
	}
	return put(dir, fmt.Sprint("mark-", s.Host), s.mark(s.Host))
}

func (s *Shared) mark(host int) []byte { return fmt.Appendf(nil, "%s %d\n", s.Token, host) }

// put writes a new file to the storage.
func put(dir *os.Root, name string, text []byte) error {
	f, err := dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Sync(), f.Close())
}

// opened is a file that a host, or who poses as one, has made: a regular one under one name. No pipe is waited for.
func opened(dir *os.Root, name string, how int) (*os.File, error) {
	f, err := dir.OpenFile(name, how|unix.O_NONBLOCK|unix.O_NOCTTY, 0o600)
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err = unix.Fstat(int(f.Fd()), &st); err == nil && (st.Mode&unix.S_IFMT != unix.S_IFREG || st.Nlink > 1) {
		err = errors.New("it is not the regular file of one name that this trial makes: somebody else writes to its directory")
	}
	if err != nil {
		f.Close()
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return f, nil
}

// says is what a short file says.
func says(dir *os.Root, name string) (string, error) {
	f, err := opened(dir, name, os.O_RDONLY)
	if err != nil {
		return "", err
	}
	defer f.Close()
	const most = 100 // bytes; a mark is the longest
	text, err := bounded.Read(f, most)
	return string(text), err
}

// small is the median time of a small file's life.
func small(dir *os.Root, host int) (int64, error) {
	var took []int64
	text := bytes.Repeat([]byte{'m'}, smallSize)
	for i := range smallFiles {
		name, begun := fmt.Sprintf("small-%d-%d", host, i), time.Now()
		if err := errors.Join(put(dir, name, text), dir.Remove(name)); err != nil {
			return 0, err
		}
		took = append(took, time.Since(begun).Nanoseconds())
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}

// content is a host's data from an offset on, in whole blocks: bytes that do not compress, and differ with host and block.
type content struct{ base [block]byte }

func newContent() *content {
	c := &content{}
	rand.NewChaCha8([32]byte{}).Read(c.base[:]) // the same on all hosts; never fails
	return c
}

// at is block n of a host. It is good until the next call.
func (c *content) at(host int, n int64) []byte {
	copy(c.base[:16], fmt.Sprintf("%-6d%-10d", host, n))
	return c.base[:]
}

func (s *Shared) large(ctx context.Context, dir *os.Root) (int64, error) {
	f, err := dir.OpenFile(fmt.Sprint("data-", s.Host), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, err
	}
	c, begun := newContent(), time.Now()
	for n, left := int64(0), s.Size; left > 0 && err == nil; n++ {
		b := c.at(s.Host, n)[:min(left, block)]
		left -= int64(len(b))
		if _, err = f.Write(b); err == nil {
			err = ctx.Err()
		}
	}
	err = errors.Join(err, f.Sync(), f.Close())
	return time.Since(begun).Nanoseconds(), err
}

func (s *Shared) read(ctx context.Context, r *job.DirTrial) error {
	dir, err := s.open()
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := s.marks(ctx, dir, r); err != nil {
		return err
	}
	next := (s.Host + 1) % s.Hosts
	if !slices.Contains(r.Missing, next) {
		return s.compare(ctx, dir, next, r)
	}
	return nil
}

// marks looks for the file of every host, for as long as the patience lasts: file systems may show new names late.
func (s *Shared) marks(ctx context.Context, dir *os.Root, r *job.DirTrial) error {
	left := make([]int, s.Hosts)
	for i := range left {
		left[i] = i
	}
	begun := time.Now()
	s.wait(ctx, 50*time.Millisecond, func() (done bool) {
		left = slices.DeleteFunc(left, func(host int) bool {
			text, err := says(dir, fmt.Sprint("mark-", host))
			return err == nil && text == string(s.mark(host))
		})
		return len(left) == 0
	})
	r.LateNS, r.Missing = time.Since(begun).Nanoseconds(), left
	return ctx.Err()
}

// wait tries again and again until it is done, which it returns, or the patience has ended.
func (s *Shared) wait(ctx context.Context, pause time.Duration, try func() (done bool)) bool {
	late, cancel := awake.Within(ctx, s.Patience)
	defer cancel()
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for !try() {
		if late.Err() != nil {
			return false
		}
		select {
		case <-tick.C:
		case <-late.Done():
		}
	}
	return true
}

// compare reads another host's file.
func (s *Shared) compare(ctx context.Context, dir *os.Root, host int, r *job.DirTrial) error {
	f, err := opened(dir, fmt.Sprint("data-", host), os.O_RDONLY)
	if err != nil {
		return err
	}
	defer f.Close()
	c, got, begun := newContent(), make([]byte, block), time.Now()
	for n, left := int64(0), s.Size; left > 0; n++ {
		want := c.at(host, n)[:min(left, block)]
		left -= int64(len(want))
		k, err := io.ReadFull(f, got[:len(want)])
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return err
		}
		r.Wrong += int64(len(want) - k)
		if !bytes.Equal(got[:k], want[:k]) {
			for i := range k {
				if got[i] != want[i] {
					r.Wrong++
				}
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	r.ReadNS = time.Since(begun).Nanoseconds()
	return nil
}

func (s *Shared) clean(_ context.Context, r *job.DirTrial) error {
	dir, err := s.top()
	if errors.Is(err, fs.ErrNotExist) {
		return nil // so nothing was written
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	if f, err := opened(dir, s.own()+"/counter", os.O_RDONLY); err == nil {
		r.Count, err = count(f)
		f.Close()
		if err != nil {
			r.Count = 0
		}
	}
	return dir.RemoveAll(s.own())
}
