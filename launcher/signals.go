package launcher

import (
	"fmt"
	"syscall"
	"time"
)

// signalState turns signals that the launcher gets into what is done to the ranks.
//
//	INT, TERM        first: forwarded, and the grace runs; second of either: killed, but not
//	                 within a moment: timeout(1) and shells send one to us and to our group
//	HUP USR1 USR2 WINCH CONT   forwarded
//	TSTP             ranks get STOP; a second one lets them go on
//
// The launcher itself never stops on TSTP: its lease on the hosts would run out.
type signalState struct {
	first   syscall.Signal // INT or TERM that came first; 0: none
	firstAt time.Duration  // when
	stopped bool           // ranks got STOP
	pid     int            // ours, for the sentence that says how to go on
}

// signalAction is what one signal leads to.
type signalAction struct {
	forward []syscall.Signal // to every rank, in this order
	grace   bool             // start the grace, after which the ranks are stopped
	kill    bool             // stop them without grace
	say     string           // to the user; "" is nothing
}

// echo is how long after the first INT or TERM the same one is taken for its double.
const echo = 150 * time.Millisecond

// on is what to do about a signal that came at now, by any clock.
func (s *signalState) on(sig syscall.Signal, now time.Duration) signalAction {
	switch sig {
	case syscall.SIGINT, syscall.SIGTERM:
		return s.end(sig, now)
	case syscall.SIGTSTP:
		return s.toggle()
	case syscall.SIGCONT:
		s.stopped = false
		return signalAction{forward: []syscall.Signal{sig}}
	case syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH:
		return signalAction{forward: []syscall.Signal{sig}}
	}
	return signalAction{}
}

func (s *signalState) end(sig syscall.Signal, now time.Duration) signalAction {
	if sig == s.first && now-s.firstAt < echo {
		return signalAction{}
	}
	if s.first != 0 {
		return signalAction{kill: true, say: "killing the ranks"}
	}
	s.first, s.firstAt = sig, now
	a := signalAction{forward: []syscall.Signal{sig}, grace: true}
	if s.stopped { // a stopped process acts on the signal only when it goes on
		a.forward = append(a.forward, syscall.SIGCONT)
		s.stopped = false
	}
	if sig == syscall.SIGINT {
		a.say = "interrupting the ranks; a second Ctrl-C kills them"
	}
	return a
}

func (s *signalState) toggle() signalAction {
	if s.stopped {
		s.stopped = false
		return signalAction{forward: []syscall.Signal{syscall.SIGCONT}, say: "the ranks go on"}
	}
	s.stopped = true
	return signalAction{
		forward: []syscall.Signal{syscall.SIGSTOP},
		say: fmt.Sprintf("the ranks are stopped; mpiup keeps their hosts. Go on with Ctrl-Z again or: kill -CONT %d",
			s.pid),
	}
}
