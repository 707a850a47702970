package run

import (
	"fmt"
	"time"

	"github.com/mpiup/mpiup/internal/job"
)

// rankState is where a rank is in its life.
type rankState uint8

const (
	rankCreated rankState = iota
	rankRunning
	rankExited
	rankStartFailed
	rankLost // its host was given up
)

// rankEvent moves a rank.
type rankEvent string

const (
	rankStarted     rankEvent = "started"
	rankDidExit     rankEvent = "exited"
	rankDidNotStart rankEvent = "start failed"
	rankHostLost    rankEvent = "host lost"
)

// row is one move of a table: what happens, and the state before and after.
type row[E, S comparable] struct {
	event    E
	from, to S
}

// move is the state after e, and whether the table knows that move.
func move[E, S comparable](table []row[E, S], from S, e E) (S, bool) {
	for _, r := range table {
		if r.event == e && r.from == from {
			return r.to, true
		}
	}
	return from, false
}

// rankTable has every move a rank may make. Anything else is a frame out of turn.
var rankTable = []row[rankEvent, rankState]{
	{rankStarted, rankCreated, rankRunning},
	{rankDidNotStart, rankCreated, rankStartFailed},
	{rankDidExit, rankCreated, rankExited}, // stopped before it could report its start
	{rankDidExit, rankRunning, rankExited},
	{rankHostLost, rankCreated, rankLost},
	{rankHostLost, rankRunning, rankLost},
}

func (s rankState) next(e rankEvent) (rankState, bool) { return move(rankTable, s, e) }

// over says that nothing more comes of the rank.
func (s rankState) over() bool { return s >= rankExited }

func (s rankState) String() string {
	return [...]string{"created", "running", "exited", "start-failed", "lost"}[s]
}

// hostState is where a host of the run is in its life.
type hostState uint8

const (
	hostRunning     hostState = iota // it takes frames
	hostTaken                        // it takes frames; its agent is being ended, and has said so
	hostDropped                      // it takes frames; its agent has ended processes without being told to, and does not say why
	hostExplained                    // as hostDropped, and its agent has said since that it is being ended
	hostBye                          // Bye was sent: nothing is to come but the end
	hostLost                         // nothing more is expected of it
	hostLostDropped                  // lost, after its agent ended processes
	hostOver                         // lost, and it has had Bye
)

// hostEvent moves a host.
type hostEvent string

const (
	hostEnding  hostEvent = "is being ended"         // as its agent says
	hostUnasked hostEvent = "ends a process unasked" // its agent does
	hostToldBye hostEvent = "gets Bye"
	hostDone    hostEvent = "given up" // or its connection has ended as it should: nothing more is expected of it
)

// hostTable has every move of a host; an event that has no row changes nothing.
var hostTable = []row[hostEvent, hostState]{
	{hostEnding, hostRunning, hostTaken},
	{hostUnasked, hostRunning, hostDropped},
	{hostEnding, hostDropped, hostExplained},
	{hostToldBye, hostRunning, hostBye},
	{hostToldBye, hostTaken, hostBye},
	{hostToldBye, hostDropped, hostBye}, // as the next one: when all are being stopped
	{hostToldBye, hostExplained, hostBye},
	{hostDone, hostRunning, hostLost},
	{hostDone, hostTaken, hostLost},
	{hostDone, hostDropped, hostLostDropped},
	{hostDone, hostExplained, hostLostDropped},
	{hostDone, hostBye, hostOver},
	{hostToldBye, hostLost, hostOver},
	{hostToldBye, hostLostDropped, hostOver},
}

func (s hostState) next(e hostEvent) (hostState, bool) { return move(hostTable, s, e) }

// open says that the host takes frames.
func (s hostState) open() bool { return s < hostBye }

// finished says that nothing more is expected of the host.
func (s hostState) finished() bool { return s >= hostLost }

// told says that the host was told that nothing more comes.
func (s hostState) told() bool { return s == hostBye || s == hostOver }

// ending says that its agent has said that it is being ended.
func (s hostState) ending() bool { return s == hostTaken || s == hostExplained }

// dropped says that its agent has ended processes without being told to.
func (s hostState) dropped() bool {
	return s == hostDropped || s == hostExplained || s == hostLostDropped
}

// jobState is where the job is.
type jobState uint8

const (
	jobLaunching jobState = iota
	jobWiring
	jobRunning
	jobLeaving // the ranks have got SIGTERM and have TermGrace
	jobStopping
	jobDone
)

// jobEvent moves the job.
type jobEvent string

const (
	jobStarted jobEvent = "all run"
	jobWired   jobEvent = "wired"     // the first fence of all ranks is through, or none is to come
	jobSpeaks  jobEvent = "MPI"       // a rank has called MPI_Init, or is about to, of a program of which that was a guess
	jobLeaves  jobEvent = "preempted" // a pod of the run is being taken away; while launching, leave stops the run
	jobFailed  jobEvent = "failed"    // a fault, a signal or the time limit
	jobEnded   jobEvent = "all over"
)

