package reap

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"unsafe"

	"github.com/mpiup/mpiup/topology/sysfs"
	"golang.org/x/sys/unix"
)

// raised are the limits that only ever help: locked memory (RDMA registration), processes, queued signals and message queues.
//
// Not among them: RLIMIT_NOFILE, whose soft limit is a program's: with select(2) one with a descriptor above 1,023 writes beyond its fd_set, and what
// closes all descriptors one by one is slow where there may be 2^30. Go raises it at its own start, for itself only, and gives children the original
// one back (package syscall: rlimit.go), unless somebody calls Setrlimit for it. RLIMIT_CORE, whose soft 0 keeps cores off a small disk; RLIMIT_STACK, because
// glibc gives threads 2 MiB instead of 8 when it is unlimited, and all of it when it is large;
// RLIMIT_AS, DATA, CPU and FSIZE, which are soft only when someone meant it.
var raised = []struct {
	name     string
	resource int
}{
	{"RLIMIT_MEMLOCK", unix.RLIMIT_MEMLOCK},
	{"RLIMIT_NPROC", unix.RLIMIT_NPROC},
	{"RLIMIT_SIGPENDING", unix.RLIMIT_SIGPENDING},
	{"RLIMIT_MSGQUEUE", unix.RLIMIT_MSGQUEUE},
}

// RaiseLimits raises this process's soft limits to the hard ones where that only helps, for its
// children to inherit. It needs no capability.
func RaiseLimits() error {
	var errs []error
	for _, r := range raised {
		var lim syscall.Rlimit
		if err := syscall.Getrlimit(r.resource, &lim); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", r.name, err))
			continue
		}
		lim.Cur = lim.Max
		if err := syscall.Setrlimit(r.resource, &lim); err != nil {
			errs = append(errs, fmt.Errorf("%s to %d: %w", r.name, lim.Cur, err))
		}
	}
	return errors.Join(errs...)
}

// defaultDispositions sees to it that children start with SIG_DFL for all signals. This process may have been started
// with some ignored (nohup, a background job of sh, some container runtimes). Go resets what it handles and passes on
// what it leaves ignored: SIGHUP and SIGINT, the terminal's stop signals, and 32 to 34, which it never handles. A
// handler that discards is to this process the same as ignoring. tini keeps ignored signals ignored in its child; a
// rank is no child of its user's terminal, and nohup protects the launcher, which then forwards nothing.
func defaultDispositions() (restore func(), err error) {
	sink := make(chan os.Signal, 1)
	restore = func() { signal.Stop(sink) }
	for _, change := range []func(syscall.Signal){func(sig syscall.Signal) { signal.Notify(sink, sig) }, setDefault} {
		status, err := os.ReadFile("/proc/self/status")
		if err != nil {
			return restore, err
		}
		for _, sig := range ignoredSignals(string(status)) {
			change(sig)
		}
	}
	return restore, nil
}

// setDefault sets SIG_DFL behind Go's back, for a signal that Go does not handle: a struct
// sigaction of zeros, on every architecture.
func setDefault(sig syscall.Signal) {
	var zeros [8]uint64
	_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(&zeros)), 0, 8, 0, 0)
}

// ignoredSignals reads SigIgn of /proc/PID/status: a mask in hexadecimal, bit 0 is signal 1.
func ignoredSignals(status string) (out []syscall.Signal) {
	hex, _ := sysfs.Field(status, "SigIgn:")
	mask, err := strconv.ParseUint(hex, 16, 64)
	for n := range 64 {
		if err == nil && mask&(1<<n) != 0 {
			out = append(out, syscall.Signal(n+1))
		}
	}
	return out
}
