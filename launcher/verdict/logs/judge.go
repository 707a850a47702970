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
			return slices.MinFunc(list, compare)
		}
		if w == 0 {
			return nil
		}
	}
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
	if who.rank < 0 && who.pid > 0 {
		for _, p := range []process{{who.host, who.pid}, {"", who.pid}} {
			if rank, ok := r.pids[p]; ok {
				who.rank = rank
				break
			}
		}
	}
	if who.rank < 0 {
		for _, m := range loose().FindAllStringSubmatch(f.line, 1) {
			who.rank = number(m[1] + m[2])
		}
	}
	if who.rank < 0 && r.named != nil && (who.host == "" || r.named.host == "" || who.host == r.named.host) {
		who = who.or(*r.named)
	}
	if who.rank < 0 {
		who.rank = f.near - 1
	}
	if who.rank < 0 {
		who.rank = r.victim(f)
	}
	if who.rank < 0 && who.local > 0 && len(r.hosts) < 2 {
		who.rank = who.local - 1
	}
	return who
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
	at := r.enq
	if len(at) == 0 {
		at = r.seq
	}
	ranks := slices.Collect(maps.Keys(at))
	slices.SortFunc(ranks, func(a, b int) int { return cmp.Compare(at[a], at[b]) })
	if len(ranks) >= 2 && at[ranks[0]] < at[ranks[1]] {
		return ranks[0], true
	}
	return r.silent()
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
