package logs

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/pattern"
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
	if r.first.killed && (f.byItself() || f.kind == verdict.ExitCode && f.who.rank >= 0 && f.told.by != r.first.by) {
		if r.named = nil; f.told.by == r.first.by {
			f.who = ending{rank: f.lane.rank}
		}
	}
	n := r.accused(f)
	switch {
	case n.sure == verdict.OneOfSeveral:
		n.who = ending{rank: -1}
	case n.who.rank < 0 && f.ofTheJob():
		n.sure = verdict.Certain
		if f.likely || f.weak {
			n.sure = verdict.Probable
		}
	case n.who.rank < 0:
		n.sure = verdict.Unknown
	case f.likely || f.weak, f.kind == verdict.NCCL: // which has it of another one more often than of its own
		n.sure = verdict.Probable
	}
	twice := f.lane.rank < 0 && (n.why != "" && f.weight > verdict.Wait || f.told.by != "" || is(f.kind, "twice")) && r.twice(f) // of which a launcher names one
	lost := f.killed() && (strings.Contains(f.line, "KILLED BY SIGNAL") || len(r.of(verdict.Ending, func(g *finding) bool {
		return g.kind == verdict.ExitCode && !g.likely && g.who.rank >= 0 && g.who.rank != n.who.rank
	})) > 0) // who exited may have lost the one that was killed, or be why it was; Intel MPI tells of its own kills alike
	dumped := len(r.crowd.dumps) > 1 && f.lane.rank < 0 && (f.kind == verdict.Crash || f.kind == verdict.Segfault || n.why != "")
	if n.who.rank >= 0 && (twice || lost || dumped || slices.Contains(r.crowd.alike, f.kind)) {
		n.who, n.sure, n.why = ending{rank: -1, host: n.who.host}, verdict.Unknown, ""
	}
	// torchrun names as the first, of those that ended in one second, whom it looked at first.
	all := append(slices.Clone(r.torch.same[r.torch.time]), r.torch.who.rank)
	all = slices.DeleteFunc(all, func(rank int) bool { return rank < 0 }) // its first one is not in the log
	doubt := n.sure == verdict.Probable || (f.weight == verdict.Ending || f.lane.rank < 0) && n.who.rank >= 0
	if doubt && (r.torch.who.rank >= 0 || r.torch.at > 0) && len(all) > 1 && slices.Contains(all, n.who.rank) {
		n = several(all)
	}
	return r.doubted(f, n)
}

// doubted is whose a finding is where other lines show that another process failed as early: its own traceback is not at its end, or torch's
// agent saw it end first, which a higher rank on its host cannot be.
func (r *Reader) doubted(f *finding, n named) named {
	all := []int{n.who.rank}
	for key, h := range r.lanes {
		if key.file == f.file && key.rank >= 0 && h.trace == frames {
			all = append(all, key.rank)
		}
	}
	for _, g := range r.of(verdict.Ending, func(g *finding) bool { return strings.Contains(g.line, "failed (exitcode: ") }) {
		if g.who.local-1 > n.who.rank {
			all = append(all, g.who.local-1)
		}
	}
	if len(all) == 1 || f.weight < verdict.Program || n.who.rank < 0 || f.lane.rank != n.who.rank {
		return n
	}
	return several(all)
}

// twice says that several processes wrote a finding's line, and none says which wrote it first.
func (r *Reader) twice(f *finding) bool {
	return len(r.of(f.weight, func(g *finding) bool { return g.file == f.file && g.line == f.line && g.lane == f.lane })) > 1
}

// killed says that a process was killed, by whomever.
func (f *finding) killed() bool { return f.kind == verdict.Killed }

// shot says that signal 9 killed it, of which a word of memory is the cause.
func (f *finding) shot() bool { return f.kind == verdict.Killed && f.weight == verdict.Cause }

// byItself says that a process ended by its own word, so that nobody had to kill it.
func (f *finding) byItself() bool {
	return is(f.kind, "byItself") || f.kind == verdict.Crash && f.weight == verdict.Program
}

// ofTheJob says that a kind of failure is no rank's: whoever is named nearby was only ended with it.
func ofTheJob(k verdict.Kind) bool { return is(k, "ofTheJob") }

// ofTheJob says that a failure is the whole job's.
func (f *finding) ofTheJob() bool {
	return ofTheJob(f.kind) || has(f.line, "whole")
}

