package ranks

import (
	"cmp"
	"iter"
	"slices"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
)

// An MPI library that does not understand what it was offered runs each rank alone, as rank 0 of 1,
// and nothing fails. So a rank that ends well without ever having spoken is told of with the MPI
// library it had. A program that surely loads one shows it; of others (an interpreter that may
// or may not import it, a script that may or may not come to it) the memory map says, while they run: a
// zombie has none any more. Since all ranks of a program do much the same, a few are looked at often
// while they are young, and all of them now and then. What is told is that a library was there, not that
// MPI_Init was called: the launcher's words leave that open.

const (
	firstLook = 10 * time.Millisecond // after the start; then twice that, and so on
	nextLook  = 50 * time.Millisecond // at most between two looks at young ranks
	young     = 2 * time.Second
	samples   = 2 // young ranks of one program that are looked at; as many as a warning needs
)

// oldLooks are the times after the start at which all ranks that have not spoken are looked at.
var oldLooks = []time.Duration{young, 10 * time.Second, 60 * time.Second}

// looks are the times after the start of all looks.
func looks() iter.Seq[time.Duration] {
	return func(yield func(time.Duration) bool) {
		for at := firstLook; at < young; at += min(at, nextLook) {
			if !yield(at) {
				return
			}
		}
		for _, at := range oldLooks {
			if !yield(at) {
				return
			}
		}
	}
}

// watchUnspoken looks at the memory maps of ranks that do not speak. It returns when the job ends.
func (st *Job) watchUnspoken() {
	begun := time.Now()
	shows := map[uint32]bool{}
	for at := range looks() {
		t := time.NewTimer(time.Until(begun.Add(at)))
		select {
		case <-t.C:
		case <-st.ctx.Done():
			t.Stop()
			return
		}
		for _, p := range st.worthALook(at >= young, shows) {
			if library := st.s.Libs.Mapped(p.process.Pid()); library != "" && p.mute() {
				p.mapped.Store(&library)
			}
		}
	}
}

// worthALook is the ranks whose maps are to be read: all that are mute and did not show a library, or
// the first of each program that may load one without showing it, which shows remembers.
func (st *Job) worthALook(every bool, shows map[uint32]bool) (list []*Process) {
	procs := st.All()
	slices.SortFunc(procs, func(a, b *Process) int { return cmp.Compare(a.ID, b.ID) })
	taken := map[uint32]int{}
	for _, p := range procs {
		if p.mapped.Load() != nil {
			taken[p.Spec.App]++
			continue
		}
		if _, asked := shows[p.Spec.App]; !asked && !every {
			shows[p.Spec.App] = st.shows(p)
		}
		if !p.mute() || !every && (taken[p.Spec.App] >= samples || shows[p.Spec.App]) {
			continue
		}
		taken[p.Spec.App]++
		list = append(list, p)
	}
	return list
}

// shows says that the rank's program surely loads an MPI library, or that nobody listens to the rank.
func (st *Job) shows(p *Process) bool {
	return st.protocolOf(p.Spec.App) == apiv1.Pmi_PMI_NONE || st.surely(p) != ""
}

// surely is the MPI library that the rank's program loads whatever it does. A script may name mpi4py or Horovod and
// never come to it: there its memory map says.
func (st *Job) surely(p *Process) string {
	if c := st.library(int(p.Spec.App), p.dir); c.Sure && !c.Mention {
		return c.Library
	}
	return ""
}

// mute says that a process has not spoken, and still may.
func (p *Process) mute() bool {
	select {
	case <-p.process.Done():
		return false
	default:
		return apiv1.PmiState(p.pmi.Load()) == apiv1.PmiState_PMI_NEVER
	}
}

// unspoken is the MPI library of a rank that has ended well and never spoke; "" if there is none
// to be seen.
func (p *Process) unspoken() string {
	if p.Job.Launch.Job.Explain > 0 {
		return "" // no program ran
	}
	st := p.Job
	if st.gloo != nil && st.gloo.Met(int(p.Spec.Rank)) {
		return "" // Horovod by Gloo, which loads MPI where it was built with it
	}
	if st.Launch.Job.Size < 2 || st.protocolOf(p.Spec.App) == apiv1.Pmi_PMI_NONE || apiv1.PmiState(p.pmi.Load()) != apiv1.PmiState_PMI_NEVER {
		return ""
	}
	if seen := p.mapped.Load(); seen != nil {
		return *seen
	}
	if library := st.surely(p); library != "" {
		return library
	}
	return st.alike(p)
}

// alike is the library that ranks of the same program had which were looked at; "" where fewer than
// samples had one.
func (st *Job) alike(p *Process) string {
	seen, library := 0, ""
	for _, other := range st.All() {
		if l := other.mapped.Load(); l != nil && other.Spec.App == p.Spec.App {
			seen++
			library = *l
		}
	}
	if seen < samples {
		return ""
	}
	return library
}
