package peers

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/launcher/hang"
	"github.com/mpiup/mpiup/launcher/slow"
)

// absences are who is waited for in each run, as hosts tell it. Its methods may be called by several goroutines.
type absences struct {
	name  string // of the one host that all of this is of, where hosts is by run; "": they are by host
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

// Bounds of what one host tells of: runs, barriers of all of them, and flight recorders of each.
const (
	maxRuns     = 1024
	maxBarriers = 256
	maxFlights  = 1024
)

// find joins what all hosts have told. Hosts whose agents know no ids of ranks, which are older, have told nothing.
func (a *absences) find() (list []absence) {
	a.mu.Lock()
	defer a.mu.Unlock()
	runs := map[runKey]*hang.Run{}
	told := map[string]map[runKey]bool{} // by host
	of := func(host, launcher, job string) *hang.Run {
		k := runKey{word(launcher), word(job)}
		if told[host] == nil {
			told[host] = map[runKey]bool{}
		}
		if len(told[host]) == maxRuns && !told[host][k] {
			return &hang.Run{} // of which nothing is said
		}
		told[host][k] = true
		if runs[k] == nil {
			runs[k] = &hang.Run{}
		}
		return runs[k]
	}
	name := func(host string) string { return cmp.Or(a.name, host) }
	for host, reply := range a.hosts {
		older := len(reply.GetWaits()) == 0
		for _, m := range reply.Ranks[:min(len(reply.Ranks), maxRanks)] {
			switch {
			case m == nil || m.Rank >= maxRanks || m.Id >= maxRanks:
			case older:
				of(host, m.Launcher, m.Job).Place(0, idset.Set{})
			default:
				of(host, m.Launcher, m.Job).Add(hang.Rank{ID: int(m.Id), Rank: m.Rank, Number: m.Number, Host: name(host), PID: m.Main})
				if call := slow.CallOf(m.GetWaited().GetCall()); call != "" {
					of(host, m.Launcher, m.Job).In(int(m.Id), call)
				}
			}
		}
	}
	for host, reply := range a.hosts {
		barriers := 0
		for _, w := range reply.GetWaits()[:min(len(reply.GetWaits()), maxRuns)] {
			size, here := placed(w)
			if a.all {
				of(host, w.GetLauncher(), w.GetJob()).Place(size, here)
			}
			of(host, w.GetLauncher(), w.GetJob()).Size(size)
			if barriers += len(w.GetWaits().GetWaits()); barriers > maxBarriers {
				continue
			}
			if report, err := hang.BarriersOf(w.GetWaits(), maxRanks); err == nil { // else it is no agent's
				of(host, w.GetLauncher(), w.GetJob()).Hear(name(host), report)
			}
		}
	}
	for host, reply := range a.asked {
		by := map[runKey][]hang.Whereabouts{}
		for _, w := range stackRows(name(host), reply) {
			k := runKey{word(w.Launcher), word(w.Job)}
			by[k] = append(by[k], w)
		}
		for k, list := range by {
			of(host, k.launcher, k.job).Look(list)
		}
		held := 0
		for _, f := range reply.GetFlights()[:min(len(reply.GetFlights()), maxRuns)] {
			for _, m := range f.GetFlights()[:min(len(f.GetFlights()), maxFlights)] {
				if held > hang.MaxHeld {
					break
				}
				if rec, err := hang.RecordOf(m, hang.MaxTorch); err == nil {
					held += rec.Bytes()
					_ = of(host, f.GetLauncher(), f.GetJob()).Record(name(host), rec) // what is too much is left out
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

// placed is what a host tells of a run's first job, for hang.Run.Place. Of one with more than maxRanks ranks, and of what makes no
// sense, nothing is known.
func placed(w *apiv1.RunWaits) (size int, here idset.Set) {
	here, err := idset.Within(w.GetPlaced(), int(min(w.GetSize(), maxRanks)))
	if err != nil || w.GetSize() > maxRanks {
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
