package logs

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/launcher/verdict"
)

// named is whose a failure is, and how sure that is.
type named struct {
	who   ending
	sure  verdict.Confidence
	among idset.Set // OneOfSeveral
	why   string    // where the finding's own line does not say so
}

// whose is the process that a finding is about.
func (r *Reader) whose(f *finding) named {
	// The launcher names one that it has killed itself.
	if r.first.killed && (f.byItself() || f.kind == verdict.ExitCode) {
		if r.named = nil; f.told.by == r.first.by {
			f.who = ending{rank: f.lane.rank}
		}
	}
	n := r.accused(f)
	switch {
	case n.sure == verdict.OneOfSeveral:
		n.who = ending{rank: -1}
	case n.who.rank < 0 && !f.ofTheJob():
		n.sure = verdict.Unknown
	case n.who.rank < 0 && !f.likely && !f.weak:
		n.sure = verdict.Certain
	case f.likely || f.weak, f.kind == verdict.NCCL: // which has it of another one more often than of its own
		n.sure = verdict.Probable
	}
	return r.shown(f, n)
}

// killed says that a process was killed, by whomever.
func (f *finding) killed() bool { return f.kind == verdict.Killed }

// shot says that signal 9 killed it, of which a word of memory is the cause.
func (f *finding) shot() bool { return f.kind == verdict.Killed && f.weight == verdict.Cause }

// byItself says that a process ended by its own word, so that nobody had to kill it.
func (f *finding) byItself() bool {
	return is(f.kind, "byItself") || f.kind == verdict.Crash && f.weight == verdict.Program
}

// ofTheJob says that a failure is no rank's but the whole job's: whoever is named nearby was only ended with it.
func (f *finding) ofTheJob() bool { return is(f.kind, "ofTheJob") || has(f.line, "whole") }

func (r *Reader) accused(f *finding) named {
	switch {
	case f.ofTheJob():
		return named{who: f.who.there(), sure: verdict.Certain}
	case f.kind == verdict.CollectiveMismatch && len(f.speaks()) > 1: // who names one tells of itself
		return several(f.speaks())
	case f.kind == verdict.CollectiveMismatch, f.kind == verdict.AgentLost, f.kind == verdict.Mismatch && f.general: // with an agent all of its host are lost
		return named{who: f.who.there()}
	case f.weight <= verdict.Wait && !f.general, verdict.Of(f.kind).Weight <= verdict.Wait:
		return r.awaited(f)
	case f.kind == verdict.ExitCode && len(r.failed) > 1 && r.named == nil:
		return several(r.failed)
	case f.weight == verdict.Ending && r.named != nil && r.named.rank >= 0:
		return named{who: *r.named, sure: verdict.Certain}
	}
	n := r.itself(f)
	if n.who.rank < 0 {
		var all idset.Set
		for _, g := range r.found.of(f.weight, func(g *finding) bool { return g.kind == f.kind }) {
			all = all.Union(g.among)
		}
		if !all.Empty() {
			return named{who: n.who.there(), sure: verdict.OneOfSeveral, among: all}
		}
	}
	return n
}

func several(ranks []int) named {
	set := idset.Possible(ranks...)
	switch set.Len() {
	case 0:
		return named{who: ending{rank: -1}}
	case 1:
		return named{who: ending{rank: set.First()}, sure: verdict.Probable}
	}
	return named{who: ending{rank: -1}, sure: verdict.OneOfSeveral, among: set}
}

