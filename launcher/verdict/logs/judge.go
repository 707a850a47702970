package logs

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/mpiup/mpiup/internal/hostlist"
	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher/verdict"
)

// Verdict is what the lines say; false where they tell of no failure. A host in it has a name that is one: who reads it puts it into commands.
func (r *Reader) Verdict() (verdict.Verdict, bool) {
	v, found := r.judge()
	if hostlist.CheckName(v.Host) != nil {
		v.Host = ""
	}
	return v, found
}

func (r *Reader) judge() (verdict.Verdict, bool) {
	if v := r.own.verdict(); v != nil {
		return *v, true
	}
	f := r.guilty()
	if f == nil {
		if r.hang != nil {
			v := *r.hang
			v.Advice = append([]string{StillRuns}, r.site.advice(v.Kind, strings.Join(v.Evidence, "\n"))...)
			return v, true
		}
		return verdict.Verdict{}, false
	}
	n := r.whose(f)
	v := verdict.Verdict{Kind: f.kind, Likely: f.likely && !(f.shot() && f.why == nil), Host: n.who.host, PID: n.who.pid,
		Evidence: append([]string{f.line}, f.why...), Confidence: n.sure, Why: n.why, Reporters: r.reporters(n)}
	if v.Host == "" && (n.who.rank < 0 || n.who.rank == f.lane.rank) { // else it may be the launcher's pod
		v.Host = n.who.pod
	}
	switch {
	case n.sure == verdict.OneOfSeveral:
		v.Ranks = n.among.String()
	case n.who.rank >= 0:
		v.Rank = &n.who.rank
		if h := r.lanes[lane{file: f.file, rank: n.who.rank}]; h != nil {
			v.Stderr = slices.Clone(h.first)
		}
	}
	switch f.kind {
	case verdict.GPUFault, verdict.GPUError, verdict.GPUMemory, verdict.FabricDown, verdict.FabricError:
		v.GPU, v.PCI, v.HCA = job.DevicesIn(f.line)
	}
	v.Advice = r.site.advice(f.kind, f.line)
	return v, true
}

// guilty is the finding that explains most, of those that explain as much the first. What is over explains nothing.
func (r *Reader) guilty() *finding {
	for w := verdict.Cause; ; w-- {
		list := r.of(w, func(f *finding) bool { return !f.warns && !(f.complains() && r.lanes[f.lane].since() >= calms) })
		if len(list) > 0 {
			return r.earlier(r.behind(slices.MinFunc(list, compare)))
		}
		if w == 0 {
			return r.unended()
		}
	}
}

// complains says that a finding is a mere complaint, which no sign knows and no end follows.
func (f *finding) complains() bool {
	return f.weak && f.general && f.kind == verdict.ExitCode && !f.final
}

// greets says that ranks have met in the latest lines of a process.
func (h *heard) greets() bool { return h != nil && slices.ContainsFunc(h.recent, met().Match) }

// since counts the latest lines of a process after it complained. One by which ranks meet counts for more.
func (h *heard) since() (n int) {
	for _, text := range h.recent {
		switch {
		case has(text, "boiler"):
		case stackLine().MatchString(text), reasons().MatchString(text):
			n = 0
		case met().Match(text):
			n += calms / 2
		default:
			n++
		}
	}
	return n
}

// unended is the exception of a traceback in which a log ends, of which it may have the last lines alone, or the failure of which its last lines
// sound, though no sign knows them, or what it tries again and again; nil: it ends in none.
func (r *Reader) unended() (f *finding) {
	for key, h := range r.lanes {
		kind := h.pleads()
		last := h.recent[max(len(h.recent)-2, 0):]
		ends := !looksRaised(h.before) && slices.ContainsFunc(last, func(s string) bool { return strings.HasPrefix(s, `File "`) && strings.Contains(s, ", in ") })
		first := f == nil || cmp.Or(strings.Compare(cut(h.before), f.line), key.file-f.file) < 0 // in whatever order lanes come
		if ends || h.trace == frames {
			kind = verdict.Python
		}
		if kind != "" && !h.shrug && h.ignored == 0 && !r.ended && first {
			f = &finding{kind: kind, likely: true, line: cut(h.before), who: ending{rank: -1}, lane: lane{file: key.file, rank: -1}, file: key.file}
		}
	}
	if c := r.crowd.faint; f == nil && c != nil && !r.ended && r.number-c.number <= before && (!r.lanes[c.lane].greets() || ends().MatchString(c.line)) {
		return c
	}
	return f
}

// pleads is of what kind the latest lines of a process are where it tries one thing again and again, which fails; "": they are not.
func (h *heard) pleads() verdict.Kind {
	f, last := finding{}, h.recent[max(len(h.recent)-maxRecent/2, 0):]
	for _, text := range last {
		if f.plainly(text, "starts"); len(last) < maxRecent/2 || !failure().MatchString(text) && !shrugs().Match(text) {
			return ""
		}
	}
	return f.kind
}

