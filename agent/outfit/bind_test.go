package outfit

import (
	"testing"

	"github.com/mpiup/mpiup/internal/idset"
)

func TestOnePlace(t *testing.T) {
	for list, want := range map[string]string{"0": "{0:1}", "0-3": "{0:4}", "1,5,64-127": "{1:1,5:1,64:64}"} {
		cpus, err := idset.Parse(list)
		if err != nil {
			t.Fatal(err)
		}
		if got := onePlace(cpus); got != want {
			t.Errorf("%s: %s, want %s", list, got, want)
		}
	}
}
