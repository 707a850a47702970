// Package run is the logic of a run, from the launch of its first job to the end of its last process: events in, orders out. PURE.
//
//	frames of hosts, hosts lost ─┐                                  ┌─▶ Send: frames to hosts, Finish
//	signals of the user, timers  ├─Step(now, event)─▶ Run ─orders─┼─▶ Say: lines for the user, Set: timers
//	hosts reached, files read ───┘                                  └─▶ Reach, ReadHosts, Grow ...: answered by events
//
// A run begins with one job, and ranks may spawn others (launcher/spawn has their order), on the run's hosts and on hosts that join
// for it. Each process has an id that stays its own; frames, fences and exits are of ids, whatever the job (roster.go):
//
//	ids          0 1 2 3 | 4 5 | 6       hosts  0: w0   1: w1   2: w7, which joined
//	job          0       | 1   | 2       users  know id 5 as "rank 1 of spawned job 1", its lines
//	host of id   0 0 1 1 | 1 2 | 0              as "[1.1] "
//
//	rank ─SpawnRequest─▶ Run: place, join hosts ─Launch{job, base}─▶ every host, also those that
//	     ◀─SpawnResult─ once all of it runs, or why not               get none of its processes
//
// All jobs are one run: it ends when every process has, and a rank that fails in any of them ends
// it. A job that cannot be started as a whole is no failure: what did start is ended.
//
// What may happen to a rank, to a host and to the first job stands in tables (states.go), of which a test makes these drawings.
//
// A rank:
//
//	created │ started ─▶ running │ start failed ─▶ start-failed │ exited ─▶ exited │ host lost ─▶ lost
//	running │ exited ─▶ exited │ host lost ─▶ lost
//
// A host:
//
//	running   │ is being ended ─▶ taken │ ends a process unasked ─▶ dropped │ gets Bye ─▶ bye
//	          │ given up ─▶ lost
//	dropped   │ is being ended ─▶ explained │ gets Bye ─▶ bye │ given up ─▶ forgotten
//	taken     │ gets Bye ─▶ bye │ given up ─▶ lost
//	explained │ gets Bye ─▶ bye │ given up ─▶ forgotten
//	bye       │ given up ─▶ over
//	lost      │ gets Bye ─▶ over
//	forgotten │ gets Bye ─▶ over
//
// The first job:
//
//	launching │ all run ─▶ wiring │ failed ─▶ stopping │ all over ─▶ done
//	wiring    │ wired ─▶ running │ preempted ─▶ leaving │ failed ─▶ stopping │ all over ─▶ done
//	running   │ preempted ─▶ leaving │ failed ─▶ stopping │ all over ─▶ done
//	leaving   │ failed ─▶ stopping │ all over ─▶ done
//	stopping  │ all over ─▶ done
//
// Other packages, which are pure too, decide parts of it:
//
//	launcher/exchange    fences and names              launcher/hang        why it does not go on, and who is waited for
//	launcher/verdict     whose fault a failure is      launcher/mixture     whether libraries go together
//
// Concurrency: a Run belongs to one goroutine. Orders are carried out in their order, before the next event but for the answers
// of these very orders; what has come at once ends with a Turn.
//
// The package reaches no host, reads no clock and writes nothing; output of ranks does not pass here.
package run

import (
	"fmt"
	"strings"
	"time"

	"github.com/mpiup/mpiup/launcher/exchange"
	"github.com/mpiup/mpiup/launcher/hours"
	"github.com/mpiup/mpiup/launcher/run/model"
	"github.com/mpiup/mpiup/launcher/spawn"
	"github.com/mpiup/mpiup/launcher/verdict"
)

// Run is one run, from the launch of its first job to the end of the last process. New makes one.
type Run struct {
	cfg *Config
	now Now
	shared

	sites       *sites
	brief       briefing
	spawns      *spawn.Queue
	growing     *spawn.Order // waits for Grown
	overJobs    int          // spawned jobs that are over
	active      int          // hosts whose connection has not ended
	hungry      map[int]bool // ranks that get standard input and do not run yet
	starred     bool         // the star was spoken of
	gone        gone
	alone       alone
	meet        attending
	inquiry     inquiry
	stalls      stalls
	succession  succession
	flights     flights
	exchange    *exchange.Exchange
	verdict     verdict.Case
	phase       string // of the first fault
	signals     signalState
	interrupted bool // the ranks have Config.Grace to end after a Ctrl-C
	unwritten   unwritten
	grows       Came      // hosts for which the ranks were ended; zero: none
	succeeded   bool      // another launcher has the run, whose ranks go on
	stopped     time.Time // when the ranks were told to end; zero: they were not
}