// behind is what explains a finding, else that one: a GPU that failed explains what CUDA says, a call of MPI that failed the crash after it, and
// a time-out before an end without a reason that end, since a launcher that had seen an earlier one would not have waited so long.
func (r *Reader) behind(f *finding) *finding {
	lacked := func(g *finding) bool { // memory, for which it was killed, or which it used all the same
		used := (f.kind == verdict.Crash || f.kind == verdict.Segfault) && (g.lane == f.lane || g.lane.rank < 0) && precedes(g, f) && f.number-g.number <= before
		return g.kind == verdict.OutOfMemory && !g.weak && g.file == f.file && (used && !g.warns || f.shot() || f.killed() && g.warns)
	}
	list := append(r.of(verdict.Cause, lacked), r.of(verdict.Wait, lacked)...)
	code := hydraCode().FindStringSubmatch(f.line) // which MPI_Abort may have been told, and is no signal's
	switch {
	case len(list) > 0:
	case f.kind == verdict.GPUError:
		list = r.of(verdict.Cause, func(g *finding) bool { return !g.weak && g.kind == verdict.GPUFault })
	case f.kind == verdict.NCCL, f.kind == verdict.MPIError && (f.weight == verdict.Ending || f.likely): // which a fabric's or peer's failure explains
		list = r.of(verdict.Of(verdict.FabricError).Weight, func(g *finding) bool {
			lost := g.kind == verdict.PeerLost && f.kind == verdict.MPIError && !g.general && g.number-f.number <= after
			return g.file == f.file && (g.kind == verdict.FabricError && g.number-f.number <= before || lost && !g.weak)
		})
	case f.kind == verdict.NoFinalize: // as Open MPI says of any end
		list = append(r.of(verdict.Ending, func(g *finding) bool { return g.kind == verdict.Abort && !g.likely && precedes(g, f) }),
			r.of(verdict.Echo, func(g *finding) bool { return g.kind == verdict.FabricError && !g.weak && precedes(g, f) })...)
	case f.killed(), f.kind == verdict.Terminated, f.kind == verdict.AgentLost: // by the batch system, of which another line tells why
		list = r.of(verdict.Ending, func(g *finding) bool {
			if g.kind == verdict.ExitCode && strings.Contains(f.line, "died from signal") && strings.Contains(g.line, " exited with code ") {
				return true // PALS kills all others
			}
			others := g.who.rank != f.who.rank || g.ofTheJob() || code != nil && strings.Contains(g.line, " "+code[1])
			kills := others && is(g.kind, "kills") && !g.likely && !g.weak // what is left
			return kills && precedes(g, f) || g.kind == verdict.TimeOut && g.file == f.file && g.number-f.number <= after || f.late(g)
		})
	case f.kind == verdict.Abort: // by its own handler of a signal that somebody sent
		list = r.of(verdict.Echo, func(g *finding) bool {
			return g.kind == verdict.Killed && (g.lane == f.lane || g.who.rank == f.who.rank) && g.order < f.order && f.number-g.number <= after
		})
	case f.kind == verdict.Crash || f.kind == verdict.Segfault:
		list = r.of(verdict.Program, func(g *finding) bool {
			return (g.kind == verdict.MPIError || g.kind == verdict.InitFailed) && !g.weak && !g.likely && !g.warns &&
				g.lane == f.lane && g.order < f.order && f.number-g.number <= after
		})
		list = append(list, r.of(verdict.Ending, func(g *finding) bool { // which calls abort(), in some MPI; or mpiexec itself crashed, at last
			given := code != nil && strings.Contains(g.line, " "+code[1]) || f.who.rank < 0 && r.named != nil && r.first.at < f.number-1
			own := f.crashed() && given && g.kind == verdict.Abort && !g.likely && precedes(g, f)
			return own || has(f.line, "aborts") && g.kind == verdict.Abort && strings.Contains(g.line, "MPI_Abort") && g.lane == f.lane && g.number-f.number <= before
		})...)
	}
	if len(list) == 0 && f.kind == verdict.Crash && (f.weight == verdict.Ending || has(f.line, "aborts")) { // a library's that aborts by itself
		list = r.of(verdict.Echo, func(g *finding) bool {
			return g.kind == verdict.FabricError && !g.likely && !g.weak && g.file == f.file && g.order < f.order && f.number-g.number <= 5*after // two stacks of it
		})
	}
	if len(list) == 0 && f.weight == verdict.Ending && (f.kind == verdict.Crash || f.kind == verdict.ExitCode || f.kind == verdict.Killed || f.likely) {
		list = r.of(verdict.Wait, func(g *finding) bool {
			what := f.kind == verdict.Crash && g.number-f.number == 1 // of the exception that ended a program of C++
			if g.general && (g.kind == f.kind || g.number-f.number > before) || !g.general && g.order > f.order && !what {
				return false
			}
			return !g.weak && (g.kind != verdict.Network || g.general) && g.file == f.file
		})
	}
	if len(list) == 0 && f.weight == verdict.Ending && f.kind == verdict.ExitCode {
		list = r.of(verdict.Echo, func(g *finding) bool {
			return g.general && g.kind != verdict.MPIError && is(g.kind, "complains") && g.file == f.file && g.order < f.order && f.number-g.number <= 2*after
		})
	}
	if len(list) == 0 && f.near != nil && f.number-f.near.number <= after && (f.kind == verdict.ExitCode || f.kind == verdict.Interrupted) {
		list = append(list, f.near)
	}
	if len(list) == 0 {
		return f
	}
	why := slices.MinFunc(list, compare)
	// Who was killed did not end by an error of its own.
	who, same := f.who, why.lane == f.lane
	if f.kind == verdict.Segfault { // and others may have
		who, same = r.accused(f).who, true
	}
	if near := same && max(why.number-f.number, f.number-why.number) <= after; near && (why.general && !f.shot() || why.kind == verdict.OutOfMemory) {
		why.who = why.who.or(who)
	}
	return why
}

