package launcher

import (
	"errors"
	"fmt"
	"time"

	"github.com/mpiup/mpiup/internal/job"
)

// stage is how far a host was reached; a later one tells more about what is wrong.
type stage uint8

const (
	stageResolve stage = iota // the name has no address
	stageConnect              // nothing answers
	stageHosts                // an agent answers, and it is another host's
	stageTLS                  // it answers and our identities do not fit
	stageVersion              // other protocol
	stageFenced               // a newer launcher has taken over: never ask again
)

// exitCode is the exit code of a run that ends at that stage.
func (s stage) exitCode() int {
	return [...]int{job.ExitResolve, job.ExitConnect, job.ExitHosts, job.ExitTLS, job.ExitVersion, job.ExitPreempted}[s]
}

// cause is why a host is not reached. Its text does not name the host.
type cause struct {
	stage      stage
	refused    bool      // nothing listens there
	silent     bool      // nothing comes back from there
	port       uint16    // that refused or was silent; 0: not told
	unanswered bool      // DNS says neither yes nor no
	role       bool      // it does not let certificates of our role start anything
	never      bool      // nothing but another command line helps
	stranger   bool      // another incarnation answered, or one that does not know the session
	cached     time.Time // until when DNS may say so though it is no longer true; zero: it does not tell
	err        error
}

func (c *cause) Error() string { return c.err.Error() }
func (c *cause) Unwrap() error { return c.err }

// final says that the session cannot go on, however the host is reached.
func (c *cause) final() bool { return c.stranger || c.stage == stageFenced }

func causef(s stage, format string, args ...any) *cause {
	return &cause{stage: s, err: fmt.Errorf(format, args...)}
}

// patience is how long one host has been in a state that waiting does not cure. The zero value is new.
type patience struct {
	stage  stage
	silent bool
	since  time.Time // zero: it is in no such state
}

const (
	// hopeless is how long such a state must last: an agent that is made anew may be another's for a moment,
	// and the network of a new pod takes some seconds.
	hopeless = 15 * time.Second
	noCure   = "no longer waited for: what has been so for 15s does not become right by waiting"
)

// over takes what an attempt came to that began at a time, and says whether it is the last. insist is a user who said how
// long hosts may take to answer; one of another job stays that.
func (p *patience) over(c *cause, begun time.Time, insist bool) bool {
	if c.never {
		return true
	}
	if !(c.stage == stageTLS || c.stage == stageVersion || c.silent && !insist) {
		*p = patience{}
		return false
	}
	if p.since.IsZero() || p.stage != c.stage || p.silent != c.silent {
		*p = patience{c.stage, c.silent, begun}
	}
	return time.Since(p.since) >= hopeless
}

// asCause is err as a cause; one that is none counts as a connection's.
func asCause(err error) *cause {
	var c *cause
	if errors.As(err, &c) {
		return c
	}
	return &cause{stage: stageConnect, err: err}
}

// telling picks the cause that says most: the latest stage, of one stage something that listens
// before nothing, the first of several.
func telling(causes []*cause) *cause {
	var best *cause
	for _, c := range causes {
		if c != nil && (best == nil || c.stage > best.stage || c.stage == best.stage && best.refused && !c.refused) {
			best = c
		}
	}
	return best
}
