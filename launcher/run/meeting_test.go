package run

import (
	"fmt"
	"slices"
	"testing"

	"github.com/mpiup/mpiup/internal/job"
)

// Horovod counts, for each local rank, the hosts that have such a rank.
func TestCrossRanks(t *testing.T) {
	plan := &job.Plan{}
	for rank, p := range []struct{ host, local int }{{0, 0}, {0, 1}, {0, 2}, {1, 0}, {2, 0}, {2, 1}} {
		plan.Placements = append(plan.Placements, job.Placement{Rank: job.Rank(rank), Host: p.host, LocalRank: p.local})
	}
	var got []string
	for _, c := range crossRanks(plan) {
		got = append(got, fmt.Sprintf("%d/%d", c.rank, c.size))
	}
	if want := []string{"0/3", "0/2", "0/1", "1/3", "2/3", "1/2"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
