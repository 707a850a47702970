package slow

import (
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/mpiup/mpiup/internal/frameworks"
)

// Limits of what is taken for steps that became slower.
const (
	slowerBy   = 1.10 // times what they took before, in the middle, and in most looks
	againBy    = 1.05 // less than that is as before
	sameSteps  = 0.10 // by how much the calls of a step may differ: else the program does something else
	clearLooks = 0.75 // of a window's, that show a step
	several    = 8    // steps that a window has at least
	mostBest   = 64   // windows that are kept
	mostSlower = 3    // how often a run says it
)

// steps is how long a training's steps took, by when its ranks call NCCL (agent/watch). Ranks of one collective step together: it names nobody.
//
//	look ──▶ window: the median ──▶ slower than the best of earlier windows, for a whole one ──▶ flight recorders are asked ──▶ who, or nobody
type steps struct {
	looks  []step // the newest windows'
	best   []step // medians of whole windows, the shortest first
	ended  time.Duration
	slower Slower
	told   int

	asked   time.Time // our wall clock when hosts were asked for their flight recorders; zero: they were not
	offsets map[string]Offset
	named   []int // who was the last to call collectives then, while steps are slower
	share   float64
}

type step struct {
	at, long time.Duration // 0: it does not show
	calls    uint32
}

func (s step) like(o step) bool {
	most := max(s.calls, o.calls)
	return float64(most-min(s.calls, o.calls)) <= sameSteps*float64(most)
}

// Slower is that steps take longer than they did. The zero value is that they do not.
type Slower struct {
	Now, Before time.Duration // of a step
	since       time.Duration
}

// Step is how long a step takes now, as the rank in the middle shows; 0: it does not show.
func (w *Watch) Step(now time.Duration) time.Duration { return w.step(now).long }

// step is what the rank in the middle shows of those that call NCCL, where most do.
func (w *Watch) step(now time.Duration) (s step) {
	var list []step
	calling := 0
	for _, t := range w.ranks {
		if t.StepCalls == 0 || now-t.heard > w.Window/2 {
			continue
		}
		if calling++; t.Step > 0 {
			list = append(list, step{now, t.Step, t.StepCalls})
		}
	}
	if 2*len(list) <= calling {
		return step{at: now}
	}
	return middle(list)
}

func middle(list []step) step {
	slices.SortFunc(list, func(a, b step) int { return int(a.long - b.long) })
	return list[len(list)/2]
}

// stepped looks at the steps, at most Looks times a window. news: it is to be told that they became slower.
func (w *Watch) stepped(now time.Duration) (news bool) {
	s := &w.steps
	if n := len(s.looks); n > 0 && now-s.looks[n-1].at < w.Window/Looks {
		return false
	}
	look := w.step(now)
	if s.looks = append(s.looks[max(len(s.looks)-mostPoints, 0):], look); look.long == 0 {
		return false
	}
	long := max(w.Window, min(several*look.long, maxSum))
	s.looks = slices.DeleteFunc(s.looks, func(l step) bool { return l.at < now-max(2*long, w.Window) })
	m, whole := s.window(now-long, w.Window/Looks)
	switch {
	case !whole || m.long == 0:
		return false
	case s.slower.Now > 0:
		if float64(m.long) < againBy*float64(s.slower.Before) {
			s.slower, s.offsets, s.named = Slower{}, nil, nil
		} else if m.long > s.slower.Before && m.like(look) {
			s.slower.Now = m.long
		}
	default:
		before := s.before(m, now-long)
		held, of := 0, 0
		for _, l := range s.looks {
			if l.at > now-long && l.long > 0 {
				if of++; float64(l.long) >= slowerBy*float64(before) {
					held++
				}
			}
		}
		if before > 0 && float64(m.long) >= slowerBy*float64(before) && float64(held) >= Held*float64(of) {
			s.slower = Slower{m.long, before, now - long}
			s.told++
			news = s.told <= mostSlower
		}
	}
	if now-s.ended >= long && s.slower.Now == 0 {
		s.ended = now
		s.best = append(s.best, m)
		slices.SortFunc(s.best, func(a, b step) int { return int(a.long - b.long) })
		s.best = s.best[:min(len(s.best), mostBest)]
	}
	return news
}

