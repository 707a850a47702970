package survey

import (
	"fmt"
	"testing"

	"github.com/mpiup/mpiup/gpu"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
)

func TestNearGPUs(t *testing.T) {
	four := []string{"0-7", "0-7", "8-15", "16-23"}
	for _, tt := range []struct {
		name    string
		near    []string
		perRank int
		bind    string
		want    string
	}{
		{"no GPU", nil, 0, "", "[]"},
		{"no GPU, and a map", nil, 0, "map:0", "[]"},
		{"one each", four, 0, "", "[0-7 0-7 8-15 16-23]"},
		{"one each, asked for", four, 1, "", "[0-7 0-7 8-15 16-23]"},
		{"two each", four, 2, "", "[0-7 8-23]"},
		{"three each", four, 3, "", "[0-15]"},
		{"closest follows the ranks", four, 0, "closest", "[0-7 0-7 8-15 16-23]"},
		{"a map", four, 0, "map:3,0", "[16-23 0-7]"},
		{"a mask", four, 0, "mask:0xc,0x1", "[8-23 0-7]"},
		{"beyond", four, 0, "map:0,9", "[0-7 ]"},
		{"one is nowhere", []string{"0-7", ""}, 0, "", "[]"},
		{"nonsense", []string{"0-7", "7-0"}, 0, "", "[]"},
	} {
		wish, err := gpu.ParseWish(tt.perRank, tt.bind)
		if err != nil {
			t.Fatal(tt.name, err)
		}
		var units []*apiv1.GpuUnit
		for _, n := range tt.near {
			units = append(units, &apiv1.GpuUnit{NearCpus: n})
		}
		if got := fmt.Sprint(NearGPUs(units, wish)); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}
