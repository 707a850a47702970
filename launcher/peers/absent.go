package peers

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/launcher/hang"
)

// absence is one run's, as it is printed.
type absence struct {
	Launcher string   `json:"launcher"`
	Job      string   `json:"job"`
	Lines    []string `json:"lines"`
}

// runKey tells a run from others.
type runKey struct{ launcher, job string }

// Bounds of what one host tells of: runs, barriers of all of them, and flight recorders of each.
const (
	maxRuns     = 1024
	maxBarriers = 256
	maxFlights  = 1024
)

// absent joins what hosts have told. all: they were looked for, not named, so that ranks elsewhere are told of.
func absent(list []told, all bool) (lines []absence) {
	runs := map[runKey]*hang.Run{}
	known := make([]map[runKey]bool, len(list)) // by host
	of := func(host int, launcher, job string) *hang.Run {
		k := runKey{word(launcher), word(job)}
		if known[host] == nil {
			known[host] = map[runKey]bool{}
		}
		if len(known[host]) == maxRuns && !known[host][k] {
			return &hang.Run{} // of which nothing is said
		}
		known[host][k] = true
		if runs[k] == nil {
			runs[k] = &hang.Run{}
		}
		return runs[k]
	}
	for i, t := range list {
		for m := range t.ranks() {
			if m.Rank >= maxRanks || m.Id >= maxRanks {
				continue
			}
			run := of(i, m.Launcher, m.Job)
			run.Add(hang.Rank{ID: int(m.Id), Rank: m.Rank, Number: m.Number, Host: t.host, PID: m.Main})
			if call := m.GetWaited().InCall(); call != "" {
				run.In(int(m.Id), call)
			}
			if m.Stack != nil {
				run.Look(t.where(m))
			}
		}
	}
	for i, t := range list {
		barriers := 0
		for _, w := range t.reply.GetWaits()[:min(len(t.reply.GetWaits()), maxRuns)] {
			run := of(i, w.GetLauncher(), w.GetJob())
			size, here := placed(w)
			if all {
				run.Place(size, here)
			}
			run.Size(size)
			if barriers += len(w.GetWaits().GetWaits()); barriers > maxBarriers {
				continue
			}
			if report, err := hang.BarriersOf(w.GetWaits(), maxRanks); err == nil { // else it is no agent's
				run.Hear(t.host, report)
			}
		}
		for run, rec := range t.records() {
			_ = of(i, run.launcher, run.job).Record(t.host, rec) // what is too much is left out
		}
	}
	for _, k := range sorted(runs) {
		if told := runs[k].Lines(); len(told) > 0 {
			lines = append(lines, absence{k.launcher, k.job, told})
		}
	}
	return lines
}

// sorted are the keys of runs in the order in which these are told of.
func sorted[V any](runs map[runKey]V) []runKey {
	return slices.SortedFunc(maps.Keys(runs), func(x, y runKey) int {
		return cmp.Or(cmp.Compare(x.launcher, y.launcher), cmp.Compare(x.job, y.job))
	})
}

// ranks are what the host tells of its ranks, as far as it is looked at.
func (t told) ranks() iter.Seq[*apiv1.RankState] {
	return func(yield func(*apiv1.RankState) bool) {
		for _, m := range t.reply.GetRanks()[:min(len(t.reply.GetRanks()), maxRanks)] {
			if m != nil && !yield(m) {
				return
			}
		}
	}
}

// records are what it tells of flight recorders, as far as that is looked at, with whose they are.
func (t told) records() iter.Seq2[runKey, hang.Record] {
	return func(yield func(runKey, hang.Record) bool) {
		held := 0
		for _, f := range t.reply.GetFlights()[:min(len(t.reply.GetFlights()), maxRuns)] {
			for _, m := range f.GetFlights()[:min(len(f.GetFlights()), maxFlights)] {
				rec, err := hang.RecordOf(m, hang.MaxTorch)
				if err != nil {
					continue // it is no agent's
				}
				if held += rec.Bytes(); held > hang.MaxHeld || !yield(runKey{word(f.GetLauncher()), word(f.GetJob())}, rec) {
					return
				}
			}
		}
	}
}

// where is where a rank of the host is, of which that was asked.
func (t told) where(m *apiv1.RankState) hang.Whereabouts {
	w := hang.WhereaboutsOf(m.Stack)
	w.Launcher, w.Job, w.Number, w.Rank, w.Host, w.Program = hang.Word(m.Launcher), hang.Word(m.Job), m.Number, m.Rank, t.host, hang.Word(m.Program)
	return w
}

// placed is what a host tells of a run's first job, for hang.Run.Place. Of one with more than maxRanks ranks, and of what makes no
// sense, nothing is known.
func placed(w *apiv1.RunWaits) (size int, here idset.Set) {
	here, err := idset.Within(w.GetPlaced(), int(min(w.GetSize(), maxRanks)))
	if err != nil || w.GetSize() > maxRanks {
		return 0, idset.Set{}
	}
	return int(w.GetSize()), here
}

// writeAbsent writes absences for a person, whose runs become of runs. Where there are several, each line says whose it is.
func writeAbsent(b *strings.Builder, list []absence, runs map[runKey]bool) {
	for _, a := range list {
		runs[runKey{a.Launcher, a.Job}] = true
	}
	for _, a := range list {
		for _, l := range a.Lines {
			b.WriteString(whose(a.Launcher, a.Job, len(runs)) + visible.Line(l) + "\n")
		}
	}
}

// whose begins a line of one of so many runs.
func whose(launcher, job string, runs int) string {
	if runs < 2 {
		return ""
	}
	return fmt.Sprintf("job %s, by %s: ", visible.Line(job), visible.Line(launcher))
}
