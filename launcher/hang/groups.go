package hang

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/mpiup/mpiup/internal/pattern"
)

// GroupStacks groups ranks by where they are, so that the odd one out stands first.
//
//	Whereabouts ──GroupStacks──▶ by job, by means, by the frames down to a call that waits ──StacksText──▶
//
// Ranks that wait in one MPI call ask for messages again and again, and a look sees each at another place of that. So what is below the
// call does not tell them apart. Small groups come first, and of one size the one of the lowest rank.

// Whereabouts is where one rank is.
type Whereabouts struct {
	Launcher string   `json:"launcher"`
	Job      string   `json:"job"`
	Number   uint32   `json:"job_number"`
	Rank     uint32   `json:"rank"`
	Host     string   `json:"host"`
	PID      int32    `json:"pid"`
	Program  string   `json:"program"`
	Means    string   `json:"means"`
	Frames   []string `json:"frames"` // the innermost first
}

// StackGroup is the ranks of one job that are at one place.
type StackGroup struct {
	Launcher string        `json:"launcher"`
	Job      string        `json:"job"`
	Number   uint32        `json:"job_number"`
	Of       int           `json:"of"` // ranks of the job that were looked at
	Ranks    string        `json:"ranks"`
	Means    string        `json:"means"`
	Frames   []string      `json:"frames"` // that they have in common, from the call that waits outwards
	Members  []Whereabouts `json:"members"`
}

// waits are the prefixes of functions that programs call and that wait for other ranks.
var waits = []string{"MPI_", "PMPI_", "mpi_", "pmpi_", "ompi_mpi_init", "ompi_mpi_finalize", "nccl", "PMIx_", "c10d::", "gloo::"}

// call is a stack from the outermost call of such a function outwards; all of it where there is none.
func call(frames []string) []string {
	if i := waitsAt(frames); i >= 0 {
		return frames[i:]
	}
	return frames
}

// waitsAt is the index of that call; -1: there is none.
func waitsAt(frames []string) int {
	for i, f := range slices.Backward(frames) {
		if !ofPython(f) && slices.ContainsFunc(waits, func(p string) bool { return strings.HasPrefix(f, p) }) {
			return i
		}
	}
	return -1
}

// hasLine says that a frame has its line, "step (train.py:33)".
func hasLine(frame string) bool {
	return strings.HasSuffix(frame, ")") && strings.Contains(frame, " (")
}

// ofPython says that a frame is a line of a Python program, whose file has no other name than Python's or is one of its own, "<string>".
func ofPython(frame string) bool {
	return hasLine(frame) && (strings.Contains(frame, ".py") || strings.Contains(frame, " (<"))
}

// function is a frame's without its line.
func function(frame string) string {
	name, _, _ := strings.Cut(frame, " (")
	return name
}

// Wait is the call of MPI, NCCL, Gloo or torch's c10d in which a rank waits; "": in none. whole says that the stack is one of the program's
// functions, down to main.
func (r *Whereabouts) Wait() (call string, whole bool) {
	n := len(r.Frames)
	if n == 0 || n >= maxFrames || !strings.HasPrefix(r.Means, "eu-stack") && !strings.HasPrefix(r.Means, "gdb") {
		return "", false
	}
	last := function(r.Frames[n-1])
	python := last == "Py_BytesMain" // of an interpreter without symbols but for those that it exports
	if !python && last != "main" {
		return "", false
	}
	if i := waitsAt(r.Frames); i >= 0 {
		return callOf(function(r.Frames[i])), true
	}
	return "", python || !slices.Contains(r.Frames[1:], "??") // which may be such a call; the innermost is mostly a stub of the linker's
}

// callOf is a call by the name that programs know. Open MPI's compiler ends MPI_Finalize with a jump, so that its own frame is gone.
func callOf(function string) string {
	if inner, is := strings.CutPrefix(function, "ompi_mpi_"); is {
		return "MPI_" + strings.ToUpper(inner[:1]) + inner[1:]
	}
	if strings.HasPrefix(function, "PMPI_") {
		function = function[1:]
	}
	if strings.HasPrefix(function, "MPI_") { // of large counts (MPI 4.0, 2.6), as mpi4py calls them
		function = strings.TrimSuffix(function, "_c")
	}
	return function
}

