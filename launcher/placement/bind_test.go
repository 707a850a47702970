package placement

import (
	"strings"
	"testing"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/layout"
)

// own is a machine whose CPUs nobody else uses.
func own(t *testing.T, name string) *layout.Layout {
	t.Helper()
	l := machines(t)[name]
	l.Exclusive = true
	return l
}

// TestDefault: nothing was said about binding.
func TestDefault(t *testing.T) {
	for _, tt := range []struct {
		name    string
		l       *layout.Layout
		n       int
		want    string // CPUs of each rank
		unbound string
	}{
		{"in blocks", own(t, "a"), 4, "0-7 0-7 8-15 8-15", ""},
		{"the first node takes one more", own(t, "a"), 3, "0-7 0-7 8-15", ""},
		{"as many as cores", own(t, "c"), 8, "0-3 0-3 0-3 0-3 4-7 4-7 4-7 4-7", ""},
		{"more than cores", own(t, "c"), 9, "", "fewer cores than ranks"},
		{"fewer than nodes", own(t, "e"), 3, "", "fewer ranks than NUMA nodes"},
		{"one node", own(t, "h"), 4, "", "there is one NUMA node"},
		{"shared", machines(t)["a"], 4, "", "may be shared with others"},
		{"not told", nil, 4, "", "may be shared with others"},
	} {
		hosts := []job.Host{{Name: "n0", Slots: 16, Layout: tt.l}}
		plan, err := Place(hosts, []job.App{{Argv: []string{"a"}, N: tt.n}}, Policy{})
		if err != nil {
			t.Fatal(tt.name, err)
		}
		var got []string
		for _, pl := range plan.Placements {
			got = append(got, pl.CPUs.String())
		}
		if strings.TrimSpace(strings.Join(got, " ")) != tt.want || !strings.Contains(plan.Unbound, tt.unbound) || (plan.Unbound == "") != (tt.unbound == "") {
			t.Errorf("%s: %q, %q", tt.name, got, plan.Unbound)
		}
	}
}

// TestBindSpawned: a spawned job's processes take what the others left, or are not bound.
func TestBindSpawned(t *testing.T) {
	l := machines(t)["c"]
	hosts := []job.Host{{Name: "n0", Slots: 8, Layout: l}}
	cores := layout.Request{Map: layout.Mapping{Policy: "object", Object: layout.Core}}
	first, err := Place(hosts, []job.App{{Argv: []string{"a"}, N: 2}}, Policy{Binding: cores})
	if err != nil {
		t.Fatal(err)
	}
	taken := [][]idset.Set{{first.Placements[0].CPUs, first.Placements[1].CPUs}}
	for n, want := range map[int]string{2: "2 3", 6: "2 3 4 5 6 7", 7: ""} {
		plan, _, err := Spawn([]Site{{Host: hosts[0]}}, []Batch{{Name: "b", Procs: n}}, Policy{Oversubscribe: true})
		if err != nil {
			t.Fatal(err)
		}
		BindSpawned(plan, first, taken, cores)
		var got []string
		for _, pl := range plan.Placements {
			got = append(got, pl.CPUs.String())
		}
		if strings.TrimSpace(strings.Join(got, " ")) != want {
			t.Errorf("%d processes: %q, not %s", n, got, want)
		}
	}
}
