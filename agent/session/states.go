package session

import "fmt"

// state is a session's state.
type state int

const (
	opened   state = iota // known, nothing started
	launched              // processes were started, or are being started
	held                  // its launcher is lost, and its processes wait for another
	stopping              // told to stop its processes
	closing               // ends: processes are stopped, then the session is forgotten
	closed                // nothing of it is left
)

var stateNames = [...]string{"opened", "launched", "held", "stopping", "closing", "closed"}

func (s state) String() string { return stateNames[s] }

// event is what moves a session from state to state.
type event int

const (
	evLaunch event = iota // Launch frame
	evLose                // the launcher is lost, and described its run for another
	evTake                // it is back, or another has taken over
	evStop                // Stop frame, or a failure here
	evEnd                 // Bye, lease, fence, agent's end
	evGone                // last process and descendant has gone
)

var eventNames = [...]string{"launch", "lose", "take", "stop", "end", "gone"}

func (e event) String() string { return eventNames[e] }

// transitions is the whole machine; what is not in it is a protocol error.
var transitions = []struct {
	ev   event
	from state
	to   state
}{
	{evLaunch, opened, launched},
	{evLaunch, launched, launched}, // a job that ranks spawned
	{evLose, launched, held},
	{evTake, held, launched},
	{evEnd, held, closing},
	{evStop, opened, stopping}, // a Launch that follows is refused
	{evStop, launched, stopping},
	{evStop, held, stopping},
	{evStop, stopping, stopping}, // again, perhaps without grace
	{evEnd, opened, closing},
	{evEnd, launched, closing},
	{evEnd, stopping, closing},
	{evStop, closing, closing},
	{evEnd, closing, closing},
	{evGone, closing, closed},
}

// next is the state after ev, or an error that says what was wrong.
func (s state) next(ev event) (state, error) {
	for _, t := range transitions {
		if t.ev == ev && t.from == s {
			return t.to, nil
		}
	}
	return s, fmt.Errorf("%v is not possible in a session that is %v", ev, s)
}
