package launcher

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/mpiup/mpiup/internal/hostlist"
	"github.com/mpiup/mpiup/pmi/spawn"
)

// target is a host that a program may use, as the request named it.
type target struct {
	name  string
	slots int // 0: the host's own
}

// readTargets reads the host lists of an ask, those in files aside.
func (r *run) readTargets(a *ask) (waits bool, err error) {
	files := slices.ContainsFunc(a.request.Programs, func(p spawn.Program) bool { return p.Hostfile+p.AddHostfile != "" })
	if !files {
		a.read = true
		a.targets, err = targetsOf(a.request.Programs)
		if err != nil {
			return false, err
		}
		return r.advance(a)
	}
	r.aside(func(context.Context) {
		targets, err := targetsOf(a.request.Programs)
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
// be added are hosts to be used, as with Open MPI.
func targetsOf(programs []spawn.Program) ([][]target, error) {
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
			entries, err := readHostfile(path)
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

// readHostfile reads a file that a rank named. Only a regular one is: others may never end.
func readHostfile(path string) ([]hostlist.Entry, error) {
	info, err := os.Stat(path)
	var pe *fs.PathError
	switch {
	case errors.As(err, &pe):
		return nil, fmt.Errorf("hostfile %s on the launcher's host: %w", path, pe.Err)
	case err != nil:
		return nil, fmt.Errorf("hostfile %s: %w", path, err)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("hostfile %s on the launcher's host is no regular file", path)
	}
	return hostlist.ReadFile(path)
}
