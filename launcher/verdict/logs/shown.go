package logs

import (
	"slices"
	"strings"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/launcher/verdict"
)

// A rank is named only where the log shows that it failed, and nothing that others did, too: worse than silence is an accusation.
//
//	its tag, or its own line names it     others that failed alike, or that complained before, are as likely
//	a launcher names it, or a neighbour   and so are all others that ended by themselves: a launcher tells whom it saw first
//	its words, with another's number      that one is as likely (pattern.Twins)
//	a kind that strikes all alike         needs its own word, and another rank in another state

// company is what a log shows of other processes than the one that a finding is about.
type company struct {
	about       *finding
	rank        int
	tagged, own bool  // the tag of its line, or the line itself, names that one
	echoes      []int // ranks that only tell that they lost another one
	ranks       idset.Set
	pids        map[int]bool
	others      bool            // that are not named
	seen        map[string]bool // lines without a tag that tell of a failure
}

// shown is whose a finding is as far as the log shows it.
func (r *Reader) shown(f *finding, n named) named {
	if n.who.rank < 0 || verdict.Of(f.kind).Weight <= verdict.Wait {
		return n
	}
	c := company{about: f, rank: n.who.rank, tagged: f.lane.rank == n.who.rank, ranks: f.among, echoes: r.tellers(),
		pids: map[int]bool{0: true, f.who.pid: true}, seen: map[string]bool{f.line: true}}
	c.own = c.tagged || f.told.own
	c.add(n.who.rank, f.lane.rank)
	for _, g := range slices.Concat(r.found[:]...) {
		if g != f && !g.over && !g.warns {
			c.meet(g, r.rankOf(g), r.torch.time != "")
		}
	}
	if f.file == r.file {
		c.add(r.crowd.twins.Others(f.number, c.rank, func(line string) bool {
			return (!c.tagged || f.weight == verdict.Ending) && !f.crashed() && !f.killed() && troubles().MatchString(line) && !warns(line)
		})...)
	}
	contrast := false
	for key, h := range r.lanes {
		lost := len(h.open) > 0 && !slices.ContainsFunc(h.open, func(g *finding) bool { return g.weight > verdict.Wait }) // another one, as it says
		if c.tagged && (slices.ContainsFunc(h.recent, stackLine().MatchString) && !lost || len(h.open) == 0 && h.reason() != nil) {
			c.add(key.rank)
		}
		contrast = contrast || key.rank >= 0 && key.rank != c.rank
	}
	// torchrun names as the first, of those that ended in one second, whom it looked at first.
	all := append(slices.Clone(r.torch.same[r.torch.time]), r.torch.who.rank)
	if other := r.torch.time != "" && r.torch.who.rank != c.rank; other || !c.tagged && slices.Contains(all, c.rank) {
		c.add(slices.DeleteFunc(all, func(rank int) bool { return slices.Contains(c.echoes, rank) })...)
	}
	if slices.Contains(r.crowd.mixed, c.rank) { // which of them failed so, their lines do not tell
		c.add(r.crowd.mixed...)
	}
	switch {
	case c.ranks.Len() > 1:
		return named{who: ending{rank: -1}, sure: verdict.OneOfSeveral, among: c.ranks}
	case c.others, !c.ranks.Contains(c.rank), slices.Contains(r.crowd.alike, f.kind), !c.tagged && (len(c.pids) > 2 || len(r.crowd.dumps) > 1),
		!contrast && (is(f.kind, "anyRank") || is(f.kind, "allAlike") && (!c.own || c.rank == 0)),
		!c.own && has(strings.Join(append(f.why, f.line), " "), "allAlike"),
		c.own && f.weight < verdict.Cause && has(f.line, "reports"),
		f.killed() && strings.Contains(f.line, "KILLED BY SIGNAL"): // Intel MPI tells of its own kills alike
		return named{who: n.who.there(), sure: verdict.Unknown}
	}
	return n
}

// add takes ranks for those that may have failed.
func (c *company) add(ranks ...int) { c.ranks = c.ranks.Union(idset.Possible(ranks...)) }

// meet takes another finding into account. table says that torchrun's tells when each rank ended.
func (c *company) meet(g *finding, rank int, table bool) {
	f := c.about
	weak := g.weak && !f.weak
	code := exitCode().Find(g.line) // a program of Fortran exits with the number of its error
	like := !weak && (f.kind == g.kind || f.crashed() && g.crashed() || code != nil && strings.Contains(f.line, "severe ("+code[1]+")"))
	failed := verdict.Of(g.kind).Weight > verdict.Wait && !g.killed() && !g.ofTheJob()
	ended := failed && !weak
	if like || ended && !c.own {
		c.pids[g.who.pid] = true
		c.ranks = c.ranks.Union(g.among)
	}
	if !c.tagged && (failed || g.line == f.line) { // the same line is another process's
		c.others = c.others || c.seen[g.line] && (!c.own || g.line == f.line)
		c.seen[g.line] = true
	}
	earlier := failed && precedes(g, f) && (c.tagged || f.weight == verdict.Ending && !f.likely)
	first := strings.Contains(g.line, "failed (exitcode: ") && !slices.Contains(c.echoes, rank) // torch's agent looks at them in order
	if (like || ended && !c.own || earlier || first) && !(table && f.weight == verdict.Ending) {
		c.add(rank)
	}
}

// crashed says that a process crashed, by a word of its own or its signal.
func (f *finding) crashed() bool {
	return f.weight == verdict.Cause && (f.kind == verdict.Crash || f.kind == verdict.Segfault)
}

// rankOf is the rank of a finding, also by its number on its host; -1: none is known.
func (r *Reader) rankOf(g *finding) int {
	if rank := r.itsRank(g); rank >= 0 || len(r.hosts) > 1 || r.file > 0 {
		return rank
	}
	return g.who.local - 1
}
