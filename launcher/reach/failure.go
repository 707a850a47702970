package reach

import (
	"fmt"
	"syscall"

	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher/run/phases"
)

// Failure ends a command before its verdict.
type Failure = phases.Failure

// Failf is a failure of one line.
func Failf(code int, format string, args ...any) *Failure {
	return &Failure{Code: code, Lines: []string{fmt.Sprintf(format, args...)}}
}

// Unwritten is a failure of standard output.
func Unwritten(err error) *Failure { return Failf(job.ExitOutput, "standard output: %v", err) }

// GotSignal is a signal of job.EndsWaiting as the cause of a context's end.
type GotSignal syscall.Signal

// Status is the exit code of a command that the signal ended before any process ran. A run that gets TERM was preempted.
func (g GotSignal) Status(command bool) int {
	if int(g) == job.SIGTERM && !command {
		return job.ExitPreempted
	}
	return 128 + int(g)
}

func (g GotSignal) Error() string { return "got " + job.SignalName(int(g)) }