// window is the middle of the looks since a time. whole: they reach back to it, most show a step, all of one kind and about as long.
func (s *steps) window(since, every time.Duration) (m step, whole bool) {
	var list []step
	of := 0
	for _, l := range s.looks {
		if l.at <= since {
			continue
		}
		if of++; l.long > 0 {
			list = append(list, l)
		}
	}
	if len(list) == 0 || s.looks[0].at > since+2*every || float64(len(list)) < clearLooks*float64(of) {
		return m, false
	}
	m, of = middle(list), 0
	for _, l := range list {
		if l.like(m) && float64(l.long) <= slowerBy*float64(m.long) && float64(m.long) <= slowerBy*float64(l.long) {
			of++
		}
	}
	m.at = s.looks[len(s.looks)-1].at
	return m, float64(of) >= Held*float64(len(list))
}

// before is how long steps of this kind took in the best windows that were over by then: the middle of three, the longer of two.
func (s *steps) before(m step, by time.Duration) time.Duration {
	var best []step
	for _, b := range s.best {
		if b.at <= by && b.like(m) && len(best) < 3 {
			best = append(best, b)
		}
	}
	if len(best) == 0 {
		return 0
	}
	return best[len(best)/2].long
}

// slowed says that steps take longer than before, for so long.
func (s *steps) slowed(how string, now time.Duration) string {
	n, b := s.slower.Now, s.slower.Before
	return fmt.Sprintf("steps %s %s for %s, %s before (%.0f %% slower, by the cadence of NCCL calls)",
		how, brief(n), long(now-s.slower.since), brief(b), 100*(float64(n)/float64(b)-1))
}

// heard is when a host told last.
func (w *Watch) heard() (last time.Duration) {
	for _, t := range w.ranks {
		last = max(last, t.heard)
	}
	return last
}

// brief is how long a step takes.
func brief(d time.Duration) string { return fmt.Sprintf("%.3g s", d.Seconds()) }

// Cadence is what calls of NCCL show, at a look or at the end; "": there were none.
func (w *Watch) Cadence(now time.Duration) string {
	s := &w.steps
	calls := false
	for _, t := range w.ranks {
		calls = calls || t.StepCalls > 0
	}
	last := w.step(now)
	for i := len(s.looks) - 1; i >= 0 && last.long == 0; i-- {
		last = s.looks[i]
	}
	switch {
	case !calls:
		return ""
	case s.slower.Now > 0:
		return s.slowed("took", now)
	case last.long == 0:
		return "calls of NCCL show no clear period of steps"
	}
	return fmt.Sprintf("steps took %s, by the cadence of NCCL calls", brief(last.long))
}

// Asks says that hosts are to be asked for flight recorders, since steps became slower and nobody knows for whom. It is asked once each time.
func (w *Watch) Asks(wall time.Time) bool {
	s := &w.steps
	if s.slower.Now == 0 || s.told > mostSlower || s.offsets != nil {
		return false
	}
	s.asked, s.offsets = wall, map[string]Offset{}
	return true
}

// Clock takes when a host got the question, and when it answered, by its own wall clock, and when that came here by ours. What it did in
// between does not count: the rest is the way to and fro, and by half of it its clock may be off.
func (w *Watch) Clock(host string, wall time.Time, asked, answered int64) {
	there, all := time.Duration(answered-asked), wall.Sub(w.steps.asked)
	if w.steps.offsets == nil || asked <= 0 || answered < asked || there > all {
		return
	}
	way := all - there
	w.steps.offsets[host] = Offset{time.Unix(0, asked).Sub(w.steps.asked) - way/2, way / 2}
}

// Tardy says who is the last to call collectives by the flight recorders of all hosts, or that nobody can be named. owner is the host of a rank.
func (w *Watch) Tardy(records iter.Seq2[string, frameworks.Flight], owner func(rank int) string) string {
	calls := Calls{Hosts: len(w.steps.offsets)}
	for host, rec := range records {
		if offset, known := w.steps.offsets[host]; known {
			calls.Hear(host, offset, rec)
		}
	}
	t, measured := calls.Find(w.Window)
	switch {
	case t.Alleged:
		return "no rank can be named: too few hosts have ranks that call collectives before others, by torch's flight recorder"
	case t.Share == 0 && measured:
		return "no rank can be named: none is the last to call collectives, by torch's flight recorder"
	case t.Share == 0:
		return "no rank can be named: torch's flight recorder, if there is one, does not tell of enough collectives"
	}
	cause := Reason{}
	if owner(t.Rank) == t.Host { // torch counts as the job does
		w.steps.named, w.steps.share, cause = []int{t.Rank}, t.Share, w.Reason(t.Rank, t.Share)
	}
	return t.Sentence(cause.Sentence())
}
