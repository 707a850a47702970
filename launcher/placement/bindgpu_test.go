package placement

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/layout"
)

// Ranks go to the CPUs near their GPUs where nothing else was said, and everywhere has GPUs. Machine i has
// four NUMA nodes of ten CPUs, 0,4,8...36 and so on.
func TestRanksGoToTheirGPUs(t *testing.T) {
	m := machines(t)["i"]
	first, err := m.Restrict(idset.Of(0, 4, 1, 5))
	if err != nil {
		t.Fatal(err)
	}
	node := func(n int) (cpus idset.Set) {
		for cpu := n; cpu < 40; cpu += 4 {
			cpus.Add(cpu)
		}
		return cpus
	}
	far := idset.Range(100, 103)
	all := idset.Range(0, 39)
	for _, tt := range []struct {
		name    string
		layouts []*layout.Layout
		near    [][]idset.Set // by host
		args    string
		want    string // each rank's NUMA node, "-" of one that is not bound, and why nobody is
	}{
		{"as many as GPUs", []*layout.Layout{m}, [][]idset.Set{{node(2), node(2), node(0), node(3)}}, "-np 4", "2 2 0 3"},
		{"fewer", []*layout.Layout{m}, [][]idset.Set{{node(2), node(2), node(0), node(3)}}, "-np 1", "2"},
		{"more", []*layout.Layout{m}, [][]idset.Set{{node(2), node(0)}}, "-np 5", "2 0 2 0 2"},
		{"two hosts", []*layout.Layout{m, m}, [][]idset.Set{{node(2), node(1)}, {node(3), node(0)}}, "-np 4", "2 1 3 0"},
		{"a host without", []*layout.Layout{m, m}, [][]idset.Set{{node(2), node(1)}, nil}, "-np 4", "- - - - the CPUs of host w0 may be shared with others"},
		{"one node is near all", []*layout.Layout{m}, [][]idset.Set{{all, all}}, "-np 2", "- - the CPUs of host w0 may be shared with others"},
		{"none of the CPUs near it may be used", []*layout.Layout{m}, [][]idset.Set{{node(0), far}}, "-np 2", "- - the CPUs of host w0 may be shared with others"},
		{"a machine that is not known", []*layout.Layout{nil}, [][]idset.Set{{node(0)}}, "-np 2", "- - the CPUs of host w0 may be shared with others"},
		{"too few cores", []*layout.Layout{first}, [][]idset.Set{{node(0), node(1)}}, "-np 5", "- - - - - host w0 has fewer cores near a GPU than ranks"},
		{"bound to none", []*layout.Layout{m}, [][]idset.Set{{node(2), node(0)}}, "-np 2 --bind-to none", "- -"},
		{"bound to what was asked for", []*layout.Layout{m}, [][]idset.Set{{node(2), node(0)}}, "-np 2 --bind-to numa --map-by numa", "0 1"},
	} {
		policy, apps := policyOf(t, tt.args)
		policy.Oversubscribe = true
		var hosts []job.Host
		for h := range tt.layouts {
			hosts = append(hosts, job.Host{Name: fmt.Sprintf("w%d", h), Slots: max(apps[0].N/len(tt.layouts), 1), Layout: tt.layouts[h], NearGPUs: tt.near[h]})
		}
		plan, err := Place(hosts, apps, policy)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		var got []string
		for _, pl := range plan.Placements {
			at := slices.IndexFunc([]int{0, 1, 2, 3}, func(n int) bool { return !pl.CPUs.Empty() && node(n).Covers(pl.CPUs) })
			got = append(got, strings.Replace(fmt.Sprint(at), "-1", "-", 1))
		}
		if plan.Unbound != "" {
			got = append(got, plan.Unbound)
		}
		if text := strings.Join(got, " "); text != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, text, tt.want)
		}
	}
}
