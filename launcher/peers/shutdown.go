package peers

import (
	"context"
	"fmt"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/wording"
	"github.com/mpiup/mpiup/launcher"
	"github.com/mpiup/mpiup/launcher/link"
	"github.com/mpiup/mpiup/launcher/reach"
)

// ShutdownConfig ends the job's agents.
type ShutdownConfig struct {
	reach.Reach
	Why  string // for the agents' logs; default "mpiup shutdown"
	Rest bool   // agents stay; only what our commands left behind on them ends
}

// Dismiss tells the agents that are there to end with code, as their job has, and why. It waits for nobody. A host that was not told
// is named in a line that ends with otherwise, which says what becomes of it.
func Dismiss(ctx context.Context, r *reach.Reach, code int, why, otherwise string) {
	r.Fill()
	set, err := r.Static()
	if set == nil && err == nil && r.Identity != nil {
		set = r.Seen(ctx)
	}
	if set == nil || err != nil || r.Identity == nil {
		return // the run has said so
	}
	for _, v := range r.Visit(ctx, set.Hosts, func(ctx context.Context, _ *reach.Visited, c *reach.Conn) error {
		_, err := c.Client.Shutdown(ctx, &apiv1.ShutdownRequest{Why: why, Code: uint32(code)})
		return err
	}) {
		if v.Cause != nil && !v.Bare {
			r.Say("host %s was not told that the job has ended: %v; %s", v.Entry.Name, v.Cause, otherwise)
		}
	}
}

// Shutdown tells every agent of the job to end with exit code 0, so that worker pods succeed,
// and returns 0 when all were told. It does not wait until they have ended.
func Shutdown(ctx context.Context, cfg ShutdownConfig) int {
	cfg.Fill()
	if cfg.Why == "" {
		cfg.Why = "mpiup shutdown"
	}
	set, err := cfg.Others(ctx)
	if err != nil {
		return launcher.End(&cfg.Reach, err)
	}
	found := cfg.Visit(ctx, set.Hosts, func(ctx context.Context, _ *reach.Visited, c *reach.Conn) error {
		_, err := c.Client.Shutdown(ctx, &apiv1.ShutdownRequest{Why: cfg.Why, Rest: cfg.Rest})
		return err
	})
	var lines []string
	causes := make([]*link.Cause, len(found))
	for i, v := range found {
		if v.Cause != nil && v.Bare && v.Cause.Refused {
			continue // a pod of the service that has no agent, such as a launcher's
		}
		if causes[i] = v.Cause; v.Cause != nil {
			lines = append(lines, fmt.Sprintf("host %s was not shut down: %v", v.Entry.Name, v.Cause))
		}
	}
	if c := link.Telling(causes); c != nil {
		return launcher.End(&cfg.Reach, &reach.Failure{Code: c.Stage.ExitCode(), Lines: lines})
	}
	if !cfg.Rest {
		cfg.Say("%s told to end", wording.Count(len(found), "host"))
	}
	return 0
}
