package logs

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
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
		list := r.found.of(w, func(f *finding) bool { return !f.warns && !(f.complains() && r.lanes[f.lane].since() >= calms) })
		if len(list) > 0 {
			return r.found.earlier(r.found.behind(slices.MinFunc(list, compare), r.named))
		}
		if w == 0 {
			return r.unended()
		}
	}
}

// complains says that a finding is a mere complaint, which no sign knows and no end follows.
func (f *finding) complains() bool {
	return f.weak && f.general && !f.final
}

// since counts the latest lines of a process after it complained.
func (h *heard) since() (n int) {
	for _, text := range h.recent {
		switch {
		case has(text, "boiler"):
		case stackLine().MatchString(text), reasons().MatchString(text):
			n = 0
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
	if c := r.crowd.faint; f == nil && c != nil && !r.ended && r.number-c.number <= before {
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
