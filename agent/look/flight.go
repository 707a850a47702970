package look

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mpiup/mpiup/internal/awake"
	"github.com/mpiup/mpiup/internal/bounded"
)

// Bounds.
const (
	maxFile  = 16 << 20
	maxFiles = 256     // processes of a host
	maxTold  = 4 << 20 // bytes of what is told of one host; launchers take twice that
	poll     = 50 * time.Millisecond
)

// Recorder collects, in the directory of one job's dumps, what torch's flight recorder knows of a job's processes here: which collectives each has called, and
// which of them have ended. So a run that hangs or timed out in NCCL can tell which rank was absent.
//
//	Variables of ranks (internal/frameworks) name Prefix and Pipe
//	watchdog of NCCL, at a time-out ──writes──▶ PREFIX0, PREFIX1 ...  ──News──▶ Record of each
//	Ask ──a byte to PIPE0.pipe ...──▶ torch's monitor ──writes──▶ the same   (looks once a second)
//
// The files are written by ranks, which may be anything: names, sizes and contents are bounded, the directory is held open and no link in it is followed,
// and unpickle runs nothing. A file system that does not answer keeps one goroutine, and nobody waits for that beyond ctx. A dump is read whole and let go before the next one is; what reading one costs is bounded by its size
// (TestDumpsThatCost), and no text of it is made before it is known that it stays.
//
// A Recorder may be used by several goroutines: one reads at a time, and who waits for it waits no longer than its ctx. Ask blocks until
// the dumps are there, or ctx ends.
type Recorder struct {
	dir   *bounded.Dir
	ranks int           // of torch's, at most
	asks  chan struct{} // held by who asks the file system

	turn chan struct{} // held by who collects dumps: one does at a time, and guards what is below
	read map[string]stamp
	told map[int]int // bytes, by rank
}

// stamp tells one state of a file from the next.
type stamp struct {
	at   time.Time
	size int64
}

// dirTime is how long the making and removing of a directory may take.
const dirTime = 5 * time.Second

// NewRecorder makes the directory, for processes that torch counts below ranks.
func NewRecorder(path string, ranks int) (*Recorder, error) {
	r := &Recorder{ranks: ranks, asks: make(chan struct{}, 1), turn: make(chan struct{}, 1), read: map[string]stamp{}, told: map[int]int{}}
	type made struct {
		dir *bounded.Dir
		err error
	}
	is, answered := awake.Call(dirTime, func() (m made) {
		if m.err = os.MkdirAll(path, 0o700); m.err == nil {
			m.dir, m.err = bounded.HoldDir(path)
		}
		return m
	})
	if !answered {
		return nil, fmt.Errorf("%s: its file system does not answer", path)
	}
	r.dir = is.dir
	return r, is.err
}

const dumpName, pipeName = "rank_", "ask_"

// Prefix is the path of dumps without the rank.
func (r *Recorder) Prefix() string { return filepath.Join(r.dir.Name(), dumpName) }

// Pipe is the path of the pipes by which dumps are asked for, without the rank and ".pipe".
func (r *Recorder) Pipe() string { return filepath.Join(r.dir.Name(), pipeName) }

// Remove removes the directory; one that does not answer stays.
func (r *Recorder) Remove() {
	_, _ = awake.Call(dirTime, func() error { return os.RemoveAll(r.dir.Name()) })
	r.dir.Close()
}

// News calls take with each dump that was written since the last call and can be read, one after the other, until ctx ends. A dump that is
// being written is none yet: it comes with a later call, and so does one for which there was no time.
func (r *Recorder) News(ctx context.Context, take func(Record)) {
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return
	}
	names, _ := awake.InTurn(ctx, r.asks, func() []string { return r.names(dumpName, "") })
	for _, name := range names {
		rank, err := strconv.Atoi(name[len(dumpName):])
		if err != nil || rank < 0 || rank >= r.ranks {
			continue
		}
		before := r.read[name]
		f, answered := awake.InTurn(ctx, r.asks, func() dumpFile { return r.file(name, before) })
		if !answered {
			return
		}
		if f.err != nil || f.is == before {
			continue
		}
		if rec, err := parseRecord(rank, r.ranks, f.text); err == nil {
			r.read[name] = f.is
			if r.room(&rec) {
				take(rec)
			}
		}
	}
}

// room says whether what is told of this host has room for a record, and counts it.
func (r *Recorder) room(rec *Record) bool {
	n, all := rec.Bytes(), 0
	for _, told := range r.told {
		all += told
	}
	if all-r.told[rec.Rank]+n > maxTold {
		return false
	}
	r.told[rec.Rank] = n
	return true
}

// names are the files here that begin and end so.
func (r *Recorder) names(begin, end string) (list []string) {
	for _, name := range r.dir.Names(4 * maxFiles) {
		if strings.HasPrefix(name, begin) && strings.HasSuffix(name, end) && len(list) < maxFiles {
			list = append(list, name)
		}
	}
	slices.SortFunc(list, func(a, b string) int { return cmp.Or(len(a)-len(b), cmp.Compare(a, b)) })
	return list
}

// dumpFile is a dump as it was read.
type dumpFile struct {
	text []byte
	is   stamp
	err  error
}

// file reads one, if it is not as it was before.
func (r *Recorder) file(name string, before stamp) (d dumpFile) {
	f, err := r.dir.Open(name)
	if err != nil {
		return dumpFile{err: err}
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil || fi.Size() > maxFile {
		return dumpFile{err: os.ErrInvalid}
	}
	if d.is = (stamp{fi.ModTime(), fi.Size()}); d.is != before {
		d.text, d.err = io.ReadAll(io.LimitReader(f, maxFile))
	}
	return d
}

// Ask asks the processes for dumps, and calls take with all that News then has: until each that was asked has answered, or ctx ends.
func (r *Recorder) Ask(ctx context.Context, take func(Record)) {
	wanted, _ := awake.InTurn(ctx, r.asks, func() map[int]bool {
		asked := map[int]bool{}
		for _, name := range r.names(pipeName, ".pipe") {
			rank, err := strconv.Atoi(strings.TrimSuffix(name[len(pipeName):], ".pipe"))
			if err == nil && r.push(name) {
				asked[rank] = true
			}
		}
		return asked
	})
	t := time.NewTicker(poll)
	defer t.Stop()
	for {
		r.News(ctx, func(rec Record) {
			delete(wanted, rec.Rank)
			take(rec)
		})
		if len(wanted) == 0 {
			return
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
	}
}

// push writes a byte to a pipe, if somebody reads it.
func (r *Recorder) push(name string) bool {
	f, err := r.dir.Pipe(name)
	if err != nil {
		return false
	}
	defer f.Close()
	conn, err := f.SyscallConn()
	if err != nil {
		return false
	}
	var failed error
	err = conn.Control(func(fd uintptr) { _, failed = unix.Write(int(fd), []byte("1\n")) }) // a full one is not waited for, as f.Write would
	return err == nil && failed == nil
}