func (r *Reader) accused(f *finding) named {
	switch {
	case f.ofTheJob():
		rank := -1
		switch f.kind {
		case verdict.DNS, verdict.Identity, verdict.OtherVersion, verdict.OutputLost: // which a rank of its own may have met
			rank = f.lane.rank
		}
		return named{who: ending{rank: rank, host: f.who.host}, sure: verdict.Certain}
	case f.kind == verdict.AgentLost, f.kind == verdict.Mismatch && f.general: // with an agent all ranks of its host are lost
		return named{who: ending{rank: -1, host: f.who.host}}
	case f.kind == verdict.CollectiveMismatch:
		return r.differ(f)
	case f.weight <= verdict.Wait && !f.general, verdict.Of(f.kind).Weight <= verdict.Wait:
		return r.awaited(f)
	case f.weight == verdict.Ending && f.kind == verdict.ExitCode && len(r.failed) > 1 && r.named == nil:
		return several(r.failed)
	case f.weight == verdict.Ending && r.named != nil && r.named.rank >= 0:
		n, list := named{who: *r.named, sure: verdict.Certain}, r.equals(f)
		tagged := f.lane.rank >= 0 && f.lane.rank != n.who.rank && (f.kind == verdict.Crash || f.kind == verdict.Segfault)
		if tagged || len(list) > 0 && r.torch.time == "" {
			return several(append(list, n.who.rank, f.lane.rank))
		} else if len(list) > 0 {
			n.sure = verdict.Probable
		}
		return n
	}
	n := r.itself(f)
	if n.sure == verdict.OneOfSeveral {
		return n
	} else if n.who.rank < 0 {
		var all idset.Set
		for _, g := range r.of(f.weight, func(g *finding) bool { return g.kind == f.kind && g.among.Len() > 1 && g.file == f.file }) {
			all = all.Union(g.among)
		}
		if !all.Empty() {
			return named{who: ending{rank: -1, host: n.who.host}, sure: verdict.OneOfSeveral, among: all}
		}
		return n
	}
	alike := append(r.equals(f), r.besides(f)...)
	if len(alike) == 0 && slices.Contains(r.crowd.mixed, n.who.rank) { // which of them failed so, their lines do not tell
		alike = append(alike, r.crowd.mixed...)
	}
	if len(alike) > 0 {
		n = several(append(alike, n.who.rank))
	}
	if n.who.rank >= 0 && r.many(f) {
		n = named{who: ending{rank: -1, host: n.who.host}}
	}
	return n
}

// many says that other processes say of themselves what a finding tells, each by its own number or rank: in its words, but where none could start.
func (r *Reader) many(f *finding) bool {
	pids, ranks, initial := map[int]bool{0: true, f.who.pid: true}, map[int]bool{-1: true, f.who.rank: true}, f.kind == verdict.InitFailed
	for _, list := range r.found {
		for _, g := range list {
			if g.kind == f.kind && g.file == f.file && (initial || r.torch.time == "" && !g.over && f.who.pid > 0 && alike(g.line) == alike(f.line)) {
				pids[g.who.pid], ranks[g.who.rank] = true, true
			}
		}
	}
	return len(pids) > 2 || initial && len(ranks) > 2
}

func several(ranks []int) named {
	set := idset.Of(slices.DeleteFunc(slices.Clone(ranks), func(rank int) bool { return rank < 0 })...)
	if set.Len() == 1 {
		return named{who: ending{rank: set.First()}, sure: verdict.Probable}
	}
	return named{who: ending{rank: -1}, sure: verdict.OneOfSeveral, among: set}
}

// itself is the process of which a finding's own line, its tag or its neighbours speak.
func (r *Reader) itself(f *finding) named {
	n := named{who: f.who, sure: verdict.Certain}
	if n.who.rank >= 0 {
		return n
	}
	if n.who.pid > 0 {
		for _, p := range []process{{n.who.host, n.who.pid}, {"", n.who.pid}} {
			if rank, ok := r.pids[p]; ok {
				n.who.rank = rank
				return n
			}
		}
	}
	if n.who.rank = f.spoken(); n.who.rank >= 0 {
		return n
	}
	n.sure = verdict.Probable
	if r.named != nil && r.named.rank >= 0 && n.who.fits(*r.named) {
		n.who, n.why = n.who.or(*r.named), fmt.Sprintf("the launcher names rank %d as the one that failed", r.named.rank)
		return n
	}
	if n.who.rank = f.near - 1; n.who.rank >= 0 {
		n.why = fmt.Sprintf("the lines around it are of rank %d", n.who.rank)
		return n
	}
	if len(r.waits) == 1 {
		n.who.rank = r.waits[0]
		n.why = fmt.Sprintf("others say that they lost rank %d", n.who.rank)
		return n
	}
	if g := r.victim(f); g != nil {
		if others := append(r.equals(g), r.besides(g)...); len(others) > 0 {
			return several(append(others, g.who.rank))
		}
		n.who.rank, n.why = g.who.rank, fmt.Sprintf("rank %d is the first that failed", g.who.rank)
		return n
	}
	if n.who.local > 0 && len(r.hosts) < 2 && !meets(f.kind) { // who could not meet is not the only one, and other hosts have this number too
		n.who.rank = n.who.local - 1
		n.why = "by its rank on its host, where the log has one host"
	}
	return n
}

