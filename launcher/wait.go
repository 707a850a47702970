package launcher

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/mpiup/mpiup/launcher/reach"

	"github.com/mpiup/mpiup/internal/job"
)

// patience bounds gathering by --wait and --timeout, and ends it on INT or TERM.
func (r *run) patience(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, end := context.WithCancelCause(ctx)
	ctx, cancelWait := context.WithTimeoutCause(ctx, r.cfg.Wait, errWaited)
	cancelLimit := func() {}
	if r.cfg.Timeout > 0 {
		ctx, cancelLimit = context.WithTimeoutCause(ctx, r.cfg.Timeout, errTimeout)
	}
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case s := <-r.cfg.Signals:
				if a, ok := asSignal(s); ok {
					end(a)
				}
			case <-stop:
				return
			}
		}
	}()
	return ctx, func() { close(stop); <-done; cancelLimit(); cancelWait(); end(nil) }
}

var (
	errWaited  = errors.New("--wait has run out")
	errTimeout = errors.New("--timeout has run out")
)

// impatient is err, unless gathering was cut short by the user or by --timeout.
func (r *run) impatient(ctx context.Context, err error) error {
	var lines []string
	if f := (*reach.Failure)(nil); errors.As(err, &f) {
		lines = f.Lines
	}
	cause := context.Cause(ctx)
	var sig reach.GotSignal
	switch {
	case errors.As(cause, &sig):
		return &reach.Failure{Code: 128 + int(sig), Lines: append(lines, fmt.Sprintf("got %s while waiting for hosts", job.SignalName(int(sig))))}
	case errors.Is(cause, errTimeout):
		return &reach.Failure{Code: job.ExitTimeout, Lines: append(lines, fmt.Sprintf("the hosts were not there within --timeout %v", r.cfg.Timeout))}
	}
	return err
}

// asSignal is s if it ends the launcher.
func asSignal(s os.Signal) (reach.GotSignal, bool) {
	if s == syscall.SIGINT || s == syscall.SIGTERM || s == syscall.SIGHUP {
		return reach.GotSignal(s.(syscall.Signal)), true
	}
	return 0, false
}
