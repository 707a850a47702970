package peers

import (
	"cmp"
	"context"
	"slices"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/hostlist"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/launcher"
	"github.com/mpiup/mpiup/launcher/hosts"
	"github.com/mpiup/mpiup/launcher/link"
	"github.com/mpiup/mpiup/launcher/reach"
)

// ShutdownConfig ends the job's agents.
type ShutdownConfig struct {
	reach.Reach
	Why  string // for the agents' logs; default "mpiup shutdown"
	Rest bool   // agents stay; only what our commands left behind on them ends
}

// DismissConfig lets the pods of a job end that serve it.
type DismissConfig struct {
	reach.Reach
	Met       []hosts.Wanted // hosts that have answered the run, and where: a name may not be found again
	Code      int            // that the agents end with, as the job has
	Why       string         // what became of the job
	Otherwise string         // what becomes of a host that is not told, for messages
}

// Dismiss tells the agents that are there to end. It waits for nobody, and names each host that was not told.
func Dismiss(ctx context.Context, cfg DismissConfig) {
	cfg.Fill()
	if cfg.Identity == nil {
		return // the run has said so
	}
	whole := cfg.Sources
	whole.Size = 0 // pods beyond --size serve too
	set, err := whole.Static()
	if err == nil && set == nil {
		set, err = cfg.Static()
	}
	if err == nil && set == nil {
		set = cfg.Seen(ctx)
	}
	all := with(cfg.Met, set)
	found := cfg.Visit(ctx, all, func(ctx context.Context, _ *reach.Visited, c *reach.Conn) error {
		_, err := c.Client.Shutdown(ctx, &apiv1.ShutdownRequest{Why: cfg.Why, Code: uint32(cfg.Code)})
		return err
	})
	for _, line := range untold(found, cfg.Met, cfg.Otherwise) {
		cfg.Say("%s", line)
	}
}

// untold is what there is to say of hosts that were not told that the job has ended. One that the run has met, and where nobody listens any
// more, has no agent that could be told, as a pod that has ended by itself.
func untold(found []reach.Visited, met []hosts.Wanted, otherwise string) (lines []string) {
	var names, texts [2][]string // of those that are left to themselves, and of those whose agent is gone
	for _, v := range found {
		if v.Cause == nil || v.Bare || v.Cause.Ending {
			continue
		}
		gone := 0
		if (v.Cause.Refused || v.Cause.Stage == link.StageResolve) &&
			slices.ContainsFunc(met, func(w hosts.Wanted) bool { return w.Entry.Name == v.Entry.Name }) {
			gone = 1
		}
		names[gone], texts[gone] = append(names[gone], v.Entry.Name), append(texts[gone], v.Cause.Error())
	}
	for gone, then := range []string{"", "; its agent has ended, it seems; if it starts again, "} {
		for _, line := range hostlist.Together("host", names[gone], texts[gone]) {
			lines = append(lines, "not told that the job has ended: "+line+cmp.Or(then, "; ")+otherwise)
		}
	}
	return lines
}

// with is a list and those of a set that are not in it, by name or address.
func with(list []hosts.Wanted, set *hosts.Set) []hosts.Wanted {
	if set == nil {
		return list
	}
	known := map[string]bool{}
	for _, w := range list {
		known[w.Entry.Name], known[w.Fixed[0].String()], known[w.Fixed[0].Addr().String()] = true, true, true
	}
	for _, w := range set.Hosts {
		if !known[w.Entry.Name] && (len(w.Fixed) == 0 || !known[w.Fixed[0].String()]) {
			list = append(list, w)
		}
	}
	return list
}

// Shutdown tells every agent of the job to end with exit code 0, so that worker pods succeed,
// and returns 0 when all were told. It does not wait until they have ended: they wait for the end of this process, which may be
// in a container that ends with them.
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
		if err == nil && !cfg.Rest {
			c.Close = func() {}
		}
		return err
	})
	var names, texts []string
	causes := make([]*link.Cause, len(found))
	for i, v := range found {
		if v.Cause != nil && v.Bare && v.Cause.Refused {
			continue // a pod of the service that has no agent, such as a launcher's
		}
		if causes[i] = v.Cause; v.Cause != nil {
			names, texts = append(names, v.Entry.Name), append(texts, v.Cause.Error())
		}
	}
	if c := link.Telling(causes); c != nil {
		lines := hostlist.Together("host", names, texts)
		for i, line := range lines {
			lines[i] = "not shut down: " + line
		}
		return launcher.End(&cfg.Reach, &reach.Failure{Code: c.Stage.ExitCode(), Lines: lines})
	}
	if !cfg.Rest {
		cfg.Say("%s told to end", visible.Count(len(found), "host"))
	}
	return 0
}
