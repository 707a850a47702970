package exchange

import (
	"testing"

	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/test/fields"
)

// What a rank wants started reaches the launcher whole. Its parent goes as an id.
func TestSpawnRequestLosesNothing(t *testing.T) {
	for _, name := range fields.Lost(func(p *job.SpawnProgram) any {
		return spawnRequest(1, 0, job.Spawn{Programs: []job.SpawnProgram{*p}}).String()
	}) {
		t.Errorf("Program.%s is lost", name)
	}
	for _, name := range fields.Lost(func(r *job.Spawn) any { return spawnRequest(1, 0, *r).String() }) {
		if name != "Parent" {
			t.Errorf("Request.%s is lost", name)
		}
	}
}
