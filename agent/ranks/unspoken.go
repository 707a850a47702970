package ranks

import (
	"cmp"
	"errors"
	"slices"
	"syscall"
	"time"

	"github.com/mpiup/mpiup/agent/checkup"
	"github.com/mpiup/mpiup/agent/host"
	"github.com/mpiup/mpiup/agent/mpilib"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/job"
	"golang.org/x/sys/unix"
)

// An MPI library that does not understand what it was offered runs each rank alone, as rank 0 of 1,
// and nothing fails. So a rank that ends well without ever having spoken is told of with the MPI
// library it had. A program that surely loads one shows it; of others (an interpreter that may
// or may not import it, a script that may or may not come to it) the memory map says, while they run: a
// zombie has none any more. Since all ranks of a program do much the same, a few are looked at often
// while they are young, and all of them now and then. Later what those few start is looked at when it is
// new: a script may come to MPI after an hour, for a moment. What is told is that a library was there, not that
// MPI_Init was called: the launcher's words leave that open.

const (
	firstLook = 10 * time.Millisecond // after the start; then twice that, and so on
	nextLook  = 50 * time.Millisecond // at most between two looks at young ranks
	young     = 2 * time.Second
	childLook = 100 * time.Millisecond // between two looks for new children of older ones
	samples   = 2                      // ranks of one program that are looked at so; as many as a warning needs
)

// oldLooks are the times after the start at which all ranks that have not spoken are looked at.
var oldLooks = []time.Duration{young, 10 * time.Second, 60 * time.Second}

// lookAfter is when the look after the one at a time is, from the start, and whether it is at ranks, not only at what they have started. idle
// says that there is no rank whose children are to be looked at. 0: there is no other look.
func lookAfter(at time.Duration, idle bool) (next time.Duration, whole bool) {
	if at < young {
		return min(at+max(firstLook, min(at, nextLook)), young), true
	}
	var old time.Duration
	if i := slices.IndexFunc(oldLooks, func(o time.Duration) bool { return o > at }); i >= 0 {
		old = oldLooks[i]
	}
	if next = at + childLook; idle || old > 0 && next >= old {
		return old, true
	}
	return next, false
}

// watchUnspoken looks at the memory maps of a job's ranks that do not speak. It returns when the job ends.
func watchUnspoken(st *Job) {
	begun := time.Now()
	known, children := map[uint32]bool{}, map[*Process]mpilib.Children{}
	for at, whole := lookAfter(0, false); at > 0; {
		wait := time.Until(begun.Add(at))
		if !whole { // after a pause of the whole machine, too
			wait = max(wait, childLook/2)
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-st.ctx.Done():
			t.Stop()
			return
		}
		list := worthALook(st, whole && at >= young, known)
		for _, p := range list {
			library := ""
			if whole {
				library = st.s.Libs.Mapped(p.process.Pid())
			} else {
				library, children[p] = st.s.Libs.MappedByNew(p.process.Pid(), children[p])
			}
			if library != "" && p.mute() {
				p.mapped.Store(&library)
				if !p.usesMPI() && st.s.Libs.Framework(p.process.Pid()) == "" {
					p.useMPI(library)
				}
			}
		}
		at, whole = lookAfter(at, len(list) == 0)
	}
}

// worthALook is the ranks whose maps are to be read: all that are mute and did not show a library, or
// the first of each program that may load one without showing it, which known remembers.
func worthALook(st *Job, every bool, known map[uint32]bool) (list []*Process) {
	procs := st.All()
	slices.SortFunc(procs, func(a, b *Process) int { return cmp.Compare(a.ID, b.ID) })
	taken := map[uint32]int{}
	for _, p := range procs {
		if p.mapped.Load() != nil {
			taken[p.Spec.App]++
			continue
		}
		if _, asked := known[p.Spec.App]; !asked && !every {
			known[p.Spec.App] = !p.Speaks() || surely(p) != "" // or nobody listens to it
		}
		if !p.mute() || !every && (taken[p.Spec.App] >= samples || known[p.Spec.App]) {
			continue
		}
		taken[p.Spec.App]++
		list = append(list, p)
	}
	return list
}

// surely is the MPI library that the rank's program loads whatever it does. A script may name mpi4py or Horovod and
// never come to it: there its memory map says.
func surely(p *Process) string {
	if c := p.Job.choice(int(p.Spec.App), p.dir); c.Sure && !c.Mention {
		return c.Library
	}
	return ""
}

// unspoken is the MPI library of a rank that has ended well and never spoke; "" if there is none
// to be seen.
func unspoken(p *Process) string {
	if p.Job.Launch.Job.Explain > 0 {
		return "" // no program ran
	}
	st := p.Job
	if st.horovod.met(p.Spec.Rank) {
		return "" // Horovod by Gloo, which loads MPI where it was built with it
	}
	if st.Launch.Job.Size < 2 || !p.Speaks() || p.State() != apiv1.PmiState_PMI_NEVER {
		return ""
	}
	if seen := p.mapped.Load(); seen != nil {
		return *seen
	}
	if library := surely(p); library != "" {
		return library
	}
	return alike(p)
}

// alike is the library that ranks of the same program had which were looked at; "" where fewer than
// samples had one.
func alike(p *Process) string {
	seen, library := 0, ""
	for _, other := range p.Job.All() {
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

// beginning is how long after its start a rank that ends may have ended in MPI_Init.
const beginning = 30 * time.Second

// tempGlance is how long a rank's end waits for the word of the directory for temporary files.
const tempGlance = 200 * time.Millisecond

// tellLack adds what MPI lacks here, if that may be why the rank has ended so: it spoke to its MPI's server, and ended soon, or
// by a signal that memory beyond what /dev/shm holds brings.
func tellLack(p *Process, ex job.Exit, x *apiv1.Exited) {
	bus := ex.Signal == int(unix.SIGBUS)
	if p.pmi.Load() == int32(apiv1.PmiState_PMI_NEVER) || !bus && time.Since(p.begun) > beginning {
		return
	}
	room := checkup.Room{Ranks: len(p.Job.Launch.Procs), Bus: bus}
	room.ShmSize, room.ShmFree = checkup.Shm()
	if p.Job.protocolOf(p.Spec.App) == apiv1.Pmi_PMI_PMIX && !bus { // Open MPI alone needs it
		room.Temp = checkup.LookTemp(tempDir(p), tempGlance)
	}
	lack, text := room.Lacking()
	x.Lack, x.Lacking = apiv1.Lack(lack), checkup.Here(p.Job.s.Env, text)
	var errno syscall.Errno // why nothing can be written there
	if lack == job.LackTemp && errors.As(room.Temp.Err, &errno) {
		x.LackErrno = int32(errno)
	}
}

// tempDir is where the rank puts temporary files.
func tempDir(p *Process) string {
	dir, _ := host.Lookup("TMPDIR", p.Job.apps[p.Spec.App].Env)
	return cmp.Or(dir, p.Job.s.Host.TempDir())
}
