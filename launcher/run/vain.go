package run

import (
	"fmt"
	"strings"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/launcher/hang"
	"github.com/mpiup/mpiup/launcher/verdict"
)

// A rank that fails since it waited in vain, by a time-out of a collective or a watchdog, ends nobody before it was looked where those are that run
// still: one of them is the reason, and the stop would destroy what it does.
//
//	rank 0 exits: "Timed out waiting 1800000ms" ─▶ stacks of those that run and do not say so, too ─▶ rank 3 sleeps in evaluate ─▶ all are stopped
//
// The look takes awayBound at most, and no longer than the ranks' grace. Nothing else than ranks' own ends goes on meanwhile: a death by a signal, a
// lost host or a limit ends the run at once, with what is known by then.

// awayBound is for the look, of all hosts together.
const awayBound = 3 * time.Second

// maxHeard is how many ranks' words are read for it.
const maxHeard = 1024

// asksAway says that such a look is under way.
func (q *inquiry) asksAway() bool { return q.open != nil && q.what == whoIsAway }

// looksForAway says that the run's end waits for such a look, which it begins where there is a reason. There is one of a run.
func (r *Run) looksForAway() bool {
	q := &r.inquiry
	mayWait := r.verdict.MayWait() && (r.job == jobWiring || r.job == jobRunning)
	if q.asksAway() {
		if mayWait && q.look.asked.Overlaps(r.running()) {
			return true
		}
		r.endAway()
		return false
	}
	if r.awayAsked || !mayWait || r.cfg.Wrote == nil || r.cfg.Exec != nil || r.cfg.Linger {
		return false
	}
	cause, _ := r.verdict.Cause()
	if f, ok := verdict.Read(r.cfg.Wrote(cause.ID)); !ok || !f.Echo { // it failed for a reason of its own
		return false
	}
	heard := r.heardVain(cause.Process.Job)
	rest := r.running().Intersect(heard.all).Sub(heard.lost)
	bound := min(awayBound, r.cfg.Grace)
	if heard.vain.Empty() || cause.Process.Job != 0 {
		return false
	}
	r.awayAsked = true
	if rest.Empty() || bound <= 0 {
		r.sayAway(heard, nil, nil)
		return false
	}
	q.look = look{begun: r.now.Clock}
	if r.flights.records.Any() { // torch's recorders are there: each is asked for what it has, which comes by itself
		q.id++
		for _, h := range r.live() {
			if r.who.On(h).Overlaps(rest) {
				r.send(h, (&apiv1.AskWaits{Id: q.id, Flight: true}).Frame())
			}
		}
	}
	ids, _ := hang.LookAt(verdict.Named(heard.text, len(r.ranks)), rest, r.who.HostOf)
	if q.askStacks(whoIsAway, ids, bound) {
		r.endAway()
		return false
	}
	return true
}

// endAway ends such a look with what it has found.
func (r *Run) endAway() {
	q := &r.inquiry
	if !q.asksAway() {
		return
	}
	found, notes := q.look.found, q.look.notes
	q.close()
	q.look = look{}
	r.sayAway(r.heardVain(0), found, notes)
}

// heardVain is what ranks of a job say so far of having waited.
type heardVain struct {
	all, vain, lost idset.Set // ids: of the job; who waited in vain; who says only that it lost another one, or waited for it
	text            string    // of the first that waited in vain
	who             int       // it
	failed          idset.Set // who says that it fails for a reason of its own
	calls           hang.Calls
}

func (r *Run) heardVain(number int) (h heardVain) {
	from, end := r.jobs[number].IDs()
	h.calls, h.who = hang.Calls{}, -1
	for id := from; id < min(end, from+maxHeard); id++ {
		h.all.Add(id)
		f, ok := verdict.Read(r.cfg.Wrote(id))
		switch {
		case !ok:
			continue
		case !f.Echo:
			h.failed.Add(id)
			continue
		}
		h.lost.Add(id)
		if f.Vain {
			h.vain.Add(id)
		}
		if f.Vain && (h.who < 0 || verdict.Named(h.text, len(r.ranks)).Empty() && !verdict.Named(f.Line, len(r.ranks)).Empty()) {
			h.who, h.text = id, f.Line
		}
		if f.Call != "" {
			h.calls.Add(hang.Place{Known: true, Call: f.Call, At: f.Where}, id)
		}
	}
	return h
}

