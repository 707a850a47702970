package run

import (
	"testing"

	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher/run/model"
)

// What ranks of PMI are told of the universe: the slots where somebody wrote all of them, and else what the
// command line says, or nothing.
func TestUniverseOfPMI(t *testing.T) {
	given, counted := job.Host{Slots: 4, SlotsGiven: true}, job.Host{Slots: 2}
	for _, tt := range []struct {
		name  string
		said  int
		hosts []job.Host
		want  int
	}{
		{"all given", UniverseGiven, []job.Host{given, given}, 8},
		{"one counted", UniverseGiven, []job.Host{given, counted}, 0},
		{"Hydra's", UniverseUnknown, []job.Host{given}, 0},
		{"a number", 7, []job.Host{counted}, 7},
		{"Hydra's SYSTEM", UniverseSystem, []job.Host{given, counted}, 5},
	} {
		r := briefing{cfg: &Config{Wishes: Wishes{Universe: tt.said}, Plan: &job.Plan{Universe: 1}}, sites: &sites{}}
		for _, h := range tt.hosts {
			r.sites.list = append(r.sites.list, &site{Site: model.Site{Host: h}})
		}
		if got := r.pmiUniverse(); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}
