package reap

import (
	"context"
	"fmt"
	"strings"
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
		return resolve(prog, cmd.Dir, pathEnv)
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
		e := timeoutError(prog, s.cfg.SpawnDeadline)
		if cmd.Dir != "" { // which of the two it is only a stuck call could tell
			e.Cause = "the file system of the program or of its working directory " + cmd.Dir +
				strings.TrimPrefix(e.Cause, "the file system")
		}
		return "", e
	}
}

// resolve touches every file that the fork will touch.
func resolve(prog, dir, pathEnv string) (string, error) {
	if dir != "" {
		if err := checkDir(dir); err != nil {
			return "", err
		}
	}
	path, err := LookPath(prog, dir, pathEnv)
	if err != nil {
		return "", err
	}
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
	}
	return path, nil
}
