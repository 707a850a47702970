package program

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/mpiup/mpiup/internal/awake"
)

// maxLooks bounds the goroutines, each with a thread, that dead mounts keep.
const maxLooks = 256

// Finder finds programs on file systems that may not answer. The zero Finder is ready.
type Finder struct {
	looks   singleflight.Group
	places  sync.Map     // by a look's key, where it is: *atomic.Pointer[place]
	looking atomic.Int32 // looks under way or stuck
}

// Find finds prog as execvp(3) does for a process in dir whose PATH is pathEnv, and looks whether it can be started
// there. A dead mount keeps the goroutine that looks; calls for the same thing share it. The error is an *Error, ctx's cause,
// or after patience one that names the file system that did not answer.
func (f *Finder) Find(ctx context.Context, prog, dir, pathEnv string, patience time.Duration) (string, error) {
	key := strings.Join([]string{prog, dir, pathEnv}, "\x00")
	if f.looking.Load() >= maxLooks {
		return "", &Error{Phase: PhaseTimeout, Path: prog, Errno: syscall.ETIMEDOUT,
			Cause: fmt.Sprintf("%d programs are on file systems that do not answer", maxLooks), Hint: "check this host's mounts"}
	}
	ch := f.looks.DoChan(key, func() (any, error) {
		f.looking.Add(1)
		defer f.looking.Add(-1)
		var at atomic.Pointer[place]
		f.places.Store(key, &at)
		defer f.places.Delete(key)
		return resolve(prog, dir, pathEnv, func(p place) { at.Store(&p) })
	})
	late := make(chan struct{})
	defer awake.After(patience, func() { close(late) })()
	select {
	case r := <-ch:
		if r.Err != nil {
			return "", r.Err
		}
		return r.Val.(string), nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	case <-late:
		return "", f.stuck(key, prog, patience)
	}
}

// place is what a look has asked a file system for last: the one that does not answer, if it does not end.
type place struct {
	path string
	is   string // what it is to the program; "" for the program itself
	fix  string // what else can be done; ""
}

// stuck says which of the many files that a look asks for does not answer.
func (f *Finder) stuck(key, prog string, patience time.Duration) *Error {
	at := place{path: prog}
	if v, ok := f.places.Load(key); ok {
		if p := v.(*atomic.Pointer[place]).Load(); p != nil {
			at = *p
		}
	}
	e := TimedOut(at.path, patience)
	if at.is != "" {
		e.Cause = "the file system of " + at.is + strings.TrimPrefix(e.Cause, "the file system")
	}
	e.Hint += at.fix
	return e
}

// resolve touches every file that the fork will touch, and says before each which it is.
func resolve(prog, dir, pathEnv string, asks func(place)) (string, error) {
	if dir != "" {
		asks(place{path: dir, is: "the working directory"})
		if err := checkDir(dir); err != nil {
			return "", err
		}
	}
	path, err := lookPath(prog, dir, pathEnv, func(entry string) {
		asks(place{entry, "this directory of PATH, where " + prog + " is looked for,", ", or take the directory off PATH"})
	})
	if err != nil {
		return "", interpreted(prog, err)
	}
	asks(place{path: path})
	if err := checkAccess(path); err != nil {
		return "", interpreted(prog, err)
	}
	// Interpreters and loaders may lie on other mounts.
	next := path
	for range maxInterpreters + 1 {
		head, err := readHead(next)
		if err != nil {
			break
		}
		if next = readImage(head).interp; next == "" {
			break
		}
		asks(place{path: next, is: "the interpreter or loader of " + path})
	}
	return path, nil
}