// Now is the time of an event: Wall as programs on this host have it, Clock as silence is counted (wire.Clock).
type Now struct {
	Wall  time.Time
	Clock time.Duration
}

// Active is how many hosts have a connection still; the run is over when none has.
func (r *Run) Active() int { return r.active }

// Stand is how the run stands, as those know it who watch it: ranks that leave run.
func (r *Run) Stand() hours.Stand {
	s := hours.Stand{Phase: r.job.String(), Ranks: map[string]int{}, Hosts: r.active}
	if r.job == jobLeaving {
		s.Phase = jobRunning.String()
	}
	for state := range rankLost + 1 {
		s.Ranks[state.String()] = 0
	}
	for i := range r.ranks {
		s.Ranks[r.ranks[i].state.String()]++
	}
	if quiet := r.stalls.watch.Quiet(r.now.Clock, r.running()); quiet > 0 && r.cfg.activityEvery() > 0 {
		s.Quiet, s.Stalled = r.now.Wall.Add(-quiet), r.stalls.told
	}
	ranks, lost := r.stalls.slow.Last()
	s.Step = r.stalls.slow.Step(r.now.Clock)
	s.For, s.Lost = make(map[int]string, len(ranks)), lost
	for _, rank := range ranks {
		s.For[rank] = r.hosts[r.who.HostOf(rank)].Name
	}
	return s
}

// Phase is where it was when something went wrong first.
func (r *Run) Phase() string { return r.phase }

// PID is a process's on its host; 0 where it is not known.
func (r *Run) PID(id int) int { return int(r.ranks[id].pid) }

// Losses are how the hosts of the first job were lost, in the order of its plan; nil: one was not.
func (r *Run) Losses() []*model.Lost {
	list := make([]*model.Lost, len(r.jobs[0].Hosts))
	for i, h := range r.jobs[0].Hosts {
		list[i] = r.hosts[h].lost
	}
	return list
}

// Grows says that the ranks were ended for hosts that had come.
func (r *Run) Grows() (Came, bool) { return r.grows, r.grows.Size > 0 }

// Verdict is what went wrong so far.
func (r *Run) Verdict() *verdict.Case { return &r.verdict }

// Hear hands what ranks wrote to the verdict, when all output has come.
func (r *Run) Hear(words func(id int) verdict.Said) {
	r.verdict.Hear(len(r.ranks), words, r.stopped, func(id int) verdict.Fault { return r.about(verdict.Raised, r.who.HostOf(id), id) })
}

// addHost makes one that was reached a host of the run, and returns its index.
func (r *Run) addHost(h model.Host) int {
	r.who = r.who.Join()
	r.hosts = append(r.hosts, &host{Host: h})
	r.active++
	return len(r.hosts) - 1
}

// finish says that nothing more is expected of a host.
func (r *Run) finish(h int) {
	if r.hosts[h].move(hostDone) {
		r.give(Finish{h})
	}
}

// move moves the first job; false where the table has no such move.
func (r *Run) move(e jobEvent) (moved bool) {
	if r.job, moved = r.job.next(e); moved {
		r.debug("job", "state", r.job.String(), "after", r.now.Wall.Sub(r.cfg.Begun))
	}
	return moved
}

// maxFault bounds what is kept of an agent's words on a fault, in bytes.
const maxFault = 8 << 10

// fail notes a fault.
func (r *Run) fail(f verdict.Fault) {
	r.cutLook()
	if !r.verdict.Any() {
		r.phase = r.job.String()
	}
	if f.At <= 0 {
		f.At = r.now.Clock
	}
	f.Command = r.cfg.Exec != nil
	f.Text = strings.Clone(f.Text[:min(len(f.Text), maxFault)]) // of an agent's, which may be a frame long
	r.verdict.Add(f)
	r.debug("fault", "what", f.Sentence())
}

// nonsense is an agent that does not keep to the protocol.
func (r *Run) nonsense(h int, err error) {
	r.fail(verdict.Fault{Event: verdict.Internal, Host: r.hosts[h].Name, Node: h, ID: -1, Text: fmt.Sprintf("host %s: %v", r.hosts[h].Name, err)})
}

// about is the beginning of a fault of one process.
func (r *Run) about(what verdict.Event, h, id int) verdict.Fault {
	return verdict.Fault{Event: what, Host: r.hosts[h].Name, Node: h, ID: id, Process: r.who.Process(id), Piped: !r.cfg.Pty}
}

// sentence is the cause as it stands.
func (r *Run) sentence() string {
	if f, ok := r.verdict.Cause(); ok {
		return f.Sentence()
	}
	if _, ok := r.Grows(); ok {
		return model.Came(r.grows.Hosts)
	}
	return "as mpiup was told"
}
