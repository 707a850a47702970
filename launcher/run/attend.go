package run

import (
	"fmt"
	"slices"
	"strings"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/secret"
	"github.com/mpiup/mpiup/launcher/hang"
	"github.com/mpiup/mpiup/launcher/mixture"
)

// attending is what the run knows of where frameworks' ranks meet. Only the command line's job is told where.
type attending struct {
	shared
	roll      hang.Roll
	met       time.Time       // when the first rank came there; zero: none has
	told      int             // how often those that are missing were told of
	alone     bool            // the timer of those that meet nobody runs, or has
	warned    map[uint32]bool // programs of which it was said that nobody meets
	endedWell map[uint32]int  // ranks of a program that ended with 0
}

// hear takes what a host tells of its ranks.
func (r *attending) hear(now time.Time, h int, m *apiv1.Met) error {
	if m.Job != 0 {
		return fmt.Errorf("told where ranks of job %d meet, which nobody told them", m.Job)
	}
	var sets [3]idset.Set
	for i, text := range []string{m.Loaded, m.Met, m.Elsewhere} {
		ids, err := idset.Within(text, r.jobs[0].Size())
		if err != nil {
			return err
		}
		sets[i] = ids.Intersect(r.who.On(h))
	}
	report := hang.Meeting{Framework: fmt.Sprintf("%.20s", m.Framework), Loaded: sets[0], Met: sets[1], Elsewhere: sets[2], Visited: m.Visited}
	r.roll.Hear(report)
	if r.met.IsZero() && !report.Met.Empty() {
		r.met = now
		r.set(Missing, hang.Patience)
	}
	if !r.alone && len(r.aloneApps()) > 0 {
		r.alone = true
		r.set(Lone, hang.LongAlone)
	}
	return nil
}

// missing says which ranks have not come to where others of their program are, and those; nothing where none is missing.
func (r *attending) missing(now time.Time) (lines []string, ids, met idset.Set) {
	if r.met.IsZero() {
		return nil, ids, met
	}
	words := hang.Words{Running: r.running(), Places: r.places(), Names: r.named, Name: r.where}
	for _, of := range r.jobs[0].Programs {
		if missing, there := r.roll.Missing(of.Ranks, words.Running); !missing.Empty() {
			lines = append(lines, words.Absent(missing, there, r.roll.Place(), now.Sub(r.met).Round(time.Second)))
			ids = ids.Union(missing)
			met = met.Union(there)
		}
	}
	return lines, ids, met
}

// sayMissing tells of ranks that others wait for where they meet.
func (r *attending) sayMissing(now time.Time) {
	if r.job == jobStopping {
		return
	}
	lines, ids, met := r.missing(now)
	if len(lines) == 0 {
		return
	}
	for _, l := range lines {
		r.say("%s", l)
	}
	if first := ids.First(); ids.Len() <= met.Len() {
		r.say("see what it does: on %s py-spy dump --pid %d, or mpiup stacks", r.hosts[r.who.HostOf(first)].Name, r.ranks[first].pid)
	} else {
		r.say("see what they do: mpiup stacks")
	}
	r.told++
	if at, more := hang.Again(r.told); more {
		r.set(Missing, r.met.Add(at).Sub(now))
	}
}

// aloneApps are the programs whose ranks could share a job and have met nobody.
func (r *attending) aloneApps() (apps []uint32) {
	for app, of := range r.jobs[0].Programs {
		if r.roll.Alone(of.Ranks) {
			apps = append(apps, uint32(app))
		}
	}
	return apps
}

// sayLone warns, while they run, of ranks that have not met for long.
func (r *attending) sayLone() {
	if r.job == jobStopping {
		return
	}
	for _, app := range r.aloneApps() {
		of := r.jobs[0].Programs[app]
		for id := range of.Ranks.All() {
			if r.ranks[id].state != rankRunning {
				return
			}
		}
		r.warnLone(app, fmt.Sprintf("and after %v none has met another yet: if they are to", hang.LongAlone))
	}
}

// sayTrainedAlone warns, when all have ended well, of ranks that never met.
func (r *attending) sayTrainedAlone() {
	for _, app := range r.aloneApps() {
		if r.endedWell[app] == r.jobs[0].Programs[app].Ranks.Len() {
			r.warnLone(app, "and none ever met another: if they were to")
		}
	}
}

// warnLone says it once of a program.
func (r *attending) warnLone(app uint32, how string) {
	if r.warned[app] {
		return
	}
	r.warned[app] = true
	of, argv := r.jobs[0].Programs[app], r.jobs[0].apps[app].Argv
	r.say("warning: %d ranks of %.300s loaded %s, %s train together, %s; --independent if each is meant to run alone",
		of.Ranks.Len(), strings.Join(secret.MaskCommand(argv)[:min(len(argv), 2)], " "), r.roll.Framework(), how, r.roll.Advice(of.Hosts, of.Most))
}

