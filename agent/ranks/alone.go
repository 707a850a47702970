package ranks

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/mpiup/mpiup/agent/mpilib"
)

// A rank that never spoke to its agent and ended well may have called MPI_Init all the same, as rank 0 of 1, whereupon the run computed something
// else than was asked for. The memory map (unspoken.go) shows that it has an MPI library, which programs also have that never call MPI_Init. So a
// few ranks of each program are looked at until they speak: their own memory says whether MPI_Init was called (mpilib.World). What is
// told is sure, or it is not told:
//
//	MPI_Init was called there        else a program merely has the library
//	no other launcher has wired it   whose variables it would have: a rank may run mpirun itself
//	nobody said that it is meant     by a variable of the library's own
//	it is the rank's own program     with shells and wrappers alone between; a script in Python may well run a program with MPI by itself
//
// A program that calls MPI_Init and has ended before the next look is missed; then the line stays that it may have been alone.

// aloneSamples is how many ranks of a program here are looked at. Two that were alone fail a run.
const aloneSamples = 4

// Times between two looks. A look at a known place of a process's memory takes microseconds; a program may end some milliseconds after MPI_Init.
const (
	fastLook   = time.Millisecond // while a library was there for less than fastFor
	fastFor    = 500 * time.Millisecond
	steadyLook = 5 * time.Millisecond   // while a library is there, in a young rank
	idleLook   = 20 * time.Millisecond  // while none is
	lateLook   = 100 * time.Millisecond // in an older rank
)

// lonely is what is known of a rank that may be alone in MPI.
type lonely struct {
	sure  bool // its program surely loads an MPI library, whatever its memory shows
	world mpilib.World
	since time.Time // when world was found
	known bool      // there is a world
	done  bool      // MPI_Init was called, and whether that tells was decided
}

// watchAlone looks at ranks that do not speak for whether they have called MPI_Init. It returns when the job ends, or when nothing can come any more.
func watchAlone(st *Job) {
	begun := time.Now()
	ranks := map[*Process]*lonely{}
	for {
		hot, open := lookAlone(st, ranks)
		if st.allSpoke() {
			return
		}
		age := time.Since(begun)
		if !open && age > oldLooks[len(oldLooks)-1] { // no library was found by the last look for one
			return
		}
		timer := time.NewTimer(aloneWait(age, hot, open))
		select {
		case <-timer.C:
		case <-st.ctx.Done():
			timer.Stop()
			return
		}
	}
}

// allSpoke says that no rank here can be alone any more: each has spoken, or has ended.
func (st *Job) allSpoke() bool {
	select {
	case <-st.over:
	default:
		return false // not all are started
	}
	return !slices.ContainsFunc(st.All(), (*Process).mute)
}

// aloneWait is how long it is until the next look.
func aloneWait(age time.Duration, hot, open bool) time.Duration {
	switch {
	case hot:
		return fastLook
	case age > young:
		return lateLook
	case open:
		return steadyLook
	}
	return idleLook
}

// lookAlone looks once. hot: a library was found a moment ago; open: there is a rank with one that has not called MPI_Init.
func lookAlone(st *Job, ranks map[*Process]*lonely) (hot, open bool) {
	procs := st.All()
	slices.SortFunc(procs, func(a, b *Process) int { return cmp.Compare(a.ID, b.ID) })
	taken := map[uint32]int{}
	for _, p := range procs {
		if taken[p.Spec.App] >= aloneSamples || !p.Speaks() {
			continue
		}
		taken[p.Spec.App]++
		l := ranks[p]
		if l == nil {
			l = &lonely{sure: surely(p) != ""} // which looks at files, and is asked once
			ranks[p] = l
		}
		if l.done || !p.mute() {
			continue
		}
		may := p.lookAlone(l)
		open = open || may && !l.done
		hot = hot || l.known && !l.done && time.Since(l.since) < fastFor
	}
	return hot, open
}

// lookAlone looks at one rank. may: it has an MPI library, as far as can be seen, or will have one.
func (p *Process) lookAlone(l *lonely) (may bool) {
	if !l.sure && p.mapped.Load() == nil {
		return false
	}
	libs := p.Job.s.Libs
	if !l.known {
		l.world, l.known = libs.World(p.Pid(), l.sure)
		if !l.known { // its wrapper has not come to it, or nothing can be seen there
			return time.Since(p.begun) < fastFor
		}
		l.since = time.Now()
	}
	called, there := libs.Initialized(l.world)
	if !there { // it was another process of the rank's, or is another program now
		l.known = false
		return true
	}
	if !called {
		return true
	}
	l.done = true
	if p.Silent() && p.aloneForSure(l.world) {
		p.mapped.Store(&l.world.Library)
		p.useMPI(l.world.Library)
		p.alone.Store(true)
	}
	return true
}

// aloneForSure says that a process of the rank's that has called MPI_Init without a word to us is alone in MPI, and not on purpose.
func (p *Process) aloneForSure(w mpilib.World) bool {
	libs := p.Job.s.Libs
	env := libs.Environment(w.PID)
	if env == nil {
		return false
	}
	for name, value := range env {
		if own, given := p.wired[name]; wires(name) && (!given || own != value) {
			return false // another launcher's, or somebody's who knows better
		}
		if meantAlone(name, value) {
			return false
		}
	}
	return libs.OnlyWraps(p.Pid(), w.PID)
}

// wireNames are the variables by which launchers tell an MPI library who it is and whom it is to speak with.
var wireNames = []string{"PMI_FD", "PMI_PORT", "PMI_ID", "PMI_RANK", "PMI_SIZE", "PMI_SPAWNED", "PMIX_NAMESPACE", "PMIX_RANK", "OMPI_COMM_WORLD_RANK",
	"OMPI_COMM_WORLD_SIZE", "FLUX_JOB_ID", "MPIRUN_RANK", "MV2_COMM_WORLD_RANK", "PALS_RANKID", "ALPS_APP_PE", "SLURM_STEP_ID"}

// wires says that a variable is one of them.
func wires(name string) bool {
	return slices.Contains(wireNames, name) || strings.HasPrefix(name, "PMIX_SERVER_URI")
}

// wiredBy are those of an environment.
func wiredBy(env []string) map[string]string {
	wired := map[string]string{}
	for _, kv := range env {
		if name, value, _ := strings.Cut(kv, "="); wires(name) {
			wired[name] = value
		}
	}
	return wired
}

// meantAlone says that a variable of an MPI library's own has each process be alone: Open MPI 4's (orte/mca/ess/singleton, opal/mca/pmix/isolated).
func meantAlone(name, value string) bool {
	switch name {
	case "OMPI_MCA_ess_singleton_isolated":
		return value != "" && !slices.Contains([]string{"0", "false", "no", "f", "n", "disabled"}, strings.ToLower(value))
	case "OMPI_MCA_ess":
		return value == "singleton" || value == "isolated"
	case "OMPI_MCA_pmix":
		return value == "isolated"
	}
	return false
}
