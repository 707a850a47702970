package logs

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/mpiup/mpiup/launcher/verdict"
)

// Verdict is what the lines say; false where they tell of no failure.
func (r *Reader) Verdict() (verdict.Verdict, bool) {
	if r.own != nil {
		return *r.own, true
	}
	f := r.guilty()
	if f == nil {
		return verdict.Verdict{}, false
	}
	who := r.whose(f)
	v := verdict.Verdict{Kind: f.kind, Likely: f.likely, Host: who.host, PID: who.pid, Evidence: []string{f.line}}
	if who.rank >= 0 {
		v.Rank = &who.rank
		if h := r.lanes[lane{f.file, who.rank}]; h != nil {
			v.Stderr = slices.Clone(h.first)
		}
	}
	switch f.kind {
	case verdict.GPUFault, verdict.GPUError, verdict.GPUMemory, verdict.FabricDown, verdict.FabricError:
		v.GPU, v.PCI, v.HCA = verdict.Devices(f.line)
	}
	for _, do := range verdict.Of(f.kind).Do {
		v.Advice = append(v.Advice, strings.ReplaceAll(do, "`", ""))
	}
	return v, true
}

// guilty is the finding that explains most, of those that explain as much the first.
func (r *Reader) guilty() *finding {
	for w := verdict.Cause; ; w-- {
		if list := r.found[w]; len(list) > 0 {
			return r.behind(slices.MinFunc(list, compare))
		}
		if w == 0 {
			return nil
		}
	}
}

// behind is what explains a finding, else that one: a GPU that failed explains what CUDA says, and a time-out before an end without a
// reason explains that end, since a launcher that had seen an earlier one would not have waited so long.
func (r *Reader) behind(f *finding) *finding {
	var list []*finding
	switch {
	case f.kind == verdict.GPUError:
		list = r.of(verdict.Cause, func(g *finding) bool { return g.kind == verdict.GPUFault })
	case f.weight == verdict.Ending && (f.kind == verdict.Crash || f.kind == verdict.ExitCode || f.kind == verdict.Killed):
		list = r.of(verdict.Wait, func(g *finding) bool {
			return g.kind != verdict.Network && g.file == f.file && g.order < f.order
		})
	}
	if len(list) == 0 {
		return f
	}
	return slices.MinFunc(list, compare)
}

// of is the findings of a weight that fit and are no mere warnings.
func (r *Reader) of(w verdict.Weight, fits func(*finding) bool) (list []*finding) {
	for _, f := range r.found[w] {
		if !f.weak && fits(f) {
			list = append(list, f)
		}
	}
	return list
}

// compare is the order of findings of one weight: what is sure and no warning first, then by time where that is known of both and they are
// of different files, then as they were read.
func compare(a, b *finding) int {
	bit := func(b bool) int {
		if b {
			return 1
		}
		return 0
	}
	if c := cmp.Or(cmp.Compare(bit(a.weak), bit(b.weak)), cmp.Compare(bit(a.likely), bit(b.likely))); c != 0 {
		return c
	}
	if a.file != b.file && !a.time.IsZero() && !b.time.IsZero() {
		return a.time.Compare(b.time)
	}
	return cmp.Compare(a.order, b.order)
}

