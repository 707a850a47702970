package run

import (
	"slices"
	"testing"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/test/fields"
)

// What the user says of a program reaches the agents, but for what decides where it runs and which files are copied.
func TestProgramLosesNothing(t *testing.T) {
	elsewhere := []string{"N", "On", "Program", "Files"}
	lost := fields.Lost(func(a *job.App) any {
		return (&jobRun{apps: []job.App{*a}}).launchApps(true)[0].String()
	})
	if !slices.Equal(lost, elsewhere) {
		t.Errorf("lost: %v, want %v", lost, elsewhere)
	}
}

// What a rank wants started is taken from the frame whole.
func TestSpawnLosesNothing(t *testing.T) {
	for _, name := range fields.Lost(func(a *apiv1.SpawnApp) any {
		return spawnRequest(&apiv1.SpawnRequest{Apps: []*apiv1.SpawnApp{a}})
	}) {
		t.Errorf("SpawnApp.%s is lost", name)
	}
	for _, name := range fields.Lost(func(m *apiv1.SpawnRequest) any { return spawnRequest(m) }) {
		if name != "Id" && name != "Parent" {
			t.Errorf("SpawnRequest.%s is lost", name)
		}
	}
}
