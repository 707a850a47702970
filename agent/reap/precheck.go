package reap

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// maxChecks bounds the goroutines, each with a thread, that dead mounts keep.
const maxChecks = 256

// check resolves the program and looks at it and at the directory, in a goroutine that a dead
// mount may keep; Starts of the same thing share it, so a dead mount keeps one.
func (s *Supervisor) check(ctx context.Context, cmd Command, deadline <-chan time.Time) (string, error) {
	prog := cmd.Path
	if prog == "" {
		prog = cmd.Argv[0]
	}
	pathEnv := ""
	for _, kv := range cmd.Env {
		if v, ok := strings.CutPrefix(kv, "PATH="); ok {
			pathEnv = v
		}
	}
	pathEnv = SearchPath(cmd.Look, pathEnv, cmd.AlsoDir)
	key := strings.Join([]string{prog, cmd.Dir, pathEnv}, "\x00")
	if s.checking.Load() >= maxChecks {
		return "", &StartError{Phase: PhaseTimeout, Path: prog, Errno: syscall.ETIMEDOUT,
			Cause: fmt.Sprintf("%d programs are on file systems that do not answer", maxChecks), Hint: "check this host's mounts"}
	}
	ch := s.checks.DoChan(key, func() (any, error) {
		s.checking.Add(1)
		defer s.checking.Add(-1)
		var at atomic.Pointer[place]
		s.looking.Store(key, &at)
		defer s.looking.Delete(key)
		return resolve(prog, cmd.Dir, pathEnv, func(p place) { at.Store(&p) })
	})
	select {
	case r := <-ch:
		if r.Err != nil {
			return "", r.Err
		}
		return r.Val.(string), nil
	case <-s.ended:
		return "", ErrEnded
	case <-ctx.Done():
		return "", ctx.Err()
	case <-deadline:
		return "", s.stuck(key, prog)
	}
}

// place is what a check has asked a file system for last: the one that does not answer, if it does not end.
type place struct {
	path string
	is   string // what it is to the program; "" for the program itself
	fix  string // what else can be done; ""
}

// stuck says which of the many files that a check asks for does not answer.
func (s *Supervisor) stuck(key, prog string) *StartError {
	at := place{path: prog}
	if v, ok := s.looking.Load(key); ok {
		if p := v.(*atomic.Pointer[place]).Load(); p != nil {
			at = *p
		}
	}
	e := timeoutError(at.path, s.cfg.SpawnDeadline)
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
		return "", err
	}
	asks(place{path: path})
	if err := checkAccess(path); err != nil {
		return "", err
	}
	// Interpreters and loaders may lie on other mounts. Linux follows five (BINPRM rewrites).
	next := path
	for range 6 {
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
