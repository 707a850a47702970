package hang

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/mpiup/mpiup/internal/idset"
)

// Place is where a rank is: in a call that waits for other ranks, or in something else.
//
//	MPI_Bcast, step, main                                                  ─▶ in MPI_Bcast
//	c10d::Work::wait, broadcast (torch/.../distributed_c10d.py:4055),
//	step (fail.py:65), Py_BytesMain                                        ─▶ in broadcast at fail.py:65
//	clock_nanosleep, evaluate (fail.py:14), Py_BytesMain                   ─▶ elsewhere
type Place struct {
	Known bool   // the stack tells whether the rank is in such a call
	Call  string // "broadcast", "MPI_Bcast"; "": it is in none
	At    string // the program's own line that made the call, "fail.py:65"; "": not known
}

func (p Place) String() string {
	if p.At == "" {
		return p.Call
	}
	return p.Call + " at " + p.At
}

// collectives is the end of the file of torch that has its collectives (torch 1.0 to 2.15).
const collectives = "torch/distributed/distributed_c10d.py:"

// starters are parts of names of files by which frameworks start their processes: who is there is no rank of theirs.
var starters = []string{"torch/distributed/run.py", "torch/distributed/launch", "torch/distributed/elastic/", "accelerate/commands/", "deepspeed/launcher/",
	"torch/multiprocessing/spawn.py:"}

// Place is where the rank is, as far as its stack tells: Python's own lines before native calls, since they have the collective's name.
func (r *Whereabouts) Place() (p Place) {
	lines := slices.DeleteFunc(slices.Clone(r.Frames), func(f string) bool { return !ofPython(f) })
	if slices.ContainsFunc(lines, func(f string) bool {
		return slices.ContainsFunc(starters, func(s string) bool { return strings.Contains(f, s) })
	}) {
		return Place{}
	}
	native, whole := r.Wait()
	p = Place{Known: whole, Call: native}
	if len(lines) == 0 {
		return p
	}
	p.Known = whole                            // of the half of a stack nobody knows what it is in
	for i, f := range slices.Backward(lines) { // the outermost: one that is made of others has the name that the program knows
		if strings.Contains(f, collectives) && !strings.HasPrefix(f, "_") {
			p.Known, p.Call = true, function(f)
			lines = lines[i+1:]
			break
		}
	}
	if p.Call != "" {
		p.At = ownLine(lines)
	}
	if native == "" && r.onDevice() { // which may wait for other ranks
		p.Known = p.Call != ""
	}
	return p
}

// ownLine is the innermost line of the program's own, "fail.py:65"; "": there is none.
func ownLine(lines []string) string {
	for _, f := range lines {
		_, at, _ := strings.Cut(strings.TrimSuffix(f, ")"), " (")
		if packageOf(f) == "" && !strings.Contains(at, "/lib/python") && !strings.HasPrefix(at, "<") {
			return path.Base(at)
		}
	}
	return ""
}

// Calls are which ranks are in which calls.
type Calls map[Place]idset.Set

// Add notes that a rank is at a place.
func (c Calls) Add(p Place, id int) {
	ids := c[p]
	ids.Add(id)
	c[p] = ids
}

// Differ says that ranks are in different calls that wait: not only at different lines, as where each has a line of its own for one operation. A
// function of a library that may be of any of these differs from none.
func (c Calls) Differ() bool {
	names := map[string]bool{}
	for p := range c {
		names[p.Call] = collective(p.Call)
	}
	maps.DeleteFunc(names, func(_ string, of bool) bool { return !of })
	return len(names) > 1
}

// Text names ranks by their calls, those of few ranks first: "rank 0 in broadcast at fail.py:65, ranks 1-3 in all_reduce at fail.py:66".
func (c Calls) Text(names func(idset.Set) string) string {
	const most = 4
	var parts []string
	places := slices.SortedFunc(maps.Keys(c), func(p, q Place) int {
		if d := c[p].Len() - c[q].Len(); d != 0 {
			return d
		}
		return c[p].First() - c[q].First()
	})
	for _, p := range places[:min(len(places), most)] {
		parts = append(parts, names(c[p])+" in "+p.String())
	}
	if more := len(places) - most; more > 0 {
		parts = append(parts, fmt.Sprintf("and others in %d more", more))
	}
	return strings.Join(parts, ", ")
}

// Mixed are the calls of ranks that all wait, in different ones of which each is for all ranks of a group: they wait for each other for ever. nil: it
// does not show, or they do not. Messages between two ranks, as of a pipeline, and calls that return at once are none of those.
func Mixed(list []Stack) Calls {
	calls := Calls{}
	for _, s := range list {
		p := s.Place()
		if !p.Known || !collective(p.Call) {
			return nil
		}
		calls.Add(p, s.ID)
	}
	if !calls.Differ() {
		return nil
	}
	return calls
}

// Same says that a second look shows ranks where the first one did.
func (c Calls) Same(then Calls) bool {
	return maps.EqualFunc(c, then, func(a, b idset.Set) bool { return a.Equal(b) })
}

// ofGroups are the calls of torch.distributed, and those of MPI in lower case without their prefix, that each rank of a group makes.
var ofGroups = strings.Fields("all_reduce broadcast reduce all_gather all_gather_into_tensor all_gather_object all_gather_coalesced all_reduce_coalesced " +
	"gather gather_object scatter scatter_object_list reduce_scatter reduce_scatter_tensor all_to_all all_to_all_single barrier monitored_barrier " +
	"broadcast_object_list bcast allreduce allgather allgatherv alltoall alltoallv alltoallw gatherv scatterv reduce_scatter_block scan exscan")

// collective says that each rank of a group makes the call.
func collective(call string) bool {
	name := strings.TrimRight(strings.ToLower(call), "_")
	name = strings.TrimPrefix(strings.TrimPrefix(name, "p"), "mpi_")
	return slices.Contains(ofGroups, name)
}
