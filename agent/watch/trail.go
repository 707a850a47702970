package watch

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mpiup/mpiup/agent/host"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/awake"
	"github.com/mpiup/mpiup/internal/bounded"
)

// ProgressVariable names the file to which a rank may append lines on how far it is (docs/progress.md).
const ProgressVariable = "MPIUP_PROGRESS"

// Trails are those files of one job's ranks on this host. A rank writes and is never waited for; the agent reads behind it. A nil Trails has none.
//
// The directory is held open, and no link in it is followed. A file system that does not answer keeps one goroutine, and no rank's end waits for it
// longer than lastTime.
type Trails struct {
	dir  *bounded.Dir
	turn chan struct{} // held by who reads a file and hands on what is new, so that lines go in their order
	asks chan struct{} // held by who asks the file system; guards what a trail has

	mu sync.Mutex
	of map[uint32]*trail // by id, guarded by mu
}

// trail is one rank's file. Whatever the rank makes of it, a look reads at most maxLook bytes, and what has been read takes no room.
type trail struct {
	dir     *bounded.Dir
	name    string
	inode   uint64
	at      int64  // what is before it has been read
	punched int64  // what is before it takes no room
	rest    []byte // of a line that is not whole yet
	torn    bool   // the beginning of the next line was left out
}

// Bounds of a look at a file, in bytes.
const (
	maxLook = 64 << 10 // read at once
	behind  = 1 << 20  // more of it unread: only the newest maxLook are
	maxRest = 4 << 10  // of a line
)

// NewTrails makes a place for the files in the session's directory; nil: there is no such place.
func NewTrails(h *host.Host, session string, number uint32, notice Notice) *Trails {
	dir, _ := h.SessionDir(session)
	held, answered := awake.Call(dirTime, func() *bounded.Dir {
		if dir == "" {
			return nil
		}
		return makeDir(filepath.Join(dir, fmt.Sprint("progress-", number)))
	})
	if !answered || held == nil {
		notice(true, "--watch: ranks have no $%s here: no directory can be written to; give the agent a writable TMPDIR, as an emptyDir", ProgressVariable)
		return nil
	}
	return &Trails{dir: held, turn: make(chan struct{}, 1), asks: make(chan struct{}, 1), of: map[uint32]*trail{}}
}

// Bounds of what may not answer.
const (
	dirTime  = 5 * time.Second
	lastTime = time.Second
)

// makeDir makes a directory and holds it; nil: it cannot be had.
func makeDir(path string) *bounded.Dir {
	if os.MkdirAll(path, 0o700) != nil {
		return nil
	}
	dir, err := bounded.HoldDir(path)
	if err != nil {
		return nil
	}
	return dir
}

// Environment adds to a rank's environment where its file is to be.
func (t *Trails) Environment(id uint32, env []string) []string {
	if t == nil {
		return env
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	file := &trail{dir: t.dir, name: fmt.Sprint(id)}
	t.of[id] = file
	return append(env[:len(env):len(env)], ProgressVariable+"="+filepath.Join(t.dir.Name(), file.name))
}

// Tell hands on now and then the lines that ranks have written, until ctx ends.
func (t *Trails) Tell(ctx context.Context, every time.Duration, send func(*apiv1.Frame)) {
	tick := time.NewTicker(max(every, minTrail))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		t.mu.Lock()
		of := maps.Clone(t.of)
		t.mu.Unlock()
		for id, file := range of {
			t.send(ctx, id, file, send)
		}
	}
}

// send hands on what a rank has written since the last look, if that can be read until ctx ends.
func (t *Trails) send(ctx context.Context, id uint32, file *trail, send func(*apiv1.Frame)) {
	select {
	case t.turn <- struct{}{}:
		defer func() { <-t.turn }()
	case <-ctx.Done():
		return
	}
	if lines, _ := awake.InTurn(ctx, t.asks, file.next); len(lines) > 0 {
		send((&apiv1.Progress{Rank: id, Data: lines}).Frame())
	}
}

// minTrail is the least time between two looks.
const minTrail = 200 * time.Millisecond

// Last is what a rank that has ended wrote since the last look.
func (t *Trails) Last(id uint32, send func(*apiv1.Frame)) {
	if t == nil {
		return
	}
	t.mu.Lock()
	file := t.of[id]
	delete(t.of, id)
	t.mu.Unlock()
	if file != nil {
		ctx, cancel := awake.Within(context.Background(), lastTime)
		defer cancel()
		t.send(ctx, id, file, send)
	}
}

// Close removes the files; those of a directory that does not answer stay.
func (t *Trails) Close() {
	if t != nil {
		_, _ = awake.Call(dirTime, func() error { return os.RemoveAll(t.dir.Name()) })
		t.dir.Close()
	}
}

// next are the whole lines that were written since the last look. A file that is another one, or shorter than it was, is read from its beginning;
// one that is no file is not read.
func (t *trail) next() []byte {
	is, ok := fileStat(t.dir.Lstat(t.name))
	if !ok {
		return nil
	}
	if is.Ino != t.inode || is.Size < t.at {
		*t = trail{dir: t.dir, name: t.name, inode: is.Ino}
	}
	if is.Size == t.at {
		return nil
	}
	f, err := t.dir.Change(t.name)
	if err != nil {
		return nil
	}
	defer f.Close()
	if is, ok = fileStat(f.Stat()); !ok || is.Ino != t.inode || is.Size <= t.at {
		return nil // it was changed meanwhile
	}
	if is.Size-t.at > behind {
		t.at, t.rest, t.torn = is.Size-maxLook, nil, true
	}
	piece := make([]byte, min(is.Size-t.at, maxLook))
	n, _ := f.ReadAt(piece, t.at)
	if n <= 0 {
		return nil
	}
	t.at += int64(n)
	if t.at-t.punched > behind && unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, t.at) == nil {
		t.punched = t.at
	}
	return t.lines(piece[:n])
}

// fileStat is what a file is of which there is one name; another name may be of a file that is not for us to shorten.
func fileStat(info fs.FileInfo, err error) (st *syscall.Stat_t, ok bool) {
	if err != nil || !info.Mode().IsRegular() {
		return nil, false
	}
	st, ok = info.Sys().(*syscall.Stat_t)
	return st, ok && st.Nlink == 1
}

// lines takes what was read, and returns what is whole of it.
func (t *trail) lines(piece []byte) []byte {
	all := append(t.rest, piece...)
	end := bytes.LastIndexByte(all, '\n') + 1
	whole := all[:end]
	t.rest = bytes.Clone(all[end:])
	if t.torn && end > 0 {
		whole = whole[bytes.IndexByte(whole, '\n')+1:]
		t.torn = false
	}
	if len(t.rest) > maxRest {
		t.rest, t.torn = nil, true
	}
	return whole
}
