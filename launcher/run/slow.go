package run

import (
	"slices"
	"strings"
	"time"

	"github.com/mpiup/mpiup/docs"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/launcher/hang"
	"github.com/mpiup/mpiup/launcher/report"
	"github.com/mpiup/mpiup/launcher/slow"
)

// watchWindow is for how long a rank must hold up the others to be named; 0: nobody has asked to watch them.
func (c *Config) watchWindow() time.Duration {
	if !c.Stall.Watch {
		return 0
	}
	return c.Stall.WatchWindow
}

// watchEvery is how often agents tell how long ranks waited, in milliseconds; 0: never.
func (c *Config) watchEvery() uint32 {
	if c.Exec != nil || c.Explain != 0 || c.Linger {
		return 0
	}
	return uint32((c.watchWindow() / slow.Looks).Milliseconds())
}

// waited takes how long a host's ranks of the first job waited, and says who holds the others up when that is news.
func (g *stalls) waited(is Now, h int, m *apiv1.Waited) error {
	if m.Job != 0 || g.slow.Window == 0 {
		return nil
	}
	at, reports, err := m.Seen(m.Ranks, g.who.On(h))
	if err != nil {
		return err
	}
	g.slow.Places = g.firsts()
	g.slow.Hear(is.Clock, at, reports)
	line := g.slow.News(is.Clock, g.jobs[0].Size(), g.slowNames())
	if g.job != jobRunning {
		return nil
	}
	g.tellHeld(line)
	ranks, lost := g.slow.Suspects()
	if q := g.inquiry; q.open == nil && g.cfg.Stall.Watch && g.second.Due(is.Clock, g.slow.Window/6, ranks, lost) {
		ids, _ := hang.LookAt(g.second.Of(), g.running().Intersect(idset.Range(0, g.jobs[0].Size()-1)), g.who.HostOf)
		q.askStacks(whySlow, ids, hang.OpinionTime)
	}
	if g.inquiry.open == nil && g.slow.Asks(is.Wall) {
		g.inquiry.ask(whoSlows)
	}
	return nil
}

// opine takes a look at who holds the others up: all hosts have told where ranks are, or their time is up.
func (g *stalls) opine(now time.Duration) {
	ids, answered := g.second.Of().Slice(), g.inquiry.close()
	says := g.second.See(now, g.inquiry.look.found, answered)
	g.inquiry.look = look{}
	if line := g.slow.Opine(now, ids, says, g.slowNames()); g.job == jobRunning {
		g.tellHeld(line)
	}
}

// tellHeld says who holds the others up.
func (g *stalls) tellHeld(line string) {
	if line == "" {
		return
	}
	g.say("%s", line)
	ranks, lost := g.slow.Last()
	g.give(Held{report.Wait{Ranks: ranks, Share: lost, Cause: g.slow.Why().String(), Text: line}})
}

func (r *roster) slowNames() slow.Names {
	return slow.Names{One: r.where, Many: func(ranks []int) string { return r.named(idset.Of(ranks...)) }}
}

// know notes what is known of libraries that ranks load. What depends on nothing else is said at once.
func (g *stalls) know(mpi, nccl string) {
	for _, row := range append(docs.KnownOf(mpi), docs.KnownOf("NCCL "+nccl)...) {
		if row.Condition == "" && row.Kind != docs.Other {
			g.once(row.Sentence(), row.Sentence())
		}
		if row.Kind == docs.Hang && !slices.Contains(g.known, row) {
			g.known = append(g.known, row)
		}
	}
}

// holdup is what the verdict says of a run that did not go on: who the others waited for while it did, then lines, and where nobody is surely
// waited for, what is known of its libraries: of a call only where a rank is seen in it.
func (g *stalls) holdup(now time.Duration, sure bool, lines ...[]string) []string {
	if line := g.slow.Before(now, g.jobs[0].Size(), g.slowNames()); line != "" && g.slow.Window > 0 && !g.slow.Tells(slices.Concat(lines...)) {
		lines = append([][]string{{line}}, lines...)
	}
	for _, row := range g.known {
		in := func(s hang.Stack) bool { at, _ := s.Wait(); return strings.TrimPrefix(at, "P") == row.Call() }
		if !sure && (row.Call() == "" || slices.ContainsFunc(g.inquiry.look.found, in)) {
			lines = append(lines, []string{row.Sentence()})
		}
	}
	return slices.Concat(lines...)
}

// blame is who is waited for: by the ranks' own records and exchanges, else by who has not come to a collective, else by what they do.
func (g *stalls) blame(f hang.Facts) hang.Blame {
	b := f.Blame()
	if b.Sure && len(b.Odd) > 0 || g.slow.Window == 0 {
		return b
	}
	if l := g.slow.Awaited(f.Now, g.jobs[0].Size()); len(l.Ranks) > 0 && !l.Alleged {
		return hang.Blame{Sure: l.Sure && !l.Also.Doubts, Odd: []hang.Odd{{IDs: idset.Of(l.Ranks...), Why: l.Why(), Many: l.Why()}}}
	}
	return b
}
