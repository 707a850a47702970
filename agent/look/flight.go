package look

import (
	"cmp"
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

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
// The files are written by ranks, which may be anything: names, sizes and contents are bounded, links are not followed,
// and unpickle runs nothing. A dump is read whole and let go before the next one is; what reading one costs is bounded by its size
// (TestDumpsThatCost), and no text of it is made before it is known that it stays.
//
// A Recorder may be used by several goroutines: one reads at a time, and who waits for it waits no longer than its ctx. Ask blocks until
// the dumps are there, or ctx ends.
type Recorder struct {
	dir   string
	ranks int // of torch's, at most

	turn chan struct{} // held by who reads: one does at a time, and guards what is below
	read map[string]stamp
	told map[int]int // bytes, by rank
}

// stamp tells one state of a file from the next.
type stamp struct {
	at   time.Time
	size int64
}

// NewRecorder makes the directory, for processes that torch counts below ranks.
func NewRecorder(dir string, ranks int) (*Recorder, error) {
	return &Recorder{dir: dir, ranks: ranks, turn: make(chan struct{}, 1), read: map[string]stamp{}, told: map[int]int{}}, os.MkdirAll(dir, 0o700)
}

const dumpName, pipeName = "rank_", "ask_"

// Prefix is the path of dumps without the rank.
func (r *Recorder) Prefix() string { return filepath.Join(r.dir, dumpName) }

// Pipe is the path of the pipes by which dumps are asked for, without the rank and ".pipe".
func (r *Recorder) Pipe() string { return filepath.Join(r.dir, pipeName) }

// Remove removes the directory.
func (r *Recorder) Remove() { os.RemoveAll(r.dir) }

// News calls take with each dump that was written since the last call and can be read, one after the other, until ctx ends. A dump that is
// being written is none yet: it comes with a later call, and so does one for which there was no time.
func (r *Recorder) News(ctx context.Context, take func(Record)) {
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return
	}
	for _, name := range r.names(dumpName, "") {
		rank, err := strconv.Atoi(name[len(dumpName):])
		if err != nil || rank < 0 || rank >= r.ranks {
			continue
		}
		if ctx.Err() != nil {
			return
		}
		text, is, err := r.file(name)
		if err != nil || is == r.read[name] {
			continue
		}
		if rec, err := parseRecord(rank, r.ranks, text); err == nil {
			r.read[name] = is
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
	for _, name := range bounded.Names(r.dir, 4*maxFiles) {
		if strings.HasPrefix(name, begin) && strings.HasSuffix(name, end) && len(list) < maxFiles {
			list = append(list, name)
		}
	}
	slices.SortFunc(list, func(a, b string) int { return cmp.Or(len(a)-len(b), cmp.Compare(a, b)) })
	return list
}

func (r *Recorder) file(name string) (text []byte, is stamp, err error) {
	f, err := os.OpenFile(filepath.Join(r.dir, name), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, is, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil || !fi.Mode().IsRegular() || fi.Size() > maxFile {
		return nil, is, os.ErrInvalid
	}
	is = stamp{fi.ModTime(), fi.Size()}
	if is == r.read[name] {
		return nil, is, nil
	}
	text, err = io.ReadAll(io.LimitReader(f, maxFile))
	return text, is, err
}

// Ask asks the processes for dumps, and calls take with all that News then has: until each that was asked has answered, or ctx ends.
func (r *Recorder) Ask(ctx context.Context, take func(Record)) {
	wanted := map[int]bool{}
	for _, name := range r.names(pipeName, ".pipe") {
		rank, err := strconv.Atoi(strings.TrimSuffix(name[len(pipeName):], ".pipe"))
		if err == nil && push(filepath.Join(r.dir, name)) {
			wanted[rank] = true
		}
	}
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
func push(path string) bool {
	f, err := os.OpenFile(path, os.O_WRONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil || fi.Mode().Type() != os.ModeNamedPipe {
		return false
	}
	_, err = f.Write([]byte("1\n"))
	return err == nil
}
