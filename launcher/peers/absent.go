package peers

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/launcher/absent"
	"github.com/mpiup/mpiup/launcher/run"
)

// absences are who is waited for in each run, as hosts tell it. Its methods may be called by several goroutines.
type absences struct {
	mu    sync.Mutex
	all   bool                          // hosts were looked for, not named, and tell all: ranks elsewhere are told of; guarded by mu
	hosts map[string]*apiv1.RanksReply  // guarded by mu
	asked map[string]*apiv1.StacksReply // guarded by mu
}

// absence is one run's, as it is printed.
type absence struct {
	Launcher string   `json:"launcher"`
	Job      string   `json:"job"`
	Lines    []string `json:"lines"`
}

func (a *absences) ranks(host string, reply *apiv1.RanksReply) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.hosts == nil {
		a.hosts = map[string]*apiv1.RanksReply{}
	}
	a.hosts[host] = reply
}

// untold says that a host that answers has not told of its ranks.
func (a *absences) untold() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all = false
}

func (a *absences) flights(host string, reply *apiv1.StacksReply) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.asked == nil {
		a.asked = map[string]*apiv1.StacksReply{}
	}
	a.asked[host] = reply
}

// runKey tells a run from others.
type runKey struct{ launcher, job string }

// maxRuns bounds those that one host tells of.
const maxRuns = 1024

// find joins what all hosts have told. Hosts whose agents know no ids of ranks, which are older, have told nothing.
func (a *absences) find() (list []absence) {
	a.mu.Lock()
	defer a.mu.Unlock()
	runs := map[runKey]*absent.Run{}
	of := func(launcher, job string) *absent.Run {
		k := runKey{word(launcher), word(job)}
		if runs[k] == nil {
			runs[k] = &absent.Run{}
		}
		return runs[k]
	}
	for host, reply := range a.hosts {
		older := len(reply.GetWaits()) == 0
		for _, m := range reply.Ranks[:min(len(reply.Ranks), maxRanks)] {
			switch {
			case m == nil || m.Rank > maxRank || m.Id > maxRank:
			case older:
				of(m.Launcher, m.Job).Place(0, idset.Set{})
			default:
				of(m.Launcher, m.Job).Add(absent.Rank{ID: int(m.Id), Rank: m.Rank, Number: m.Number, Host: host, PID: m.Main})
			}
		}
	}
	for host, reply := range a.hosts {
		for _, w := range reply.GetWaits()[:min(len(reply.GetWaits()), maxRuns)] {
			if a.all {
				of(w.GetLauncher(), w.GetJob()).Place(placed(w))
			}
			if report, err := run.HoldupOf(w.GetWaits()); err == nil { // else it is no agent's
				of(w.GetLauncher(), w.GetJob()).Hear(host, report)
			}
		}
	}
	for host, reply := range a.asked {
		for _, f := range reply.GetFlights()[:min(len(reply.GetFlights()), maxRuns)] {
			for _, m := range f.GetFlights()[:min(len(f.GetFlights()), maxRuns)] {
				if rec, err := run.RecordOf(m); err == nil && rec.Rank <= maxRank {
					of(f.GetLauncher(), f.GetJob()).Record(host, rec)
				}
			}
		}
	}
	for _, k := range slices.SortedFunc(maps.Keys(runs), func(x, y runKey) int {
		return cmp.Or(cmp.Compare(x.launcher, y.launcher), cmp.Compare(x.job, y.job))
	}) {
		if lines := runs[k].Lines(); len(lines) > 0 {
			list = append(list, absence{k.launcher, k.job, lines})
		}
	}
	return list
}

// placed is what a host tells of a run's first job, for absent.Run.Place. Of one with more than maxRanks ranks, and of what makes no
// sense, nothing is known.
func placed(w *apiv1.RunWaits) (size int, here idset.Set) {
	here, err := idset.Parse(w.GetPlaced())
	if err != nil || w.GetSize() > maxRanks || here.Last() >= maxRanks {
		return 0, idset.Set{}
	}
	return int(w.GetSize()), here
}

// textOf is absences for a person. Where hosts have several runs, each line says whose it is.
func textOf(list []absence, runs int) (text string) {
	for _, a := range list {
		whose := ""
		if runs > 1 {
			whose = fmt.Sprintf("job %s, by %s: ", a.Job, a.Launcher)
		}
		for _, l := range a.Lines {
			text += whose + l + "\n"
		}
	}
	return text
}
