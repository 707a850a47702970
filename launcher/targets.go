package launcher

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mpiup/mpiup/internal/hostlist"
	"github.com/mpiup/mpiup/pmi/spawn"
	"golang.org/x/sys/unix"
)

// target is a host that a program may use, as the request named it.
type target struct {
	name  string
	slots int // 0: the host's own
}

// ofFiles tells whether programs name hostfiles.
func ofFiles(programs []spawn.Program) bool {
	return slices.ContainsFunc(programs, func(p spawn.Program) bool { return p.Hostfile+p.AddHostfile != "" })
}

// readTargets reads the host lists of an ask, those in files aside.
func (r *run) readTargets(a *ask) (waits bool, err error) {
	if !ofFiles(a.request.Programs) {
		a.read = true
		a.targets, err = targetsOf(a.request.Programs, "")
		if err != nil {
			return false, err
		}
		return r.advance(a)
	}
	if r.cfg.SpawnFiles == "" {
		return false, errors.New("the launcher reads no hostfiles for ranks; the user allows those of a directory with --spawn-hostfiles or MPIUP_SPAWN_HOSTFILES")
	}
	r.aside(func(context.Context) {
		targets, err := targetsOf(a.request.Programs, r.cfg.SpawnFiles)
		r.mail.put(event{host: -1, do: func() {
			if err != nil {
				r.endAsk(err)
				return
			}
			a.targets, a.read = targets, true
			r.serveAsks()
		}})
	})
	return true, nil
}

// targetsOf is what programs say of where they may run; none for one that says nothing. Hosts to
// be added are hosts to be used, as with Open MPI. Hostfiles are those below dir.
func targetsOf(programs []spawn.Program, dir string) ([][]target, error) {
	targets := make([][]target, len(programs))
	for i, p := range programs {
		for _, text := range slices.Concat(p.Hosts, p.AddHosts) {
			for one := range strings.SplitSeq(text, ",") {
				entries, err := hostlist.ParseList(one)
				if err != nil {
					return nil, err
				}
				targets[i] = appendTargets(targets[i], entries)
			}
		}
		for _, path := range []string{p.Hostfile, p.AddHostfile} {
			if path == "" {
				continue
			}
			entries, err := readHostfile(dir, path)
			if err != nil {
				return nil, err
			}
			targets[i] = appendTargets(targets[i], entries)
		}
	}
	return targets, nil
}

// appendTargets adds hosts. One that is named again gets a slot for each time.
func appendTargets(to []target, entries []hostlist.Entry) []target {
	for _, e := range entries {
		i := slices.IndexFunc(to, func(t target) bool { return strings.EqualFold(t.name, e.Name) })
		if i < 0 {
			to = append(to, target{name: e.Name, slots: e.Slots})
			continue
		}
		to[i].slots = max(to[i].slots, 1) + max(e.Slots, 1)
	}
	return to
}

// readHostfile reads a file that a rank named: one below dir, which the user named, whatever links lie there. Only a
// regular file is read: others may never end. No error has a word of what is in it: a rank may name a file that it
// cannot read itself.
func readHostfile(dir, path string) ([]hostlist.Entry, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("--spawn-hostfiles %s: %w", dir, errnoOf(err))
	}
	defer root.Close()
	name := path
	if filepath.IsAbs(path) {
		base, err := filepath.Abs(dir)
		if err != nil {
			return nil, err
		}
		if name, err = filepath.Rel(base, path); err != nil {
			return nil, err
		}
	}
	f, err := root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0) // a pipe without a writer must not hold us
	if err != nil {
		return nil, fmt.Errorf("hostfile %.200q is not to be had below %s (--spawn-hostfiles): %w", path, dir, errnoOf(err))
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, fmt.Errorf("hostfile %.200q below %s is no regular file", path, dir)
	}
	entries, err := hostlist.ParseFile(f, path)
	var line *hostlist.LineError
	switch {
	case errors.As(err, &line):
		return nil, fmt.Errorf("hostfile %.200q below %s: line %d is none of a hostfile", path, dir, line.Line)
	case err != nil:
		return nil, fmt.Errorf("hostfile %.200q below %s cannot be read as one", path, dir)
	}
	return entries, nil
}

// errnoOf drops the path that os repeats.
func errnoOf(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}
