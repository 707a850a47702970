package checkup

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mpiup/mpiup/internal/job"
)

// The digests are constants of the binary: a host whose processors are well finds these, of whatever make.
func TestDigests(t *testing.T) {
	scratch := make([]byte, 2*span)
	for i, want := range digests {
		if got := digest(i, scratch); got != want {
			t.Errorf("pattern %d: %s, not %s", i, got, want)
		}
	}
}

func allowed(t *testing.T) (cpus []int) {
	t.Helper()
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		t.Fatal(err)
	}
	for i := range 1024 {
		if set.IsSet(i) {
			cpus = append(cpus, i)
		}
	}
	return cpus
}

func TestCompute(t *testing.T) {
	r := Compute(t.Context(), time.Millisecond)
	if n := len(allowed(t)); r.Error != "" || r.CPUs != n || r.Fewest < len(digests) || r.Rounds < n*len(digests) || r.Wrong != nil {
		t.Errorf("%+v", r)
	}
}

// A CPU that computes wrong now and then is named, with how often; the others are not.
func TestComputeNamesTheCPU(t *testing.T) {
	cpus := allowed(t)
	sick := cpus[len(cpus)-1]
	w := work{known: []string{"0", "1"}, run: func(pattern int, _ []byte) string {
		var set unix.CPUSet
		if err := unix.SchedGetaffinity(0, &set); err != nil || set.Count() != 1 {
			t.Errorf("not bound to one CPU: %v, %v", set, err)
		}
		if set.IsSet(sick) && pattern == 1 {
			return "bit flipped"
		}
		return fmt.Sprint(pattern)
	}}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := compute(ctx, cpus, time.Hour, w)
	if want := []job.WrongCPU{{CPU: sick, Times: 1, Of: 2}}; !slices.Equal(r.Wrong, want) || r.Rounds != 2*len(cpus) {
		t.Errorf("%+v, want %+v", r, want)
	}
	if r := compute(ctx, []int{1023}, time.Hour, w); r.Error == "" {
		t.Error("a CPU that is not there is computed on")
	}
}
