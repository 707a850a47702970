package main

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"syscall"
	"time"

	"github.com/mpiup/mpiup/agent/reap/program"
)

// lookPatience bounds a look at PATH, whose directories may be on a mount that does not answer.
const lookPatience = 2 * time.Second

// lookPath finds programs on this process's PATH, and then in dir. The error is fs.ErrNotExist where there is none.
func lookPath(p *process, dir string) func(name string) (string, error) {
	return func(name string) (string, error) {
		return p.programs.Find(context.Background(), name, dir, program.SearchPath("", p.getenv("PATH"), true), lookPatience)
	}
}

// foundOnPath are all programs of a name on PATH, by their absolute paths, in its order. A directory that does not answer is
// named and left out.
func foundOnPath(p *process, name, dir string) (all []string) {
	for _, d := range filepath.SplitList(p.getenv("PATH")) {
		path, err := p.programs.Find(context.Background(), name, dir, cmp.Or(d, "."), lookPatience)
		switch {
		case err == nil:
			all = append(all, path)
		case errors.Is(err, syscall.ETIMEDOUT):
			tell(p.stderr, "mpiup: warning:", err)
		}
	}
	return all
}