// spoken is the rank of which a finding's own line speaks; -1: of none, or of several.
func (f *finding) spoken() int {
	if list := f.speaks(); len(list) == 1 && !another().MatchString(f.line) {
		return list[0]
	}
	return -1
}

// itsRank is the rank that is known of a finding, or of which its own line speaks.
func (f *finding) itsRank() int {
	if f.who.rank >= 0 {
		return f.who.rank
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

// differ is the ranks that did not do the same. Who names only one, and not as the one to look at, tells of itself.
func (r *Reader) differ(f *finding) named {
	list := f.speaks()
	switch {
	case len(list) > 1:
		return several(list)
	case len(list) == 0 || f.who.rank != list[0] || f.lane.rank == list[0]:
		return named{who: ending{rank: -1, host: f.who.host}}
	}
	return named{who: ending{rank: list[0]}, sure: verdict.Probable}
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
	if f.kind == verdict.Collective || f.kind == verdict.Rendezvous || f.kind == verdict.StuckInit {
		rank, why, _ := r.absent()
		return named{who: ending{rank: rank}, sure: verdict.Probable, why: why}
	}
	return named{who: ending{rank: -1}}
}

// tellers is the ranks that say that they lost or waited for another one.
func (r *Reader) tellers() (list []int) {
	for _, w := range []verdict.Weight{verdict.Echo, verdict.Wait, verdict.Program} {
		for _, f := range r.found[w] {
			if f.over || f.kind == verdict.Interrupted || f.kind == verdict.Mismatch || f.weak && f.kind == verdict.ExitCode || w == verdict.Program && verdict.Of(f.kind).Weight > verdict.Wait {
				continue
			}
			rank := f.who.rank
			if rank < 0 && f.who.pid > 0 {
				if known, ok := r.pids[process{f.who.host, f.who.pid}]; ok {
					rank = known
				}
			}
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
	if len(list) == 0 {
		return ""
	}
	return idset.Of(list...).String()
}

// equals is the other ranks that failed alike, of which nothing tells the first.
func (r *Reader) equals(f *finding) (list []int) {
	own := f.itsRank()
	for _, g := range r.found[f.weight] {
		rank := g.itsRank()
		tagged := f.kind == verdict.Segfault && f.lane.rank >= 0 && (g.lane.rank >= 0 || r.named != nil && r.named.rank == rank) // whatever the words
		if g.over || g.weak && !f.weak || g.kind != f.kind || rank < 0 || rank == own ||
			slices.Contains(list, rank) || f.kind != verdict.Abort && !tagged && alike(g.line) != alike(f.line) {
			continue
		}
		const apart = 2e9 // ns by which clocks and buffers do not differ
		if f.time.IsZero() || g.time.IsZero() || g.time.Sub(f.time) <= apart {
			list = append(list, rank)
		}
	}
	return list
}

var anyNumber = pattern.Of(`[0-9a-f]*[0-9][0-9a-f]*`)

// alike is the beginning of a line without what differs from rank to rank: its numbers, and addresses.
func alike(text string) string {
	text = anyNumber().ReplaceAllString(text, "")
	return text[:min(len(text), 60)]
}

// besides are the ranks of which a launcher says in one line that they ended as the one of a finding did.
func (r *Reader) besides(f *finding) (ranks []int) {
	end := func(g *finding) string { return g.line[strings.LastIndex(g.line, ": ")+1:] }
	for _, g := range r.of(f.weight, func(g *finding) bool {
		return g.kind == f.kind && g.among.Len() > 1 && g.file == f.file && (end(g) == end(f) || g.told.by == f.told.by)
	}) {
		for rank := range g.among.All() {
			if ranks = append(ranks, rank); len(ranks) >= maxFound {
				return ranks
			}
		}
	}
	return ranks
}

// victim is the first rank that failed by itself, where the kernel's log or a batch system's has the cause without it.
func (r *Reader) victim(f *finding) (first *finding) {
	for w := verdict.Wait + 1; w <= verdict.Cause; w++ {
		for _, g := range r.found[w] {
			if g.who.rank >= 0 && !g.weak && !g.over && !(r.first.killed && g.killed()) &&
				f.who.fits(ending{rank: -1, host: g.who.host, pid: g.who.pid}) && (first == nil || g.order < first.order) {
				first = g
			}
		}
	}
	return first
}