// whose is the process that a finding is about.
func (r *Reader) whose(f *finding) ending {
	who := f.who
	switch f.kind {
	case verdict.Interrupted, verdict.TimeOut, verdict.Usage, verdict.Slots, verdict.HostsMissing, verdict.OtherVersion, verdict.DNS, verdict.Identity, verdict.OutputLost:
		return ending{rank: f.lane.rank, host: who.host} // of the job: whoever is named nearby was only ended with it
	}
	if f.weight <= verdict.Ending && f.weight > verdict.Wait && r.named != nil && r.named.rank >= 0 {
		return *r.named
	}
	if f.kind == verdict.Collective || f.kind == verdict.Rendezvous || f.kind == verdict.StuckInit {
		if rank, ok := r.absent(); ok {
			return ending{rank: rank}
		}
	}
	if f.weight <= verdict.Wait && len(r.waits) > 0 {
		return ending{rank: r.waits[0]}
	}
	if f.weight <= verdict.Wait && r.several() {
		return ending{rank: -1} // which of those that lost or waited for another one spoke first says nothing
	}
	if who.rank < 0 && who.pid > 0 {
		for _, p := range []process{{who.host, who.pid}, {"", who.pid}} {
			if rank, ok := r.pids[p]; ok {
				who.rank = rank
				break
			}
		}
	}
	if who.rank < 0 {
		who.rank = f.spoken()
	}
	if who.rank < 0 && r.named != nil && (who.host == "" || r.named.host == "" || who.host == r.named.host) {
		who = who.or(*r.named)
	}
	if who.rank < 0 {
		who.rank = f.near - 1
	}
	if who.rank < 0 && len(r.waits) > 0 {
		who.rank = r.waits[0] // others name the one that they lost
	}
	if who.rank < 0 {
		who.rank = r.victim(f)
	}
	if who.rank < 0 && who.local > 0 && len(r.hosts) < 2 {
		who.rank = who.local - 1
	}
	return who
}

// spoken is the rank of which a finding's own line speaks; -1: of none.
func (f *finding) spoken() int {
	for _, m := range loose().FindAllStringSubmatch(f.line, 1) {
		return number(m[1] + m[2])
	}
	return -1
}

// several says that more than one rank lost or waited for another one.
func (r *Reader) several() bool {
	first := -1
	for _, w := range []verdict.Weight{verdict.Echo, verdict.Wait, verdict.Ending} {
		for _, f := range r.found[w] {
			rank := f.who.rank
			if rank < 0 {
				rank = f.spoken()
			}
			if rank < 0 {
				rank = f.who.local - 1
			}
			if rank >= 0 && first >= 0 && rank != first {
				return true
			}
			first = max(first, rank)
		}
	}
	return false
}

// victim is the first rank that failed by itself, where the kernel's log or a batch system's has the cause without it.
func (r *Reader) victim(f *finding) int {
	rank, order := -1, 0
	for w := verdict.Wait + 1; w <= verdict.Cause; w++ {
		for _, g := range r.found[w] {
			if g.who.rank >= 0 && !g.weak && (f.who.host == "" || g.who.host == "" || f.who.host == g.who.host) && (rank < 0 || g.order < order) {
				rank, order = g.who.rank, g.order
			}
		}
	}
	return rank
}

// absent is the rank that others wait for: a launcher or library names it, it has begun fewer operations than all others or waits in an
// earlier one, or it alone does not say that it waits.
func (r *Reader) absent() (int, bool) {
	if len(r.waits) > 0 {
		return r.waits[0], true
	}
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
		if rank, ok := last(groups[g]); ok {
			return rank, true
		}
	}
	return r.silent()
}

// last is the rank that alone is behind all others.
func last(at map[int]int) (int, bool) {
	ranks := slices.Collect(maps.Keys(at))
	slices.SortFunc(ranks, func(a, b int) int { return cmp.Compare(at[a], at[b]) })
	if len(ranks) < 2 || at[ranks[0]] == at[ranks[1]] {
		return -1, false
	}
	return ranks[0], true
}

// silent is the only rank below the highest one that does not say that it waits, where three or more do.
func (r *Reader) silent() (int, bool) {
	said := map[int]bool{}
	highest := -1
	for _, f := range r.found[verdict.Wait] {
		if f.kind == verdict.Collective && f.who.rank >= 0 {
			said[f.who.rank] = true
			highest = max(highest, f.who.rank)
		}
	}
	if len(said) < 3 || len(said) != highest {
		return -1, false
	}
	for rank := range highest {
		if !said[rank] {
			return rank, true
		}
	}
	return -1, false
}
