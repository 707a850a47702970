package spawn

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/mpiup/mpiup/internal/hostlist"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher/placement"
)

// OfFiles tells whether the request names hostfiles.
func (a *Ask) OfFiles() bool {
	return slices.ContainsFunc(a.Request.Programs, func(p job.SpawnProgram) bool { return p.Hostfile+p.AddHostfile != "" })
}

// Targets is what programs say of where they may run; none for one that says nothing. Hosts to
// be added are hosts to be used, as with Open MPI. read reads a hostfile.
func Targets(programs []job.SpawnProgram, read func(file string) ([]hostlist.Entry, error)) ([][]job.Share, error) {
	targets := make([][]job.Share, len(programs))
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
		for _, file := range []string{p.Hostfile, p.AddHostfile} {
			if file == "" {
				continue
			}
			entries, err := read(file)
			if err != nil {
				return nil, err
			}
			targets[i] = appendTargets(targets[i], entries)
		}
	}
	return targets, nil
}

// appendTargets adds hosts. One that is named again gets a slot for each time.
func appendTargets(to []job.Share, entries []hostlist.Entry) []job.Share {
	for _, e := range entries {
		i := slices.IndexFunc(to, func(t job.Share) bool { return strings.EqualFold(t.Host, e.Name) })
		if i < 0 {
			to = append(to, job.Share{Host: e.Name, Slots: e.Slots})
			continue
		}
		to[i].Slots = max(to[i].Slots, 1) + max(e.Slots, 1)
	}
	return to
}

// mapBy reads "slot", "node", "ppr:N:node" or nothing.
func mapBy(b *placement.Batch, text string) error {
	text = strings.ToLower(text)
	if count, ok := strings.CutPrefix(text, "ppr:"); ok {
		if count, ok = strings.CutSuffix(count, ":node"); ok {
			if n, err := strconv.Atoi(count); err == nil && n > 0 {
				b.PerHost = n
				return nil
			}
		}
	}
	switch by := placement.MapBy(text); by {
	case "", placement.BySlot, placement.ByNode:
		b.MapBy = by
		return nil
	}
	return fmt.Errorf("mapping by %.100q is not known; use slot, node or ppr:N:node", text)
}

// Programs are those of the request with what they have from the program that asked: what was exported on the command
// line, and its working directory.
func (a *Ask) Programs(parent job.App, exports []string) (apps []job.App) {
	for _, p := range a.Request.Programs {
		app := job.App{Argv: p.Argv, N: p.Procs, Wdir: parent.Wdir, WdirExplicit: parent.WdirExplicit, AlsoWdir: p.AlsoDir}
		if p.Dir != "" {
			if app.WdirExplicit = true; !filepath.IsAbs(p.Dir) && app.Wdir != "" {
				p.Dir = filepath.Join(app.Wdir, p.Dir)
			}
			app.Wdir = p.Dir
		}
		app.Env = slices.Concat(exports, p.Env)
		apps = append(apps, app)
	}
	return apps
}
