package reap

import (
	"fmt"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// maxCPU bounds CPU numbers; Linux knows at most 8192 (CONFIG_NR_CPUS).
const maxCPU = 8192

// cpuMask is a kernel CPU mask; unix.CPUSet ends at 1024 CPUs.
type cpuMask [maxCPU / 64]uint64

func maskOf(cpus []int) cpuMask {
	var m cpuMask
	for _, c := range cpus {
		m[c/64] |= 1 << (c % 64)
	}
	return m
}

func (m *cpuMask) list() []int {
	var out []int
	for c := range maxCPU {
		if m[c/64]&(1<<(c%64)) != 0 {
			out = append(out, c)
		}
	}
	return out
}

func threadMask() (m cpuMask, err error) {
	_, _, errno := unix.RawSyscall(unix.SYS_SCHED_GETAFFINITY, 0, unsafe.Sizeof(m), uintptr(unsafe.Pointer(&m)))
	if errno != 0 {
		return m, errno
	}
	return m, nil
}

func setThreadMask(m *cpuMask) error {
	_, _, errno := unix.RawSyscall(unix.SYS_SCHED_SETAFFINITY, 0, unsafe.Sizeof(*m), uintptr(unsafe.Pointer(m)))
	if errno != 0 {
		return errno
	}
	return nil
}

// setAffinity gives the calling thread, and so its next child, the CPUs; back undoes it. The
// kernel silently drops CPUs outside the container's cpuset, so what it made of it is read back.
func setAffinity(cpus []int) (back func(), err error) {
	if len(cpus) == 0 {
		return func() {}, nil
	}
	before, err := threadMask()
	if err != nil {
		return nil, &StartError{Phase: PhaseInit, Errno: errnoOf(err), Cause: fmt.Sprintf("sched_getaffinity: %v", err)}
	}
	want := maskOf(cpus)
	err = setThreadMask(&want)
	got, _ := threadMask()
	if err == nil && got == want {
		return func() { _ = setThreadMask(&before) }, nil
	}
	_ = setThreadMask(&before)
	sorted := slices.Sorted(slices.Values(cpus))
	return nil, &StartError{Phase: PhaseInit, Errno: unix.EINVAL,
		Cause: fmt.Sprintf("it cannot be bound to CPUs %v: the container may use %v", sorted, before.list()),
		Hint:  "bind to CPUs of the container, or do not bind"}
}
