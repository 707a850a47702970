package hang

import (
	"maps"
	"slices"
	"strings"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher/witness"
)

// Bounds of a look at where processes are, before a run is ended.
const (
	MaxLook     = 256 // processes of all hosts
	maxLookHost = 16  // of one, which looks at four at a time and tells of no more
	maxBeside   = 8   // of one, where the odd ones out are known
	again       = 8   // of those that nobody is waited for by, at the second look
)

// LookAt are the processes whose stacks are asked for: the odd ones first, and of the others as many as time allows, evenly. all: that is
// each of those that run.
func LookAt(odd, running idset.Set, hostOf func(id int) int) (ids idset.Set, all bool) {
	asked := map[int]int{} // of each host
	take := func(from idset.Set, step, most int) {
		n := 0
		for id := range from.All() {
			if n++; (n-1)%step == 0 && ids.Len() < MaxLook && asked[hostOf(id)] < most {
				asked[hostOf(id)]++
				ids.Add(id)
			}
		}
	}
	most := maxLookHost
	if take(odd.Intersect(running), 1, most); !ids.Empty() {
		most = maxBeside
	}
	others := running.Sub(odd)
	take(others, 1+others.Len()/MaxLook, most)
	return ids, ids.Len() == running.Len()
}

// Stack is where one process is.
type Stack struct {
	ID int // in the run
	Whereabouts
}

// Outside are processes that compute, or wait for a message, while all others wait.
type Outside struct {
	IDs  idset.Set
	In   string // the call in which they wait; "": they are in the program's own code
	Call string // in which the others wait
}

// several is in place of a call where the others wait in more than one, as in a collective that a program makes of messages.
const several = "calls of MPI"

// ByStacks finds those that are outside of MPI while all others wait in one call of it, or the only one that is while they wait in several.
// They are half of all at most, and each stack is whole: one that a tool has read in part says nothing, nor does one that waits for a GPU.
// Where nobody is outside, it is those that wait in a call of few while all others are in a collective. Each host tells where its own ranks are: those
// are found of whom it shows besides others of their own host, or by most hosts (witness.Places).
func ByStacks(list []Stack, places witness.Places) (o Outside) {
	if o = outsideOf(list); o.IDs.Empty() {
		return o
	}
	var all idset.Set
	for _, s := range list {
		all.Add(s.ID)
	}
	others := all.Sub(o.IDs)
	claim := witness.Claim{About: o.IDs, By: others, Seen: places.Beside(o.IDs, others), Likely: o.IDs}
	if !places.Accused(claim).Equal(o.IDs) {
		return Outside{}
	}
	return o
}

// outsideOf are those by the stacks alone.
func outsideOf(list []Stack) (o Outside) {
	in := map[string]idset.Set{}
	for _, s := range list {
		call, whole := s.Wait()
		switch {
		case !whole || call == "" && s.onDevice():
			return Outside{}
		case call == "":
			o.IDs.Add(s.ID)
		case polls(call):
			return Outside{}
		case o.Call != "" && o.Call != call:
			o.Call = several
		default:
			o.Call = call
		}
		ids := in[call]
		ids.Add(s.ID)
		in[call] = ids
	}
	if o.IDs.Empty() && len(in) == 2 {
		calls := slices.Sorted(maps.Keys(in))
		if ofAll(calls[0]) {
			slices.Reverse(calls)
		}
		if few, all := calls[0], calls[1]; !ofAll(few) && ofAll(all) {
			o = Outside{in[few], few, all}
		}
	}
	if o.Call == "" || 2*o.IDs.Len() > len(list) || o.Call == several && o.IDs.Len() != 1 {
		return Outside{}
	}
	return o
}

// ofAll says that a call is a collective in which all ranks wait for all (MPI 4.1, 6.1).
func ofAll(call string) bool {
	_, name, _ := strings.Cut(strings.TrimRight(strings.ToLower(call), "_"), "mpi_")
	return slices.Contains([]string{"barrier", "allreduce", "allgather", "allgatherv", "alltoall", "alltoallv", "alltoallw", "reduce_scatter",
		"reduce_scatter_block", "finalize"}, name)
}

// Alike says that all of several are in one call of MPI, each by a whole stack: whoever has not come to its end is not known to be at fault.
func Alike(list []Stack) bool {
	o := outsideOf(list)
	return len(list) > 1 && o.Call != "" && o.IDs.Empty() // in several calls: none
}

// Computing are those of the busy ranks that are outside of MPI and so may compute, and how many of them do not show whether they are.
func Computing(busy idset.Set, list []Stack) (ids idset.Set, unknown int) {
	waiting := 0
	for _, s := range list {
		if !busy.Contains(s.ID) {
			continue
		}
		switch call, whole := s.Wait(); {
		case whole && (call == "" || polls(call)):
			ids.Add(s.ID)
		case whole:
			waiting++
		}
	}
	return ids, busy.Len() - ids.Len() - waiting
}

