package agent

import (
	"fmt"
	"slices"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/idset"
)

// maxTools bounds the tools of one program.
const maxTools = 256

// checkTools looks at what is to stand before a program.
func checkTools(a *apiv1.App) error {
	if len(a.Tools) > maxTools {
		return fmt.Errorf("launch: %d tools before one program; %d are possible", len(a.Tools), maxTools)
	}
	for _, t := range a.Tools {
		if len(t.Argv) == 0 || t.Argv[0] == "" {
			return fmt.Errorf("launch: a tool has no name")
		}
		if t.Ranks == "" {
			continue
		}
		if _, err := idset.Parse(t.Ranks); err != nil {
			return fmt.Errorf("launch: ranks of tool %.40s: %w", t.Argv[0], err)
		}
	}
	return nil
}

// commandLine is what a rank's process is started with: its words, and the program where that is not
// the first of them.
func (p *proc) commandLine(app *apiv1.App) (argv []string, path string) {
	for _, t := range app.Tools {
		ranks, err := idset.Parse(t.Ranks) // was fine in checkTools
		if t.Ranks == "" || err == nil && ranks.Contains(int(p.spec.Rank)) {
			return slices.Concat(t.Argv, app.Argv), ""
		}
	}
	if !app.IndexArgv {
		return app.Argv, ""
	}
	argv = slices.Clone(app.Argv)
	argv[0] += "-" + utoa(p.spec.Rank)
	return argv, app.Argv[0]
}
