package launcher

import (
	"context"
	"errors"
	"fmt"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/job"
)

// ShutdownConfig ends the job's agents.
type ShutdownConfig struct {
	Reach
	Why  string // for the agents' logs; default "mpiup shutdown"
	Rest bool   // agents stay; only what our commands left behind on them ends
}

// Shutdown tells every agent of the job to end with exit code 0, so that worker pods succeed,
// and returns 0 when all were told. It does not wait until they have ended.
func Shutdown(ctx context.Context, cfg ShutdownConfig) int {
	cfg.fill()
	if cfg.Why == "" {
		cfg.Why = "mpiup shutdown"
	}
	set, err := cfg.others(ctx)
	if err != nil {
		return cfg.end(err)
	}
	found := cfg.visit(ctx, set.Hosts, func(ctx context.Context, _ *visited, c *agentConn) error {
		_, err := c.client.Shutdown(ctx, &apiv1.ShutdownRequest{Why: cfg.Why, Rest: cfg.Rest})
		return err
	})
	var lines []string
	causes := make([]*cause, len(found))
	for i, v := range found {
		if v.cause != nil && v.Bare && v.cause.refused {
			continue // a pod of the service that has no agent, such as a launcher's
		}
		if causes[i] = v.cause; v.cause != nil {
			lines = append(lines, fmt.Sprintf("host %s was not shut down: %v", v.Entry.Name, v.cause))
		}
	}
	if c := telling(causes); c != nil {
		return cfg.end(&failure{c.stage.exitCode(), lines})
	}
	if !cfg.Rest {
		cfg.say("%s told to end", hostCount(len(found)))
	}
	return 0
}

// end prints a failure and is its exit code.
func (r *Reach) end(err error) int {
	var f *failure
	if !errors.As(err, &f) {
		f = failf(job.ExitInternal, "%v", err)
	}
	return r.last(f.code, f.lines, nil)
}