// noteEnded counts a rank that has ended well.
func (r *attending) noteEnded(m *apiv1.Exited) {
	id := int(m.Rank)
	if m.Code != 0 || m.Signal != 0 || m.StoppedByUs || id >= r.jobs[0].Size() {
		return
	}
	r.endedWell[uint32(r.who.Placed(id).App)]++
}

// meets says that nothing is left to say of where a program's ranks meet: they have met, or sayTrainedAlone tells that they have not.
func (r *attending) meets(app uint32) bool {
	of := r.jobs[0].Programs[app]
	return r.roll.Met(of.Ranks) || r.warned[app] || r.roll.Alone(of.Ranks) && r.endedWell[app] == of.Ranks.Len()
}

// alone is the ranks that ended well without having spoken to mpiup, though they had an MPI library:
// one that does not understand what it was offered runs each rank as rank 0 of 1, and nothing fails.
// The zero value is none.
type alone struct {
	shared
	pmi  job.Protocol
	apps []aloneApp
}

// aloneApp is such ranks of one program.
type aloneApp struct {
	job, app int
	ranks    idset.Set // in the job
	seen     int       // of them that were seen to have called MPI_Init
	mpi      string    // library of the first
}

// note counts a rank that has ended.
func (r *alone) note(m *apiv1.Exited) {
	if m.Library == "" || m.Pmi != apiv1.PmiState_PMI_NEVER || m.Code != 0 || m.Signal != 0 || m.StoppedByUs {
		return
	}
	j := r.jobOf(int(m.Rank))
	if j.Size() == 1 {
		return
	}
	app := r.who.Placed(int(m.Rank)).App
	i := slices.IndexFunc(r.apps, func(a aloneApp) bool { return a.job == j.Number && a.app == app })
	if i < 0 {
		i = len(r.apps)
		r.apps = append(r.apps, aloneApp{job: j.Number, app: app, mpi: fmt.Sprintf("%.512s", m.Library)})
	}
	a := &r.apps[i]
	from, _ := j.IDs()
	a.ranks.Add(int(m.Rank) - from)
	if m.Alone {
		a.seen++
	}
}

// offered is what the ranks of a program were offered to speak, as the first host chose it.
func (r *alone) offered(a aloneApp) job.Protocol {
	if j := r.jobs[a.job]; j.mixture != nil {
		if c, ok := j.mixture.First(a.app); ok {
			return c.Protocol
		}
	}
	return r.pmi
}

// sentence says of the ranks of a program what is known.
func (r *alone) sentence(a aloneApp) string {
	return fmt.Sprintf("%d ranks of %s use %s and never spoke to mpiup, which offered %s",
		a.ranks.Len(), r.jobs[a.job].program(a.app), a.mpi, r.offered(a))
}

// meant says that nothing is to be said of a program: its ranks met by a framework, which loads MPI where it was built with it.
func (a aloneApp) meant(meets func(app uint32) bool) bool { return a.job == 0 && meets(uint32(a.app)) }

// failure is a sentence on the ranks of a job that were each alone in MPI, several of them seen so, and these; "": there are none. A job of
// several programs counts as one: a master and a worker that are both alone have not worked together.
func (r *alone) failure(meets func(app uint32) bool) (sentence, ranks string) {
	for _, first := range r.apps {
		var parts []string
		var ids idset.Set
		seen := 0
		for _, a := range r.apps {
			if a.job != first.job || a.seen == 0 || a.meant(meets) {
				continue
			}
			seen += a.seen
			ids = ids.Union(a.ranks)
			part := fmt.Sprintf("%s uses %s and was offered %s: %s", r.jobs[a.job].program(a.app), a.mpi, r.offered(a), mixture.Advice(a.mpi, r.offered(a)))
			if !slices.Contains(parts, part) {
				parts = append(parts, part)
			}
		}
		if seen < 2 {
			continue
		}
		whose := ""
		if first.job > 0 {
			whose = fmt.Sprintf(" of spawned job %d", first.job)
		}
		return fmt.Sprintf("ranks %s%s called MPI_Init and were each alone, as rank 0 of 1, since none reached mpiup; %s", ids, whose,
			strings.Join(parts, "; ")), ids.String()
	}
	return "", ""
}

// warn tells of those that may have been alone, where there are several of one program: a single one may well want to be alone.
func (r *alone) warn(meets func(app uint32) bool) {
	for _, a := range r.apps {
		if a.ranks.Len() < 2 || a.meant(meets) {
			continue
		}
		r.say("warning: %s: if they called MPI_Init, each was alone, as rank 0 of 1; %s", r.sentence(a), mixture.Advice(a.mpi, r.offered(a)))
	}
}