// sayAway hands the verdict what the look has found.
func (r *Run) sayAway(h heardVain, found []hang.Stack, notes []string) {
	l := &r.verdict.Look
	waited := "waited in vain"
	if len(h.calls) == 1 {
		for p := range h.calls {
			waited = "waited in " + p.String()
		}
	}
	waited = r.named(h.vain) + " " + waited

	away, at := idset.Set{}, map[int]string{}
	var rest []string // of those that are not elsewhere, as far as it shows
	for _, s := range found {
		at[s.ID] = strings.Join(hang.Telling(withoutStart(s.Frames)), ", called by ")
		switch p := s.Place(); {
		case h.lost.Contains(s.ID) || h.failed.Contains(s.ID): // it has spoken since
		case p.Known && p.Call == "":
			away.Add(s.ID)
		case p.Known:
			h.calls.Add(p, s.ID)
		default:
			rest = append(rest, fmt.Sprintf("%s was in %s", r.where(s.ID), at[s.ID]))
		}
	}
	// By a library's own numbers, which may be those of a group: nobody is left out for them.
	named := r.namedBy(h)
	many := away.Len() > h.lost.Union(calledBy(h.calls)).Len() // they are not the odd ones
	for id := range away.All() {
		where, isNamed, last := "was in "+at[id], named.Contains(id), ""
		if words := r.lastWords(id); words != "" {
			last = "; it wrote last: " + words
		}
		behind := ""
		switch {
		case isNamed:
			behind = fmt.Sprintf(", and %s names it", r.rankName(h.who))
		case !h.vain.Empty():
			behind = ", while " + waited
		}

		if many {
			if len(l.Lines) < maxNotes {
				l.Lines = append(l.Lines, r.where(id)+" "+where+behind+last)
			}
			continue
		}
		why := "it " + where + behind + last
		if isNamed {
			why = fmt.Sprintf("%s names it, and it %s%s", r.rankName(h.who), where, last)
		}
		l.Away = append(l.Away, job.Absentee{Rank: r.who.Process(id).Rank, Own: true, Name: r.rankName(id), Host: r.hosts[r.who.HostOf(id)].Name, PID: int(r.ranks[id].pid), Why: why})
	}
	if l.Found = !away.Empty(); l.Found {
		l.Lines = append(l.Lines, notes[:min(len(notes), 1)]...)
		return
	}

	only := h.all.Sub(h.vain)
	switch {
	case h.calls.Differ():
		l.Differ = true
		l.Lines = append(l.Lines, "ranks were in different collectives: "+h.calls.Text(r.named))
	case !named.Empty():
		l.Lines = append(l.Lines, fmt.Sprintf("that is %s's word about %s alone: nothing that was seen on its host bears it out", r.rankName(h.who), r.named(named)))
	case len(h.calls) > 0 && len(rest) == 0 && calledBy(h.calls).Union(h.lost).Covers(h.all):
		l.Lines = append(l.Lines, "no rank was elsewhere: "+h.calls.Text(r.named)+"; then the network between them is the reason, or a rank that was late")
	case only.Len() == 1 && h.all.Len() == 2 && !h.vain.Empty():
		l.Lines = append(l.Lines, fmt.Sprintf("%s, and %s is the only other one", waited, r.where(only.First())))
	}
	l.Lines = append(l.Lines, rest[:min(len(rest), maxNotes)]...)
}

// withoutStart is a stack without the function by which an interpreter runs a program, where others are there.
func withoutStart(frames []string) []string {
	if n := len(frames); n > 1 && frames[n-1] == "Py_BytesMain" {
		return frames[:n-1]
	}
	return frames
}

// calledBy are all that are in one of the calls.
func calledBy(calls hang.Calls) (ids idset.Set) {
	for _, in := range calls {
		ids = ids.Union(in)
	}
	return ids
}

// namedBy are the ranks of the first job that the library of the one that waited in vain names. Its numbers are the job's where it counts as many.
func (r *Run) namedBy(h heardVain) (named idset.Set) {
	if h.who < 0 {
		return named
	}
	return verdict.Named(h.text, r.jobs[0].Size()).Sub(idset.Of(h.who))
}

// lastWords is the last line that a process wrote; "": none, or it is not known.
func (r *Run) lastWords(id int) string {
	const most = 120
	last := r.cfg.Wrote(id).Last
	if len(last) == 0 {
		return ""
	}
	text := last[len(last)-1]
	if len(text) > most {
		text = text[:most] + "..."
	}
	return visible.Line(text)
}
