package phases

import (
	"fmt"
	"testing"

	"github.com/mpiup/mpiup/internal/hostlist"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/layout"
	"github.com/mpiup/mpiup/launcher/placement"
	"github.com/mpiup/mpiup/launcher/run/model"
)

// Hosts that are not asked, since their slots say that they get no ranks, are not needed for the plan either, whatever
// ranks are mapped, numbered and bound by: the plan is that of hosts which were all asked.
func TestWhoGetsNoRankNeedNotBeAsked(t *testing.T) {
	machine := twoCores(t)
	var entries []model.Wanted
	for h := range 3 {
		entries = append(entries, model.Wanted{Entry: hostlist.Entry{Name: fmt.Sprintf("w%d", h), Slots: 4, Given: true}})
	}

	for _, by := range []string{"", "slot", "node", "hwthread", "core", "l3cache", "numa", "socket", "core:span", "numa:span",
		"slot:PE=2", "node:PE=2", "socket:PE=2", "core:oversubscribe", "ppr:1:core", "ppr:2:node", "ppr:1:socket:PE=2"} {
		for _, rank := range []string{"", "slot", "node", "fill", "core", "socket"} {
			for _, bind := range []string{"", "none", "core", "socket", "core:overload-allowed"} {
				for _, rules := range []placement.Rules{placement.OpenMPI4, placement.OpenMPI5} {
					for n := range 5 {
						p, ok := policy(by, rank, bind)
						if !ok {
							continue
						}
						p.Rules = rules
						what := fmt.Sprintf("-np %d --map-by %q --rank-by %q --bind-to %q by rules %d", n+1, by, rank, bind, rules)
						compareAsked(t, what, Wish{Apps: []job.App{{Argv: []string{"a"}, N: n + 1}}, Policy: p, PerHost: 100}, entries, machine)
					}
				}
			}
		}
	}
}

// twoCores is a machine of two cores in one package.
func twoCores(t *testing.T) *layout.Layout {
	t.Helper()
	machine, err := layout.New([]layout.Thread{{CPU: 0}, {CPU: 1, In: [...]int{layout.Core: 1, layout.L1: 1, layout.L2: 1, layout.Package: 0}}})
	if err != nil {
		t.Fatal(err)
	}
	return machine
}

// policy is what options say; ok is false where they do not go together.
func policy(by, rank, bind string) (p placement.Policy, ok bool) {
	b := &p.Binding
	var err error
	if by != "" {
		if b.Map, err = layout.ParseMapBy(by); err != nil {
			return p, false
		}
	}
	if rank != "" {
		if b.Rank, err = layout.ParseRankBy(rank); err != nil || b.Map.Object == layout.None && (b.Rank.By == "fill" || b.Rank.By == "object") {
			return p, false
		}
	}
	if bind != "" {
		if b.Bind, err = layout.ParseBindTo(bind, b.Bind); err != nil {
			return p, false
		}
	}
	if b.Map.Policy == "ppr" && b.Map.Object == layout.None {
		p.PerNode = b.Map.N
	}
	p.Oversubscribe = b.Map.Slots == layout.Allowed
	p.Order()
	return p, true
}

func compareAsked(t *testing.T, what string, w Wish, entries []model.Wanted, machine *layout.Layout) {
	t.Helper()
	asked := make([]Answer, len(entries))
	for i, e := range entries {
		asked[i] = Answer{Wanted: e, Host: &model.Host{Name: e.Entry.Name, Slots: 4, CPUs: machine.Len(), Layout: machine}}
	}
	want, wantErr := w.Plan(Places(asked))

	needed, err := w.Needed(entries)
	if err != nil {
		if wantErr == nil {
			t.Errorf("%s: %v before any host was asked; else there is a plan", what, err)
		}
		return
	}
	for i := range asked[len(needed):] {
		asked[len(needed)+i].Host = nil
	}
	got, gotErr := w.Plan(Places(asked))
	if fmt.Sprint(gotErr) != fmt.Sprint(wantErr) {
		t.Errorf("%s: with %d hosts asked %v, with all %v", what, len(needed), gotErr, wantErr)
	}
	if gotErr == nil && wantErr == nil && fmt.Sprint(got.Placements) != fmt.Sprint(want.Placements) {
		t.Errorf("%s: with %d hosts asked\n%v\nwith all\n%v", what, len(needed), got.Placements, want.Placements)
	}
}
