package launcher

import (
	"math"
	"testing"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/incarnation"
)

// The number comes from what agents say. One that lies makes none of which the others would say that it cannot be.
func TestNumber(t *testing.T) {
	type says struct{ own, highest uint64 }
	for _, tt := range []struct {
		name   string
		agents []says
		want   uint64
	}{
		{"nobody knows any", []says{{}, {}}, 1},
		{"the next", []says{{0, 3}, {0, 7}, {}}, 8},
		{"it has one", []says{{4, 9}, {}, {0, 12}}, 4},
		{"a lie about the highest", []says{{0, 3}, {0, math.MaxUint64}}, incarnation.MaxNumber},
		{"a lie about its own", []says{{0, 3}, {math.MaxUint64, 3}}, incarnation.MaxNumber},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var hosts []found
			for _, a := range tt.agents {
				hosts = append(hosts, found{session: &session{opened: &apiv1.Opened{OwnNumber: a.own, HighestNumber: a.highest}}})
			}
			if got := number(hosts); got != tt.want {
				t.Errorf("%d, want %d", got, tt.want)
			}
		})
	}
}
