package placement

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/internal/job"
)

// What the refusal of PE=n advises works: fewer ranks, fewer CPUs for each, none bound, and slot where an object is too small.
func TestAdviceForCPUsOfEachRank(t *testing.T) {
	tried := 0
	for name, l := range machines(t) {
		for _, rules := range []Rules{OpenMPI4, OpenMPI5} {
			place := func(n int, args string) error {
				p, _ := policyOf(t, args)
				p.Rules = rules
				_, err := Place([]job.Host{{Name: "n0", Slots: 64, SlotsGiven: true, Layout: l}}, []job.App{{Argv: []string{"a"}, N: n}}, p)
				return err
			}
			for _, by := range []string{"slot", "core", "numa", "socket"} {
				for _, pe := range []int{2, 3} {
					for n := 1; n <= 20; n++ {
						args := fmt.Sprintf("--map-by %s:PE=%d", by, pe)
						err := place(n, args)
						if err == nil {
							continue
						}
						said := err.Error()
						about := fmt.Sprintf("%s, %d ranks, %s, rules %v: %s", name, n, args, rules, said)
						switch {
						case strings.Contains(said, "CPUs left"):
							tried++
							if n > 1 && place(1, args) != nil && by == "slot" {
								t.Errorf("%s; one rank has no place, either: %v", about, place(1, args))
							}
							if err := place(n, args+" --bind-to none"); err != nil {
								t.Errorf("%s; with --bind-to none: %v", about, err)
							}
							if !strings.Contains(said, "fewer ranks") || !strings.Contains(said, "--bind-to none") || strings.Contains(said, "larger object") {
								t.Error(about)
							}
						case strings.Contains(said, "map by slot"):
							tried++
							if err := place(1, fmt.Sprintf("--map-by slot:PE=%d", pe)); err != nil {
								t.Errorf("%s; by slot: %v", about, err)
							}
						}
						break
					}
				}
			}
		}
	}
	if tried < 10 {
		t.Errorf("only %d refusals were looked at", tried)
	}
}
