package watch

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mpiup/mpiup/agent/host"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
)

// ProgressVariable names the file to which a rank may append lines on how far it is (docs/progress.md).
const ProgressVariable = "MPIUP_PROGRESS"

// Trails are those files of one job's ranks on this host. A rank writes and is never waited for; the agent reads behind it. A nil Trails has none.
type Trails struct {
	dir string

	mu sync.Mutex
	of map[uint32]*trail // by id, guarded by mu
}

// trail is one rank's file. Whatever the rank makes of it, a look reads at most maxLook bytes, and what has been read takes no room.
type trail struct {
	path    string
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
	t := &Trails{dir: filepath.Join(dir, fmt.Sprint("progress-", number)), of: map[uint32]*trail{}}
	if dir == "" || os.MkdirAll(t.dir, 0o700) != nil {
		notice(true, "--watch: ranks have no $%s here: no directory can be written to; give the agent a writable TMPDIR, as an emptyDir", ProgressVariable)
		return nil
	}
	return t
}

// Environment adds to a rank's environment where its file is to be.
func (t *Trails) Environment(id uint32, env []string) []string {
	if t == nil {
		return env
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.of[id] = &trail{path: filepath.Join(t.dir, fmt.Sprint(id))}
	return append(env[:len(env):len(env)], ProgressVariable+"="+t.of[id].path)
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
		for id, file := range t.of {
			if lines := file.next(); len(lines) > 0 {
				send((&apiv1.Progress{Rank: id, Data: lines}).Frame())
			}
		}
		t.mu.Unlock()
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
	defer t.mu.Unlock()
	if file := t.of[id]; file != nil {
		delete(t.of, id)
		if lines := file.next(); len(lines) > 0 {
			send((&apiv1.Progress{Rank: id, Data: lines}).Frame())
		}
	}
}

// Close removes the files.
func (t *Trails) Close() {
	if t != nil {
		os.RemoveAll(t.dir)
	}
}

// next are the whole lines that were written since the last look. A file that is another one, or shorter than it was, is read from its beginning;
// one that is no file is not read.
func (t *trail) next() []byte {
	var is unix.Stat_t
	if unix.Lstat(t.path, &is) != nil || is.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil
	}
	if is.Ino != t.inode || is.Size < t.at {
		*t = trail{path: t.path, inode: is.Ino}
	}
	if is.Size == t.at {
		return nil
	}
	fd, err := unix.Open(t.path, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	if unix.Fstat(fd, &is) != nil || is.Mode&unix.S_IFMT != unix.S_IFREG || is.Ino != t.inode || is.Size <= t.at {
		return nil // it was changed meanwhile
	}
	if is.Size-t.at > behind {
		t.at, t.rest, t.torn = is.Size-maxLook, nil, true
	}
	piece := make([]byte, min(is.Size-t.at, maxLook))
	n, err := unix.Pread(fd, piece, t.at)
	if n <= 0 || err != nil {
		return nil
	}
	t.at += int64(n)
	if t.at-t.punched > behind && unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, t.at) == nil {
		t.punched = t.at
	}
	return t.lines(piece[:n])
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