// itself is the process of which a finding's own line, its tag or its neighbours speak.
func (r *Reader) itself(f *finding) named {
	n := named{who: f.who, sure: verdict.Certain}
	if n.who.rank = r.itsRank(f); n.who.rank >= 0 {
		return n
	}
	n.sure = verdict.Probable
	if r.named != nil && r.named.rank >= 0 && n.who.fits(*r.named) {
		n.who, n.why = n.who.or(*r.named), fmt.Sprintf("the launcher names rank %d as the one that failed", r.named.rank)
		return n
	}
	if len(r.waits) == 1 {
		n.who.rank = r.waits[0]
		n.why = fmt.Sprintf("others say that they lost rank %d", n.who.rank)
		return n
	}
	if g := r.victim(f); g != nil {
		n.who.rank, n.why = g.who.rank, fmt.Sprintf("rank %d is the first that failed", g.who.rank)
		return n
	}
	if n.who.local > 0 && len(r.hosts) < 2 { // other hosts have this number, too
		n.who.rank = n.who.local - 1
		n.why = "by its rank on its host, where the log has one host"
	}
	return n
}

// known is the rank of a process, by its number where other lines tell it; -1: none does.
func (r *Reader) known(e ending) int {
	for _, p := range []process{{e.place(), e.pid}, {"", e.pid}} {
		if rank, ok := r.pids[p]; ok && e.rank < 0 {
			return rank
		}
	}
	return e.rank
}

// spoken is the rank of which a finding's own line speaks; -1: of none, or of several.
func (f *finding) spoken() int {
	if list := f.speaks(); len(list) == 1 && !another().MatchString(f.line) {
		return list[0]
	}
	return -1
}

// itsRank is the rank that is known of a finding, or of which its own line speaks.
func (r *Reader) itsRank(f *finding) int {
	if rank := r.known(f.who); rank >= 0 {
		return rank
	}
	return f.spoken()
}

// speaks is the ranks that a finding's own line names.
func (f *finding) speaks() (list []int) {
	for _, m := range loose().FindAllStringSubmatch(f.line, 8) {
		if rank := number(m[1] + m[2]); rank >= 0 && !slices.Contains(list, rank) {
			list = append(list, rank)
		}
	}
	return list
}

// awaited is the rank that others wait for or have lost, where a line names it or their operations show it. Who says that it waits or that it
// lost another one is not to blame.
func (r *Reader) awaited(f *finding) named {
	if len(r.waits) > 0 {
		n := several(r.waits)
		if n.sure == verdict.Probable {
			n.why = fmt.Sprintf("others say that they wait for rank %d, or lost it", n.who.rank)
		}
		return n
	}
	if f.kind == verdict.Collective {
		rank, why, _ := r.absent()
		return named{who: ending{rank: rank}, sure: verdict.Probable, why: why}
	}
	return named{who: ending{rank: -1}}
}

// tellers is the ranks that say that they lost or waited for another one.
func (r *Reader) tellers() (list []int) {
	for _, w := range []verdict.Weight{verdict.Echo, verdict.Wait, verdict.Program} {
		for _, f := range r.found[w] {
			if f.over || f.kind == verdict.Interrupted || f.kind == verdict.Mismatch || f.weak && f.general || w == verdict.Program && verdict.Of(f.kind).Weight > verdict.Wait {
				continue
			}
			rank := r.known(f.who)
			if rank < 0 && !strings.Contains(f.line, "failed to pass") {
				rank = f.spoken()
			}
			if rank >= 0 && !slices.Contains(list, rank) && !slices.Contains(r.waits, rank) {
				list = append(list, rank)
			}
		}
	}
	return list
}

// reporters is the ranks that only report, without those that are named; "": none.
func (r *Reader) reporters(n named) string {
	list := slices.DeleteFunc(r.tellers(), func(t int) bool { return t == n.who.rank || n.among.Contains(t) })
	return idset.Possible(list...).String()
}

// victim is the first rank that failed by itself, where the kernel's log or a batch system's has the cause without it.
func (r *Reader) victim(f *finding) (first *finding) {
	for _, g := range slices.Concat(r.found[verdict.Wait+1:]...) {
		if g.who.rank >= 0 && !g.weak && !g.over && !(r.first.killed && g.killed()) &&
			f.who.fits(ending{rank: -1, host: g.who.host, pod: g.who.pod, pid: g.who.pid}) && (first == nil || g.order < first.order) {
			first = g
		}
	}
	return first
}