// jobTable has every move of the job; an event that has no row changes nothing.
var jobTable = []row[jobEvent, jobState]{
	{jobStarted, jobLaunching, jobWiring},
	{jobWired, jobWiring, jobRunning},
	{jobSpeaks, jobRunning, jobWiring},
	{jobLeaves, jobWiring, jobLeaving},
	{jobLeaves, jobRunning, jobLeaving},
	{jobFailed, jobLaunching, jobStopping},
	{jobFailed, jobWiring, jobStopping},
	{jobFailed, jobRunning, jobStopping},
	{jobFailed, jobLeaving, jobStopping},
	{jobEnded, jobLaunching, jobDone}, // short programs may end before the last one reports
	{jobEnded, jobWiring, jobDone},
	{jobEnded, jobRunning, jobDone},
	{jobEnded, jobLeaving, jobDone},
	{jobEnded, jobStopping, jobDone},
}

func (s jobState) next(e jobEvent) (jobState, bool) { return move(jobTable, s, e) }

func (s jobState) String() string {
	return [...]string{"launching", "wiring", "running", "leaving", "stopping", "done"}[s]
}

// signalState turns signals that the launcher gets into what is done to the ranks.
//
//	INT, QUIT, TERM  first: forwarded, TERM as Config.Preempt says, and the grace runs; second of any: killed,
//	                 but not within a moment: timeout(1), shells and mpiup launcher send one to us and to our group
//	HUP USR1 USR2 WINCH CONT   forwarded; so is QUIT to mpiup exec, as often as it comes: a program may have its own use for it
//	TSTP             ranks get STOP; a second one lets them go on
//
// The launcher itself never stops on TSTP: its lease on the hosts would run out.
type signalState struct {
	first   int           // INT, QUIT or TERM that came first; 0: none
	firstAt time.Duration // when
	stopped bool          // ranks got STOP
	pid     int           // ours, for the sentence that says how to go on
	termAs  int           // what ranks get for TERM

	// command says that the one rank is a command of mpiup exec.
	command bool
}

// signalAction is what one signal leads to.
type signalAction struct {
	forward []int  // to every rank, in this order
	grace   bool   // start the grace, after which the ranks are stopped
	kill    bool   // stop them without grace
	say     string // to the user; "" is nothing
}

// How long after the first INT, QUIT or TERM the same one is taken for its double. Nobody types TERM twice.
const (
	echo     = 150 * time.Millisecond
	echoTerm = 2 * time.Second
)

// on is what to do about a signal that came at now, by any clock.
func (s *signalState) on(sig int, now time.Duration) signalAction {
	switch sig {
	case job.SIGQUIT:
		if s.command {
			return signalAction{forward: []int{sig}}
		}
		return s.end(sig, now)
	case job.SIGINT, job.SIGTERM:
		return s.end(sig, now)
	case job.SIGTSTP:
		return s.toggle()
	case job.SIGCONT:
		s.stopped = false
		return signalAction{forward: []int{sig}}
	case job.SIGHUP, job.SIGUSR1, job.SIGUSR2, job.SIGWINCH:
		return signalAction{forward: []int{sig}}
	}
	return signalAction{}
}

func (s *signalState) end(sig int, now time.Duration) signalAction {
	if since := now - s.firstAt; sig == s.first && (since < echo || sig == job.SIGTERM && since < echoTerm) {
		return signalAction{}
	}
	if s.first != 0 {
		return signalAction{kill: true, say: "killing the ranks"}
	}
	s.first, s.firstAt = sig, now
	a := signalAction{forward: []int{sig}, grace: true}
	if sig == job.SIGTERM {
		a.forward[0] = s.termAs
	}
	if s.stopped { // a stopped process acts on the signal only when it goes on
		a.forward = append(a.forward, job.SIGCONT)
		s.stopped = false
	}
	switch sig {
	case job.SIGINT:
		a.say = "interrupting the ranks; a second Ctrl-C kills them"
	case job.SIGQUIT:
		a.say = "passing SIGQUIT on to the ranks; a second one, or Ctrl-C, kills them"
	}
	return a
}

func (s *signalState) toggle() signalAction {
	if s.stopped {
		s.stopped = false
		return signalAction{forward: []int{job.SIGCONT}, say: "the ranks go on"}
	}
	s.stopped = true
	return signalAction{
		forward: []int{job.SIGSTOP},
		say: fmt.Sprintf("the ranks are stopped; mpiup keeps their hosts. Go on with Ctrl-Z again or: kill -CONT %d",
			s.pid),
	}
}