// DoubtBy says why, by their stacks, ranks that use CPU are no reason to end a run in which others idle; "": they are one. Where stacks do
// not show it, as many as idle or more are taken to wait: libraries wait actively for one that idles.
func (s Stall) DoubtBy(list []Stack, n Names) string {
	ids, unknown := Computing(s.Busy, list)
	who := func(ids idset.Set) string {
		if ids.Len() == 1 {
			return n.Rank(ids.First())
		}
		return n.Ranks(ids)
	}
	switch {
	case ids.Len() == 1:
		return who(ids) + " uses CPU and is in the program's own code: it may compute"
	case !ids.Empty():
		return who(ids) + " use CPU and are in the program's own code: they may compute"
	case unknown > 0 && s.Busy.Len() < s.Idle.Len():
		return "whether " + who(s.Busy) + " computes or waits for a message could not be seen (mpiup help hangs)"
	}
	return ""
}

// Waiting are those that wait in a call of MPI.
func Waiting(list []Stack) (ids idset.Set) {
	for _, s := range list {
		if call, _ := s.Wait(); call != "" {
			ids.Add(s.ID)
		}
	}
	return ids
}

// elsewhere are those whose stacks are whole and show no call that waits, nor a wait for a GPU.
func elsewhere(list []Stack) (ids idset.Set) {
	for _, s := range list {
		if call, whole := s.Wait(); whole && (call == "" || polls(call)) && !s.onDevice() {
			ids.Add(s.ID)
		}
	}
	return ids
}

// polls says that a call of MPI returns at once: a program that makes it again and again may do something else between.
func polls(call string) bool {
	_, name, _ := strings.Cut(strings.ToLower(call), "mpi_")
	return strings.HasPrefix(name, "test") || strings.HasPrefix(name, "i") && name != "init" && name != "init_thread"
}

// Again are those whom a second look is to bear out: a moment may tell of a rank that is late, and no more.
func (o Outside) Again(found []Stack) (ids idset.Set) {
	var seen idset.Set
	for _, s := range found {
		seen.Add(s.ID)
	}
	ids = o.IDs.Clone()
	n := 0
	for id := range seen.Sub(o.IDs).All() {
		if n++; n <= again {
			ids.Add(id)
		}
	}
	return ids
}

// Blame is who is named where two looks agree.
func (o Outside) Blame(then Outside) Blame {
	if o.IDs.Empty() || o.Call != then.Call || o.In != then.In || !o.IDs.Equal(then.IDs) {
		return Blame{}
	}
	while := ", and the others wait in " + o.Call
	if o.In != "" {
		return Blame{Odd: []Odd{{IDs: o.IDs, Why: "it waits in " + o.In + while, Many: "they wait in " + o.In + while}}}
	}
	return Blame{Odd: []Odd{{IDs: o.IDs, Why: "it is in the program's own code" + while, Many: "they are in the program's own code" + while}}}
}

// Grouped are ranks by where they are, the fewest first; more is how many groups there are besides.
func Grouped(list []Stack) (groups []StackGroup, more int) {
	const most = 8
	ranks := make([]Whereabouts, len(list))
	for i, s := range list {
		ranks[i] = s.Whereabouts
	}
	groups = GroupStacks(ranks)
	return groups[:min(len(groups), most)], max(len(groups)-most, 0)
}

// Telling are the frames of a place that tell most: what a program called, without the steps by which the C library waits. Of lines in a row
// of one Python package, as torch, the innermost stands for all.
func Telling(frames []string) []string {
	const most = 3
	frames = slices.CompactFunc(slices.Clone(frames), func(one, next string) bool { return packageOf(one) != "" && packageOf(one) == packageOf(next) })
	for len(frames) > most && frames[1] != "??" && !ofPython(frames[1]) && slices.ContainsFunc([]string{"__", "clock_nanosleep", "nanosleep", "syscall"},
		func(p string) bool { return strings.HasPrefix(frames[0], p) }) {
		frames = frames[1:]
	}
	line := slices.IndexFunc(frames, func(f string) bool { return hasLine(f) && packageOf(f) == "" })
	if line >= most { // what the program does is told in any case
		frames[most-1] = frames[line]
	}
	frames = frames[:min(len(frames), most)]
	for len(frames) > 1 && frames[len(frames)-1] == "??" { // a program without symbols
		frames = frames[:len(frames)-1]
	}
	return frames
}

// packageOf is the package of a line of Python, "torch" of "wait (torch/distributed/x.py:3)"; "": it has none.
func packageOf(frame string) string {
	_, file, _ := strings.Cut(frame, " (")
	name, _, _ := strings.Cut(file, "/")
	if !ofPython(frame) || name == file {
		return ""
	}
	return name
}

// Told is the group as a verdict has it.
func (g StackGroup) Told() job.Stack {
	const mostHosts = 4
	s := job.Stack{Ranks: g.Ranks, Job: int(g.Number), Count: len(g.Members), Of: g.Of, Means: g.Means, Frames: Telling(g.Frames)}
	for _, m := range g.Members {
		if !slices.Contains(s.Hosts, m.Host) && len(s.Hosts) < mostHosts {
			s.Hosts = append(s.Hosts, m.Host)
		}
	}
	if len(g.Members) == 1 {
		s.PID = int(g.Members[0].PID)
	}
	return s
}
