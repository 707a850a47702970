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
	stage    stage
	refused  bool      // nothing listens there
	role     bool      // it does not let certificates of our role start anything
	stranger bool      // another incarnation answered, or one that does not know the session
	cached   time.Time // until when DNS may say so though it is no longer true; zero: it does not tell
	err      error
}

func (c *cause) Error() string { return c.err.Error() }
func (c *cause) Unwrap() error { return c.err }

// final says that the session cannot go on, however the host is reached.
func (c *cause) final() bool { return c.stranger || c.stage == stageFenced }

func causef(s stage, format string, args ...any) *cause {
	return &cause{stage: s, err: fmt.Errorf(format, args...)}
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
