package run

import (
	"fmt"
	"slices"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher/remains/report"
	"github.com/mpiup/mpiup/launcher/verdict"
)

// lost is a host that was given up or is being taken away. With Recover the run goes on, as long as
// there are ranks on another host and no newer launcher has taken over: who asked is told (gone).
func (r *Run) lost(f verdict.Fault) {
	other := func(s *host) bool {
		return s != r.hosts[f.Node] && !s.finished && s.ending == "" && !s.dropped && s.created+s.running > 0
	}
	if f.Event == verdict.HostTaken && !f.Fenced && r.cfg.Exec == nil && !r.cfg.Recover {
		r.leave(fmt.Sprintf("%s; all ranks get SIGTERM and have %v to end", f.Sentence(), r.cfg.TermGrace), job.SIGTERM)
	}
	if !r.cfg.Recover || f.Fenced || r.job == jobStopping || !slices.ContainsFunc(r.hosts, other) {
		r.fail(f)
		return
	}
	if s := r.hosts[f.Node]; !s.missed {
		s.missed = true
		r.say("%s; the other ranks go on (--enable-recovery)", f.Sentence())
	}
	if !slices.ContainsFunc(r.hosts, func(s *host) bool { return s.dropped && !s.missed }) {
		r.give(Unset{Bound})
	}
}

// unasked: the agent ended a rank that we had not told it to end, since it took us for dead or
// fenced us. Why comes with its Closed or the next answer; till then the host is not done with,
// lest a job that was cut short pass for one that ended well.
func (r *Run) unasked(h, id int) {
	r.hosts[h].taken.Add(id)
	if r.job == jobStopping || r.hosts[h].ending != "" || r.hosts[h].dropped {
		return
	}
	r.hosts[h].dropped = true
	r.set(Bound, r.cfg.Grace+stopBound)
}

func (r *Run) onEnding(h int, why string, at time.Duration) {
	r.hosts[h].ending = why
	if r.busy(h) {
		r.lost(verdict.Fault{Event: verdict.HostTaken, At: at, Host: r.hosts[h].Name, Node: h, ID: -1, Text: why, Ranks: r.ranksOn(h)})
	}
}

func (r *Run) onClosed(h int, m *apiv1.Closed, at time.Duration) {
	if m.Refusal == apiv1.Refusal_REFUSAL_FENCED {
		r.lost(verdict.Fault{Event: verdict.HostTaken, Fenced: true, At: at, Host: r.hosts[h].Name, Node: h, ID: -1, Text: m.Text, Ranks: r.ranksOn(h)})
	} else if !r.hosts[h].bye && r.hosts[h].ending == "" && r.busy(h) {
		r.lost(verdict.Fault{Event: verdict.HostLost, At: at, Host: r.hosts[h].Name, Node: h, ID: -1, Text: "its agent ended the session" + colon(m.Text), Ranks: r.ranksOn(h)})
	}
	r.finish(h)
}

// hostEnded: the host's connection is over, because all is done there or with err.
func (r *Run) hostEnded(e Ended) {
	h := e.Host
	r.active--
	r.finish(h) // nothing is sent there any more
	r.give(NoCopies{h})
	if e.Lost && r.busy(h) {
		f := verdict.Fault{Event: verdict.HostLost, At: e.Since, Host: r.hosts[h].Name, Node: h, ID: -1, Text: e.Why, Ranks: r.ranksOn(h)}
		r.give(Note{report.Lost, f.Host, f.Text})
		if e.Fenced || r.hosts[h].ending != "" {
			f.Event, f.Fenced = verdict.HostTaken, e.Fenced
		}
		r.lost(f)
	}
	left := r.hosts[h].taken
	for i := range r.ranks {
		s := &r.ranks[i]
		if r.hostOf(i) != h {
			continue
		}
		if s.output {
			r.give(EndOutput{i})
			s.output = false
		}
		if next, ok := s.state.next(rankHostLost); ok {
			s.state = next
			left.Add(i)
			r.feedInput(i)
			r.sendOut(r.exchange.Over(i, fmt.Sprintf("%s on %s is gone with its host", r.rankName(i), r.hosts[h].Name)))
			r.settled(r.jobOf(i), 1)
		}
	}
	if r.hosts[h].dropped && !r.verdict.Any() {
		r.lost(verdict.Fault{Event: verdict.HostLost, Host: r.hosts[h].Name, Node: h, ID: -1, Text: "its agent ended the ranks and does not say why", Ranks: r.ranksOn(h)})
	}
	r.hosts[h].created, r.hosts[h].running, r.hosts[h].outputs = 0, 0, 0
	r.sendOut(r.exchange.HostGone(h))
	r.notAwaited(h)
	r.gone.lost(left)
}

// idle says goodbye to a host of which nothing more is to come. A host that was told to stop
// starts no more ranks and does not speak of those it did not start.
func (r *Run) idle(h int) {
	if r.growing != nil { // it may get processes; grown comes back to it
		return
	}
	waiting := r.hosts[h].running + r.hosts[h].outputs
	if r.job != jobStopping {
		waiting += r.hosts[h].created
	}
	if waiting > 0 || r.hosts[h].bye || r.hosts[h].dropped && r.job != jobStopping {
		return
	}
	r.hosts[h].bye = true
	r.sendOut(r.exchange.HostDone(h))
	r.send(h, (&apiv1.Bye{}).Frame())
	if !slices.ContainsFunc(r.hosts, func(s *host) bool { return !s.bye }) {
		r.set(Bound, r.cfg.Grace+stopBound) // what the ranks left behind is ended too
	}
}
