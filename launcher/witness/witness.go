// Package witness decides who may be accused of holding the others up, and by whose word. PURE: what was told in, who may be named out.
//
//	a rank's page, its flight recorder, its PMI ──who says so of itself──▶ Claim ──Places.Accused──▶ whom it may name
//	/proc, stacks, PMI, as each host sees its own ──what was seen───────▶
//
// A rank may write anything about itself, and an agent anything about its ranks. So nobody is accused by what one side says:
//
//	its own host saw what tells it from those who wait                         ▶ accused
//	more than half of the ranks say that they wait, two at least, and
//	    more than half of the hosts have ranks of which most say so, two at least   ▶ accused
//	    or two ranks of its own host do, most of those there, each by its own word  ▶ accused
//	    or its own host saw it do what goes with that                          ▶ accused
//	anything else                                                              ▶ nobody
//
// A host's own agent carries what the accused's neighbours say, so a host counts as a witness against a rank of its own if most of the others
// there say so. Half of the ranks, or of the hosts, accuse nobody. With two hosts the word of one is never enough. What a liar can still do
// stands in docs/security.md.
//
// Values are not changed here, and may be used by several goroutines.
package witness

import "github.com/mpiup/mpiup/internal/idset"

// Places says which processes could say that they wait, and on which host each is.
type Places struct {
	All  idset.Set
	Host func(id int) string // "": nobody knows

	// Jobs are the processes of each job, where there may be several.
	Jobs []idset.Set

	// Hosts is how many hosts there are at least, where All are not on each of them.
	Hosts int
}

// Around are the places of the jobs that some processes are of.
func (p Places) Around(some idset.Set) Places {
	if len(p.Jobs) < 2 {
		return p
	}
	var all idset.Set
	for _, job := range p.Jobs {
		if job.Overlaps(some) {
			all = all.Union(job)
		}
	}
	p.All = p.All.Intersect(all)
	return p
}

// A Claim is that some processes are waited for.
type Claim struct {
	About idset.Set // who is waited for
	By    idset.Set // who says of itself that it waits

	// Seen are those of About whose own host saw them do something else than those who wait, which it, or each one's own host, saw wait.
	Seen idset.Set

	// Likely are those of About whose own host saw them do what fits the claim, and what an innocent may do as well: they compute, or rest.
	Likely idset.Set

	// Shared says that a process of a host may have written what all of that host say.
	Shared bool
}

// Accused are those of a claim whom it may name.
func (p Places) Accused(c Claim) (named idset.Set) {
	if c.About.Empty() || p.Host == nil {
		return named
	}
	by := c.By.Intersect(p.All).Sub(c.About)
	named = c.Seen.Intersect(c.About)
	if by.Len() < 2 || 2*by.Len() <= p.All.Len() {
		return named
	}
	say, hosts := p.saying(by, c.About)
	if len(say) >= 2 && 2*len(say) > hosts {
		return c.About
	}
	if c.Shared {
		return named
	}
	for id := range c.About.All() {
		neighbours := say[p.Host(id)]
		if neighbours >= 2 || c.Likely.Contains(id) {
			named.Add(id)
		}
	}
	return named
}

// saying are the hosts of which more than half of the processes say so, those aside whom they accuse, with how many do, and how many hosts there are.
func (p Places) saying(by, about idset.Set) (say map[string]int, hosts int) {
	others, all := map[string]int{}, map[string]bool{}
	say = map[string]int{}
	for id := range p.All.All() {
		host := p.Host(id)
		if host == "" {
			continue
		}
		all[host] = true
		if about.Contains(id) {
			continue
		}
		others[host]++
		if by.Contains(id) {
			say[host]++
		}
	}
	for host, n := range say {
		if 2*n <= others[host] {
			delete(say, host)
		}
	}
	return say, max(p.Hosts, len(all))
}

// Beside are those of some processes on whose own host one of others is: the same eyes see both.
func (p Places) Beside(some, others idset.Set) (beside idset.Set) {
	if p.Host == nil {
		return beside
	}
	hosts := map[string]bool{}
	for id := range others.Sub(some).All() {
		hosts[p.Host(id)] = true
	}
	delete(hosts, "")
	for id := range some.All() {
		if hosts[p.Host(id)] {
			beside.Add(id)
		}
	}
	return beside
}
