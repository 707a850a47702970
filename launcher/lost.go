package launcher

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/launcher/link"
	"github.com/mpiup/mpiup/launcher/remains/report"
	"github.com/mpiup/mpiup/launcher/verdict"
)

// lost is a host that was given up or is being taken away. With Recover the run goes on, as long as
// there are ranks on another host and no newer launcher has taken over: who asked is told (goneHost).
func (r *run) lost(f verdict.Fault) {
	other := func(h *link.Conn) bool {
		s := &r.at[h.Index]
		return h.Index != f.Node && !h.Finished() && s.ending == "" && !s.dropped && s.created+s.running > 0
	}
	if f.Event == verdict.HostTaken && !f.Fenced && r.exec == nil && !r.cfg.Recover {
		r.leave(fmt.Sprintf("%s; all ranks get SIGTERM and have %v to end", f.Sentence(), r.cfg.TermGrace), syscall.SIGTERM)
	}
	if !r.cfg.Recover || f.Fenced || r.job == jobStopping || !slices.ContainsFunc(r.places.hosts(), other) {
		r.fail(f)
		return
	}
	if s := &r.at[f.Node]; !s.missed {
		s.missed = true
		r.say("%s; the other ranks go on (--enable-recovery)", f.Sentence())
	}
	if !slices.ContainsFunc(r.at, func(s hostState) bool { return s.dropped && !s.missed }) {
		r.timers.bound.Stop()
	}
}

// unasked: the agent ended a rank that we had not told it to end, since it took us for dead or
// fenced us. Why comes with its Closed or the next answer; till then the host is not done with,
// lest a job that was cut short pass for one that ended well.
func (r *run) unasked(h, id int) {
	r.at[h].taken.Add(id)
	if r.job == jobStopping || r.at[h].ending != "" || r.at[h].dropped {
		return
	}
	r.at[h].dropped = true
	r.timers.bound.Reset(r.cfg.Grace + stopBound)
}

func (r *run) onEnding(h int, why string, at time.Duration) {
	r.at[h].ending = why
	if r.busy(h) {
		r.lost(verdict.Fault{Event: verdict.HostTaken, At: at, Host: r.host(h).Name, Node: h, ID: -1, Text: why, Ranks: r.ranksOn(h)})
	}
}

func (r *run) onClosed(h int, m *apiv1.Closed, at time.Duration) {
	if m.Refusal == apiv1.Refusal_REFUSAL_FENCED {
		r.lost(verdict.Fault{Event: verdict.HostTaken, Fenced: true, At: at, Host: r.host(h).Name, Node: h, ID: -1, Text: m.Text, Ranks: r.ranksOn(h)})
	} else if !r.at[h].bye && r.at[h].ending == "" && r.busy(h) {
		r.lost(verdict.Fault{Event: verdict.HostLost, At: at, Host: r.host(h).Name, Node: h, ID: -1, Text: "its agent ended the session" + colon(m.Text), Ranks: r.ranksOn(h)})
	}
	r.host(h).Finish()
}

// hostEnded: the host's connection is over, because all is done there or with err.
func (r *run) hostEnded(h int, err error) {
	r.active--
	r.host(h).Finish() // nothing is sent there any more
	r.copier.Gone(h)
	var lost *link.Lost
	if errors.As(err, &lost) && r.busy(h) {
		f := verdict.Fault{Event: verdict.HostLost, At: lost.Since, Host: r.host(h).Name, Node: h, ID: -1, Text: lost.Why, Ranks: r.ranksOn(h)}
		r.remains.Event(report.Lost, f.Host, f.Text)
		if lost.Fenced || r.at[h].ending != "" {
			f.Event, f.Fenced = verdict.HostTaken, lost.Fenced
		}
		r.lost(f)
	}
	left := r.at[h].taken
	for i := range r.ranks {
		s := &r.ranks[i]
		if r.places.hostOf(i) != h {
			continue
		}
		if s.output {
			r.sink.End(i)
			s.output = false
		}
		if next, ok := s.state.next(rankHostLost); ok {
			s.state = next
			left.Add(i)
			r.feedInput(i)
			r.sendOut(r.exchange.Over(i, fmt.Sprintf("%s on %s is gone with its host", r.rankName(i), r.host(h).Name)))
			r.settled(r.jobOf(i), 1)
		}
	}
	if r.at[h].dropped && !r.verdict.Any() {
		r.lost(verdict.Fault{Event: verdict.HostLost, Host: r.host(h).Name, Node: h, ID: -1, Text: "its agent ended the ranks and does not say why", Ranks: r.ranksOn(h)})
	}
	r.at[h].created, r.at[h].running, r.at[h].outputs = 0, 0, 0
	r.sendOut(r.exchange.HostGone(h))
	r.notAwaited(h)
	r.goneHost(left)
}
