package agent

import (
	"log/slog"
	"testing"

	"github.com/mpiup/mpiup/topology/discover"
)

// An agent that is told no number of slots counts GPUs, else CPUs, and has one at least.
func TestSlots(t *testing.T) {
	for _, tt := range []struct {
		said int
		has  discover.Inventory
		want int32
	}{
		{3, discover.Inventory{CPUs: 8, GPUs: 2}, 3}, {0, discover.Inventory{CPUs: 8, GPUs: 2}, 2},
		{0, discover.Inventory{CPUs: 8, GPUs: -1}, 8}, {0, discover.Inventory{}, 1},
	} {
		a, err := New(Config{Name: "w0", Incarnation: "i", Log: slog.New(slog.DiscardHandler), Slots: tt.said, Inventory: tt.has, Inside: &Inside{}})
		if err != nil {
			t.Fatal(err)
		}
		if got := a.Hello().Slots; got != tt.want {
			t.Errorf("told %d, with %+v: %d slots, want %d", tt.said, tt.has, got, tt.want)
		}
	}
}
