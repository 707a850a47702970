package phases

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/layout"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/launcher/placement"
	"github.com/mpiup/mpiup/launcher/run/model"
)

// Wish is what the user wants of hosts and ranks.
type Wish struct {
	Apps    []job.App
	Policy  placement.Policy
	Spares  int         // hosts that get no ranks before another one is lost
	Elastic job.Elastic // how many ranks there may be, where that may change
	PerHost int         // processes that one host can start
}

// Answer is a host that may take part.
type Answer struct {
	model.Wanted
	Host  *model.Host // nil: it is not here
	Tried bool        // it was asked in vain
}

// Name is what the host is called. One that was known by its address is called as its agent says.
func (a Answer) Name() string {
	if a.Bare && a.Host != nil && a.Host.Stated != "" {
		return a.Host.Stated
	}
	return a.Entry.Name
}

// Place is the host as placement takes it: with its agent's slots where none were given.
func (a Answer) Place() job.Host {
	h := job.Host{Name: a.Entry.Name, Slots: a.Entry.Slots, SlotsGiven: a.Entry.Given}
	if is := a.Host; is != nil {
		h.CPUs, h.Layout, h.NearGPUs = is.CPUs, is.Layout, is.NearGPUs
		if !h.SlotsGiven {
			h.Slots = is.Slots
		}
	}
	return h
}

// Places are the answers as placement takes them.
func Places(answers []Answer) []job.Host {
	list := make([]job.Host, len(answers))
	for i, a := range answers {
		list[i] = a.Place()
	}
	return list
}

// Room is how many ranks a host may have: its slots, but in an elastic job as many as each host gets.
func (w Wish) Room(h job.Host) int {
	n := w.Policy.PerNode
	switch {
	case !w.Elastic.On() || n == 0:
		return h.Slots
	case !w.Policy.Oversubscribe && h.SlotsGiven && h.Slots < n:
		return 0
	}
	return n
}

// Needs is what is needed of hosts that are found one by one. told is what says how many there are, and why; least is how many there must be,
// likewise. 0: nothing says it.
func (w Wish) Needs(told int, why string, least int, atLeast string) Need {
	ranks := 0
	for _, app := range w.Apps {
		if ranks += app.N; app.N == 0 { // one a slot, of as many as there are
			ranks = 0
			break
		}
	}
	if e := w.Elastic; e.On() && e.Begin == 0 && told == 0 {
		return Need{Ranks: e.Min, All: true, Beyond: w.Policy.PerNode > 0, Least: least, Why: atLeast}
	}
	n := NeedOf(told, why, ranks, w.Policy.PerNode)
	if n.Spares = w.Spares; n.Hosts > 0 && told == 0 && n.Spares > 0 {
		n.Hosts, n.Why = n.Hosts+n.Spares, fmt.Sprintf("%s and --spares %d", n.Why, n.Spares)
	}
	if n.Hosts == 0 {
		n.Least, n.Why = least, atLeast
	}
	n.All, n.Beyond = w.Policy.MapBy == placement.ByNode, w.Policy.Oversubscribe
	return n
}

// Needed are the hosts that get ranks, and spares, which are the last. Where all slots were given, that is known before any host is asked; and so
// is a plan that cannot be.
func (w Wish) Needed(all []model.Wanted) (want []model.Wanted, err error) {
	ranked := len(all) - w.Spares
	if ranked <= 0 {
		return nil, fmt.Errorf("--spares %d: of the run's %s none is left for ranks", w.Spares, visible.Count(len(all), "host"))
	}
	policy, ok := unasked(w.Policy)
	if !ok || slices.ContainsFunc(all, func(h model.Wanted) bool { return !h.Entry.Given }) {
		return all, nil
	}
	answers := make([]Answer, ranked)
	for i, h := range all[:ranked] {
		answers[i].Wanted = h
	}
	plan, err := placement.Place(Places(answers), w.Apps, policy)
	if err != nil {
		return nil, err
	}
	for i, h := range all {
		if i >= ranked || slices.ContainsFunc(plan.Hosts, func(p job.Host) bool { return p.Name == h.Entry.Name }) {
			want = append(want, h)
		}
	}
	return want, nil
}

// unasked is the policy before any host was asked; ok is false where hosts must be asked first.
func unasked(p placement.Policy) (_ placement.Policy, ok bool) {
	m := p.Binding.Map
	if p.Binding.Lines != nil || m.Span || m.Policy == "ppr" && m.Object != layout.None || p.BindsWithin() || p.ByCores {
		return p, false
	}
	if m.Policy == "object" {
		p.MapBy = placement.BySlot
	}
	p.Binding.Map, p.Binding.Rank = p.Binding.Map.Unmapped(), p.Binding.Rank.Unmapped()
	p.Binding.Bind.Said, p.Binding.Bind.To, p.Binding.Bind.List = true, layout.None, false
	p.Binding.Hydra, p.Binding.CPUs, p.Binding.Ordered = nil, nil, false
	return p, true
}

// Plan places the ranks on hosts.
func (w Wish) Plan(hosts []job.Host) (*job.Plan, error) {
	plan, err := placement.Place(hosts, w.Apps, w.Policy)
	if err == nil {
		err = placement.Startable(plan, w.PerHost)
	}
	if err == nil {
		err = tools(w.Apps, len(plan.Placements))
	}
	return plan, err
}

// tools refuses a tool that is to start the program of a rank which the job does not have.
func tools(apps []job.App, size int) error {
	for _, a := range apps {
		for _, t := range a.Tools {
			if t.Ranks.Last() >= size {
				return fmt.Errorf("%s is to start rank %d (--wrap), and the job has ranks 0 to %d", t.Argv[0], t.Ranks.Last(), size-1)
			}
		}
	}
	return nil
}

// Joined is hosts that the run knows, and others that are found now.
func Joined(known, seen []model.Wanted) []model.Wanted {
	want := slices.Clone(known)
	at := map[netip.AddrPort]bool{}
	for _, w := range want {
		for _, a := range w.Fixed {
			at[a], at[netip.AddrPortFrom(a.Addr(), 0)] = true, true
		}
		if a, err := netip.ParseAddr(w.Entry.Name); w.Bare && err == nil {
			at[netip.AddrPortFrom(a, 0)] = true
		}
	}
	for _, w := range seen {
		name, _ := netip.ParseAddr(w.Entry.Name)
		if len(w.Fixed) > 0 && !at[w.Fixed[0]] || w.Bare && !at[netip.AddrPortFrom(name, 0)] {
			want = append(want, w)
		}
	}
	return want
}