// late says that the batch system or a launcher had ended the whole job of a finding, as another one tells.
func (f *finding) late(g *finding) bool { return g.file == f.file && has(g.line, "late") }

// earlier is another rank's own exception that came before a finding, else that one: what came first is the cause, however plain its words.
func (r *Reader) earlier(f *finding) *finding {
	if f.weight != verdict.Cause || f.who.rank < 0 && !f.killed() {
		return f
	}
	list := r.of(verdict.Program, func(g *finding) bool {
		other := g.who.rank >= 0 && g.who.rank != f.who.rank || f.killed() && g.lane.rank < 0 // as a launcher kills those that are left
		return !g.weak && !g.likely && (g.kind == verdict.Python || g.kind == verdict.Crash) && other && precedes(g, f)
	})
	if len(list) == 0 {
		return f
	}
	return slices.MinFunc(list, compare)
}

// precedes says that a finding surely came before another one.
func precedes(a, b *finding) bool {
	if a.file != b.file {
		return !a.time.IsZero() && !b.time.IsZero() && a.time.Before(b.time)
	}
	return a.order < b.order
}

// of is the findings of a weight that fit and are not over.
func (r *Reader) of(w verdict.Weight, fits func(*finding) bool) (list []*finding) {
	for _, f := range r.found[w] {
		if !f.over && fits(f) {
			list = append(list, f)
		}
	}
	return list
}

// compare is the order of findings of one weight: what is sure and no warning first, then by time where that is known of both and they are
// of different files, then as they were read.
func compare(a, b *finding) int {
	word := strconv.FormatBool // "false" comes first
	if c := cmp.Or(cmp.Compare(word(a.weak), word(b.weak)), cmp.Compare(word(a.likely), word(b.likely))); c != 0 {
		return c
	}
	if a.file != b.file && !a.time.IsZero() && !b.time.IsZero() {
		return a.time.Compare(b.time)
	}
	return cmp.Compare(a.order, b.order)
}

// absent is the rank that others wait for: it has begun fewer operations than all others or waits in an earlier one, or it alone does not say
// that it waits.
func (r *Reader) absent() (rank int, why string, ok bool) {
	list := r.enq
	if len(list) == 0 {
		list = r.seq
	}
	groups := map[string]map[int]int{}
	var order []string
	for _, op := range list {
		if groups[op.group] == nil {
			groups[op.group] = map[int]int{}
			order = append(order, op.group)
		}
		groups[op.group][op.rank] = op.at
	}
	for _, g := range order {
		if rank, why, ok := last(groups[g]); ok {
			return rank, why, true
		}
	}
	return r.silent()
}

// last is the rank that alone is behind all others, two at least: of two that wait in different operations either may be why.
func last(at map[int]int) (int, string, bool) {
	ranks := slices.Collect(maps.Keys(at))
	slices.SortFunc(ranks, func(a, b int) int { return cmp.Or(cmp.Compare(at[a], at[b]), cmp.Compare(a, b)) })
	if len(ranks) < 3 || at[ranks[0]] == at[ranks[1]] {
		return -1, "", false
	}
	return ranks[0], fmt.Sprintf("rank %d is at operation %d, and no other rank is behind operation %d", ranks[0], at[ranks[0]], at[ranks[1]]), true
}

// silent is the only rank that does not say that it waits, where three or more do, and where the log has lines of all: the silent one's own, or
// another that says how many ranks the job has.
func (r *Reader) silent() (int, string, bool) {
	said, highest := map[int]bool{}, -1
	for _, f := range r.found[verdict.Wait] {
		if rank := r.itsRank(f); f.kind == verdict.Collective && rank >= 0 {
			said[rank], highest = true, max(highest, rank)
		}
	}
	size := max(r.size, highest+1)
	if len(said) < 3 || len(said) != size-1 {
		return -1, "", false
	}
	quiet := 0
	for said[quiet] {
		quiet++
	}
	spoke := false
	for file := range r.file + 1 {
		spoke = spoke || r.lanes[lane{file: file, rank: quiet}] != nil
	}
	waited := idset.Possible(slices.Collect(maps.Keys(said))...)
	if !spoke && r.size == 0 { // the log may lack that rank, and others
		return -1, fmt.Sprintf("ranks %s waited in a collective operation, and no line is of rank %d: look there first", waited, quiet), false
	}
	return quiet, fmt.Sprintf("ranks %s waited in a collective operation, and rank %d alone does not say so", waited, quiet), true
}
