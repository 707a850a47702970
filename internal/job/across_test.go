package job

import (
	"fmt"
	"slices"
	"testing"
)

// Horovod counts, for each local rank, the hosts that have such a rank.
func TestCrossRanks(t *testing.T) {
	plan := &Plan{}
	for rank, p := range []struct{ host, local int }{{0, 0}, {0, 1}, {0, 2}, {1, 0}, {2, 0}, {2, 1}} {
		plan.Placements = append(plan.Placements, Placement{Rank: Rank(rank), Host: p.host, LocalRank: p.local})
	}
	var got []string
	for _, c := range plan.Across() {
		got = append(got, fmt.Sprintf("%d/%d", c.Rank, c.Size))
	}
	if want := []string{"0/3", "0/2", "0/1", "1/3", "2/3", "1/2"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
