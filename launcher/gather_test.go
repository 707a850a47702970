package launcher

import (
	"math"
	"testing"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/identity"
	"github.com/mpiup/mpiup/launcher/link"
	"github.com/mpiup/mpiup/launcher/reach"
)

// The number comes from what agents say. One that lies makes none of which the others would say that it cannot be.
func TestNumber(t *testing.T) {
	type says struct {
		own, highest uint64
		signed       bool
	}
	for _, tt := range []struct {
		name   string
		agents []says
		want   uint64
	}{
		{"nobody knows any", []says{{}, {}}, 1},
		{"the next", []says{{highest: 3}, {highest: 7}, {}}, 8},
		{"it has one", []says{{4, 9, true}, {}, {highest: 12}}, 4},
		{"a lie about the highest", []says{{highest: 3}, {highest: math.MaxUint64}}, identity.MaxNumber},
		{"a lie about its own", []says{{highest: 3}, {math.MaxUint64, 3, true}}, 4},
		{"a lie that makes it an earlier one", []says{{highest: 7}, {own: 2, highest: 7}}, 8},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var hosts []reach.Found
			for _, a := range tt.agents {
				proof := []byte("made up")
				if a.signed {
					proof = nil
				}
				hosts = append(hosts, reach.Found{Session: &link.Session{Opened: &apiv1.Opened{OwnNumber: a.own, OwnProof: proof, HighestNumber: a.highest}}})
			}
			if got := number(hosts, func(_ uint64, proof []byte) bool { return proof == nil }); got != tt.want {
				t.Errorf("%d, want %d", got, tt.want)
			}
		})
	}
}
