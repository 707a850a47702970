package session

import (
	"cmp"
	"context"
	"path"
	"slices"
	"sync"

	"github.com/mpiup/mpiup/agent/ranks"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/idset"
)

// Busy says that processes of a launcher run here, or were left behind by one on purpose.
func (t *Table) Busy() bool {
	return t.kept.live() || slices.ContainsFunc(t.all(), (*session).busy)
}

// maxUses bounds what an agent tells of what it runs.
const maxUses = 32

// Uses is what launchers run here, the oldest first: whose it is, its program's file name without arguments, how many
// processes, and since when.
func (t *Table) Uses() (list []*apiv1.Use) {
	for _, s := range t.all() {
		if u := useOf(s); u.Procs > 0 {
			list = append(list, u)
		}
	}
	slices.SortFunc(list, func(a, b *apiv1.Use) int {
		return cmp.Or(cmp.Compare(a.SinceNs, b.SinceNs), cmp.Compare(a.Launcher, b.Launcher))
	})
	return list[:min(len(list), maxUses)]
}

// useOf is what a session runs.
func useOf(s *session) *apiv1.Use {
	u := &apiv1.Use{Launcher: s.by().Host, HeldS: s.secondsLeft()}
	for _, st := range s.jobs.All() {
		if n := st.Live(); n > 0 {
			if u.Procs == 0 {
				u.Program, u.SinceNs, u.Exec = programOf(st.Launch.Launch), st.Since.UnixNano(), st.Launch.Exec != nil
			}
			u.Procs += uint32(n)
		}
	}
	return u
}

// programOf is the file name of a launch's first program here.
func programOf(l *apiv1.Launch) string {
	if l.Exec.GetShell() || len(l.Apps) == 0 {
		return "shell"
	}
	app := uint32(0)
	if len(l.Procs) > 0 {
		app = l.Procs[0].App
	}
	name := path.Base(l.Apps[app].Argv[0])
	const most = 64
	return name[:min(len(name), most)]
}

// Rank is one that runs here, and whose it is.
type Rank struct {
	*ranks.Process
	Launcher string    // its host
	session  string    // its id
	Waiting  idset.Set // ids of the session's that wait in fences
}

// Ranks are those that run here, by launcher, job and rank; commands are none.
func (t *Table) Ranks() (list []Rank) {
	for _, s := range t.all() {
		waiting := s.exchange.Waiting()
		for _, st := range s.jobs.All() {
			if st.Launch.Exec == nil && st.Launch.Job.Explain == 0 {
				for _, p := range st.All() {
					if !p.Gone() {
						list = append(list, Rank{p, s.by().Host, s.id, waiting})
					}
				}
			}
		}
	}
	slices.SortFunc(list, func(p, q Rank) int {
		return cmp.Or(cmp.Compare(p.Launcher, q.Launcher), cmp.Compare(p.session, q.session), cmp.Compare(p.ID, q.ID))
	})
	return list
}

// Waits is this host's part of who waits for whom in a session's run.
type Waits struct {
	*apiv1.RunWaits
	session string
	open    []uint64 // numbers of the barriers
}

// Waits are of all runs; after: only of barriers that were open at the look before.
func (t *Table) Waits(after bool, before []Waits) (list []Waits) {
	for _, s := range t.all() {
		jobs := s.jobs.All()
		if len(jobs) == 0 || jobs[0].Launch.Exec != nil || jobs[0].Launch.Job.Explain != 0 {
			continue
		}
		var still func(uint64) bool
		if after {
			i := slices.IndexFunc(before, func(w Waits) bool { return w.session == s.id })
			still = func(n uint64) bool { return i >= 0 && slices.Contains(before[i].open, n) }
		}
		w, open := s.exchange.Waits(still)
		m := &apiv1.RunWaits{Launcher: s.by().Host, Job: jobs[0].Launch.Job.Id, Waits: w}
		if first := s.jobs.Number(0); first != nil && !s.over() { // one that ends does so on each host in its own time
			m.Size, m.Placed = first.Launch.Job.Size, idset.Of(first.RanksHere()...).String()
		}
		list = append(list, Waits{m, s.id, open})
	}
	return list
}

// Flights asks the processes of all runs' first jobs for what their flight recorders have.
func (t *Table) Flights(ctx context.Context) (list []*apiv1.RunFlight) {
	var mu sync.Mutex
	var asked sync.WaitGroup
	for _, s := range t.all() {
		first := s.jobs.Number(0)
		if first == nil {
			continue
		}
		asked.Go(func() {
			if told := first.AskDumps(ctx); len(told) > 0 {
				mu.Lock()
				defer mu.Unlock()
				list = append(list, &apiv1.RunFlight{Launcher: s.by().Host, Job: first.Launch.Job.Id, Flights: told})
			}
		})
	}
	asked.Wait()
	return list
}
