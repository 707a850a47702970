package iof

import (
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// blockSignals blocks a signal for the calling thread, which the goroutine keeps until it
// calls unblock. The rest of the process, and what it starts elsewhere, is not affected.
func blockSignals(sig syscall.Signal) (unblock func()) {
	runtime.LockOSThread()
	var set, old unix.Sigset_t
	bits := uint(64)
	n := uint(sig) - 1
	set.Val[n/bits] |= 1 << (n % bits)
	if unix.PthreadSigmask(unix.SIG_BLOCK, &set, &old) != nil {
		return runtime.UnlockOSThread
	}
	return func() {
		unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil)
		runtime.UnlockOSThread()
	}
}
