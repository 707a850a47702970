package link

import (
	"errors"
	"fmt"
	"time"

	"github.com/mpiup/mpiup/internal/job"
)

// Stage is how far a host was reached; a later one tells more about what is wrong.
type Stage uint8

const (
	StageResolve Stage = iota // the name has no address
	StageConnect              // nothing answers
	StageHosts                // an agent answers, and it is another host's
	StageTLS                  // it answers and our identities do not fit
	StageVersion              // other protocol
	StageFenced               // a newer launcher has taken over: never ask again
)

// ExitCode is the exit code of a run that ends at that stage.
func (s Stage) ExitCode() int {
	return [...]int{job.ExitResolve, job.ExitConnect, job.ExitHosts, job.ExitTLS, job.ExitVersion, job.ExitPreempted}[s]
}

// Cause is why a host is not reached. Its text does not name the host.
type Cause struct {
	Stage      Stage
	Refused    bool      // nothing listens there
	Silent     bool      // nothing comes back from there
	Mute       bool      // it accepts connections, and does not say in time who it is
	Port       uint16    // that refused, or was silent or mute; 0: not told
	Unanswered bool      // DNS says neither yes nor no
	Role       bool      // it does not let certificates of our role start anything
	Alive      bool      // it has not given another launcher up, whose run we would take over
	Succeeded  bool      // with StageFenced: another has our run, and its ranks go on
	Told       bool      // the launcher before us has told its ranks to end
	Replaced   bool      // a newer connection of ours has the session
	Ending     bool      // it is shutting down: its host is being taken away
	Never      bool      // nothing but another command line helps
	Turns      bool      // with StageTLS: it holds another key, and ours lies where one that is changed comes to each pod by itself
	Unfit      bool      // a frame cannot be carried, on this connection or another (codec.Unfit)
	Stranger   bool      // another incarnation answered, or one that does not know the session
	Cached     time.Time // until when DNS may say so though it is no longer true; zero: it does not tell
	Err        error
}

func (c *Cause) Error() string { return c.Err.Error() }
func (c *Cause) Unwrap() error { return c.Err }

// final says that the session cannot go on, however the host is reached.
func (c *Cause) final() bool { return c.Stranger || c.Unfit || c.Stage == StageFenced }

// Causef is a cause of that stage, formatted as by fmt.Errorf.
func Causef(s Stage, format string, args ...any) *Cause {
	return &Cause{Stage: s, Err: fmt.Errorf(format, args...)}
}

// NoCure says why a host is waited for no longer.
func NoCure(c *Cause) string {
	if c.Turns {
		return fmt.Sprintf("no longer waited for: a key that is changed has come to all pods within %v", KeyTurn)
	}
	return fmt.Sprintf("no longer waited for: what has been so for %v does not become right by waiting", Hopeless)
}

// Patience is how long one host has been in a state that waiting does not cure. The zero value is new.
type Patience struct {
	stage  Stage
	silent bool
	since  time.Duration // by the clock of who asks
	held   bool          // it is in such a state
}

const (
	// hopeless is how long such a state must last: an agent that is made anew may be another's for a moment,
	// and the network of a new pod takes some seconds.
	Hopeless = 15 * time.Second
	// KeyTurn is how long a kubelet may take to bring a changed Secret to a pod, its look once a minute and its cache's age
	// taken together, and half of that again.
	KeyTurn = 3 * time.Minute
)

// Over takes what an attempt came to that lasted from begun to now, by a wire.Clock, and says whether it is the last. insist is a
// user who said how long hosts may take to answer; one of another job stays that.
func (p *Patience) Over(c *Cause, begun, now time.Duration, insist bool) bool {
	if c.Never || c.Unfit {
		return true
	}
	if !(c.Stage == StageTLS || c.Stage == StageVersion || c.Silent && !insist) {
		*p = Patience{}
		return false
	}
	if !p.held || p.stage != c.Stage || p.silent != c.Silent {
		*p = Patience{c.Stage, c.Silent, begun, true}
	}
	bears := Hopeless
	if c.Turns {
		bears = KeyTurn
	}
	return now-p.since >= bears
}

// AsCause is err as a cause; one that is none counts as a connection's.
func AsCause(err error) *Cause {
	var c *Cause
	if errors.As(err, &c) {
		return c
	}
	return &Cause{Stage: StageConnect, Err: err}
}

// Telling picks the cause that says most: the latest stage, of one stage something that listens
// before nothing, the first of several.
func Telling(causes []*Cause) *Cause {
	var best *Cause
	for _, c := range causes {
		if c != nil && (best == nil || c.Stage > best.Stage || c.Stage == best.Stage && best.Refused && !c.Refused) {
			best = c
		}
	}
	return best
}