// devices are beginnings of calls of a GPU's runtime or driver, in which a rank waits for its GPU: that may wait for other ranks.
var devices = pattern.Of(`^(?:cuda|cu|hip)[A-Z]`)

// onDevice says that a rank waits for its GPU.
func (r *Whereabouts) onDevice() bool {
	return slices.ContainsFunc(r.Frames, func(f string) bool { return !ofPython(f) && devices().MatchString(f) })
}

// maxFrames are of a stack that may go on.
const maxFrames = 64

// GroupStacks puts ranks together that are at one place.
func GroupStacks(list []Whereabouts) (groups []StackGroup) {
	type job struct {
		launcher, id string
		number       uint32
	}
	type place struct {
		job
		means, frames string
	}
	at, of := map[place]int{}, map[job]int{}
	for _, r := range list {
		j := job{r.Launcher, r.Job, r.Number}
		of[j]++
		frames := call(r.Frames)
		p := place{j, r.Means, strings.Join(frames, "\n")}
		i, known := at[p]
		if !known {
			i = len(groups)
			at[p] = i
			groups = append(groups, StackGroup{Launcher: r.Launcher, Job: r.Job, Number: r.Number, Means: r.Means, Frames: frames})
		}
		groups[i].Members = append(groups[i].Members, r)
	}
	for i := range groups {
		g := &groups[i]
		slices.SortFunc(g.Members, func(a, b Whereabouts) int { return cmp.Or(cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.Host, b.Host)) })
		g.Ranks, g.Of = ranksOf(g.Members), of[job{g.Launcher, g.Job, g.Number}]
	}
	slices.SortStableFunc(groups, func(a, b StackGroup) int {
		return cmp.Or(cmp.Compare(a.Launcher, b.Launcher), cmp.Compare(a.Job, b.Job), cmp.Compare(a.Number, b.Number),
			cmp.Compare(len(a.Members), len(b.Members)), cmp.Compare(a.Members[0].Rank, b.Members[0].Rank))
	})
	return groups
}

// ranksOf is the ranks of members in their order, "0-3,8". A set of them would take the memory that the largest rank names.
func ranksOf(members []Whereabouts) string {
	var b strings.Builder
	for i := 0; i < len(members); {
		first, last := members[i].Rank, members[i].Rank
		for ; i < len(members) && members[i].Rank-last <= 1; i++ { // the same one again where hosts tell of it twice
			last = members[i].Rank
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%d", first)
		if last > first {
			fmt.Fprintf(&b, "-%d", last)
		}
	}
	return b.String()
}

// StacksText is groups for a person.
func StacksText(groups []StackGroup) string {
	if len(groups) == 0 {
		return "no ranks run\n"
	}
	var b strings.Builder
	for i, g := range groups {
		if i == 0 || groups[i-1].Job != g.Job || groups[i-1].Launcher != g.Launcher || groups[i-1].Number != g.Number {
			fmt.Fprintf(&b, "job %s%s, by %s\n", g.Job, Spawned(g.Number), g.Launcher)
		}
		fmt.Fprintf(&b, "%s, by %s:\n", g.who(), g.Means)
		for _, f := range g.Frames {
			fmt.Fprintf(&b, "    %s\n", f)
		}
	}
	return b.String()
}

// Spawned tells a job that ranks have spawned from the run's first.
func Spawned(number uint32) string {
	if number == 0 {
		return ""
	}
	return fmt.Sprintf(" (spawned, %d)", number)
}

// who is the group's ranks with their hosts; of one rank the process too.
func (g *StackGroup) who() string {
	const mostHosts, mostText = 4, 60
	first := g.Members[0]
	if len(g.Members) == 1 {
		return fmt.Sprintf("rank %d (%s, pid %d), 1 of %d", first.Rank, first.Host, first.PID, g.Of)
	}
	var names []string
	for _, m := range g.Members {
		if !slices.Contains(names, m.Host) && len(names) <= mostHosts {
			names = append(names, m.Host)
		}
	}
	if len(names) > mostHosts {
		names = append(names[:mostHosts], "and others")
	}
	ranks := "ranks " + g.Ranks
	if len(ranks) > mostText {
		ranks = fmt.Sprintf("ranks %d and others", first.Rank)
	}
	return fmt.Sprintf("%s (%s), %d of %d", ranks, strings.Join(names, ", "), len(g.Members), g.Of)
}
