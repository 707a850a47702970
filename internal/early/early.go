// Package early takes SIGTERM and SIGINT for a container's first process from its first moment on, before other packages are initialised.
//
// Go would end such a process with 2, which is nobody's code: its runtime sends the signal again, as the kernel's own, which the kernel keeps from a
// PID 1, and exits (dieFromSignal, src/runtime/signal_unix.go). Initialising what mpiup is linked with takes milliseconds, more where a node is loaded.
//
// Signals may be called by any goroutine. A process that is no PID 1 has no channel: there the signal does what it always does.
package early

import (
	"os"
	"os/signal"
	"syscall"
)

// signals has room for one; nil: this process is no PID 1.
var signals = first()

func first() chan os.Signal {
	if os.Getpid() != 1 {
		return nil
	}
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGTERM, syscall.SIGINT)
	return c
}

// Signals are those that came since the process began; nil: nobody listens.
func Signals() chan os.Signal { return signals }
