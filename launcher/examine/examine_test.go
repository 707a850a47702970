package examine

import (
	"slices"
	"testing"

	"github.com/mpiup/mpiup/internal/hostlist"
	"github.com/mpiup/mpiup/launcher/hosts"
	"github.com/mpiup/mpiup/launcher/link"
	"github.com/mpiup/mpiup/launcher/placement"
)

// A look judges the ranks that a run of the same command line would put on each host.
func TestRanksThatAreLookedFor(t *testing.T) {
	given := func(name string, slots int) subject {
		return subject{Wanted: hosts.Wanted{Entry: hostlist.Entry{Name: name, Slots: slots, Given: true}}, slots: 64}
	}
	counted := func(name string, slots int) subject {
		return subject{Wanted: hosts.Wanted{Entry: hostlist.Entry{Name: name}}, slots: slots}
	}
	gone := subject{Wanted: hosts.Wanted{Entry: hostlist.Entry{Name: "gone"}}, cause: link.Causef(link.StageConnect, "no answer")}
	for _, tt := range []struct {
		name  string
		hosts []subject
		ranks int
		by    placement.Policy
		want  []int // nil: an error
	}{
		{"slots of a hostfile", []subject{given("a", 8), given("b", 2)}, 0, placement.Policy{}, []int{8, 2}},
		{"-n", []subject{given("a", 8), given("b", 2)}, 9, placement.Policy{}, []int{8, 1}},
		{"-n that leaves a host free", []subject{given("a", 8), given("b", 2)}, 3, placement.Policy{}, []int{3, 0}},
		{"-n by node", []subject{given("a", 8), given("b", 2)}, 4, placement.Policy{MapBy: placement.ByNode}, []int{2, 2}},
		{"-N", []subject{given("a", 8), given("b", 2)}, 0, placement.Policy{PerNode: 2}, []int{2, 2}},
		{"-N above slots", []subject{given("a", 8), given("b", 2)}, 0, placement.Policy{PerNode: 3}, nil},
		{"-N above slots, oversubscribed", []subject{given("a", 8), given("b", 2)}, 0, placement.Policy{PerNode: 3, Oversubscribe: true}, []int{3, 3}},
		{"-n above slots", []subject{given("a", 8), given("b", 2)}, 11, placement.Policy{}, nil},
		{"slots that agents count", []subject{counted("a", 4), counted("b", 16)}, 0, placement.Policy{}, []int{4, 16}},
		{"more than agents count", []subject{counted("a", 4), counted("b", 4)}, 12, placement.Policy{}, []int{6, 6}},
		{"a host that was not reached", []subject{counted("a", 4), gone}, 0, placement.Policy{}, []int{4, 4}},
	} {
		err := (&Config{Ranks: tt.ranks, Policy: tt.by}).place(tt.hosts)
		var got []int
		for _, h := range tt.hosts {
			got = append(got, h.ranks)
		}
		if (err != nil) != (tt.want == nil) || err == nil && !slices.Equal(got, tt.want) {
			t.Errorf("%s: ranks %v, error %v; want %v", tt.name, got, err, tt.want)
		}
	}
}
