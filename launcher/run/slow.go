package run

import (
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/launcher/slow"
)

// watchEvery is how often agents tell how long ranks waited; 0: never.
func (c *Config) watchEvery() time.Duration {
	if c.Exec != nil || c.Explain != 0 || c.Linger {
		return 0
	}
	return c.Stall.Watch / 12
}

// waited takes how long a host's ranks of the first job waited, and says who holds the others up when that is news.
func (g *stalls) waited(now time.Duration, h int, m *apiv1.Waited) error {
	if m.Job != 0 || g.slow.Window == 0 {
		return nil
	}
	at, reports, err := slow.Parse(m, g.who.On(h))
	if err != nil {
		return err
	}
	g.slow.Hear(at, reports)
	if line := g.slow.News(now, g.jobs[0].Size(), g.slowNames()); line != "" && g.job == jobRunning {
		g.say("%s", line)
	}
	return nil
}

// sayWaited says what the whole run came to.
func (g *stalls) sayWaited() {
	if line := g.slow.End(g.jobs[0].Size(), g.slowNames()); line != "" {
		g.say("%s", line)
	}
}

func (r *roster) slowNames() slow.Names {
	return slow.Names{One: r.where, Many: func(ranks []int) string { return r.named(idset.Of(ranks...)) }}
}
