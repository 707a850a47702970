package placement

import (
	"fmt"
	"slices"

	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/layout"
)

// ownHosts says that programs have hosts of their own.
func ownHosts(apps []job.App) bool {
	return slices.ContainsFunc(apps, func(a job.App) bool { return len(a.On) > 0 })
}

// placePrograms places programs with hosts of their own one after the other, as they would be if each
// were spawned.
func placePrograms(hosts []job.Host, apps []job.App, p Policy) (*job.Plan, error) {
	if p.RankBy != "" && p.RankBy != p.MapBy {
		return nil, fmt.Errorf("ranks cannot be numbered by %s where programs have hosts of their own", p.RankBy)
	}
	if m := p.Binding.Map; m.Span || m.Policy == "ppr" && m.Object != layout.None || p.Binding.Rank.By == "object" || p.Binding.Rank.By == "fill" {
		return nil, fmt.Errorf("ranks cannot be counted or numbered by objects where programs have hosts of their own")
	}
	sites := make([]Site, len(hosts))
	for i, h := range hosts {
		if most, limited := p.limit(h); limited {
			h.Slots, h.SlotsGiven = most, true
		}
		sites[i].Host = h
	}
	batches := make([]Batch, len(apps))
	for i, a := range apps {
		b := Batch{Name: a.Argv[0], Procs: a.N, PerHost: p.PerNode, MapBy: p.MapBy}
		if p.MapBy == ByRound {
			b.MapBy, b.PerHost = BySlot, 0
		}
		for _, s := range a.On {
			h := slices.IndexFunc(hosts, func(h job.Host) bool { return h.Name == s.Host })
			if h < 0 {
				return nil, fmt.Errorf("host %s of %s is not one of the job's", s.Host, a.Argv[0])
			}
			b.On = append(b.On, Share{Site: h, Slots: s.Slots})
		}
		if b.Procs == 0 { // ByRound alone
			b.Procs = roundOf(b.On, hosts, p)
		}
		batches[i] = b
	}
	plan, _, err := Spawn(sites, batches, p)
	return plan, err
}

// roundOf is how many ranks a program has, of those that have no number of them: one round over the hosts that it may
// use, or over all.
func roundOf(on []Share, hosts []job.Host, p Policy) (n int) {
	for _, s := range on {
		if s.Slots > 0 {
			n += s.Slots
		} else {
			n += p.block(hosts[s.Site])
		}
	}
	if len(on) == 0 {
		for _, h := range hosts {
			n += p.block(h)
		}
	}
	return n
}
