package reap

import (
	"fmt"
	"os"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mpiup/mpiup/agent/reap/program"
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

func threadMask() (cpuMask, error) { return maskOfThread(0) }

// maskOfThread is that of a process's first thread; 0: of the calling one.
func maskOfThread(pid int) (m cpuMask, err error) {
	_, _, errno := unix.RawSyscall(unix.SYS_SCHED_GETAFFINITY, uintptr(pid), unsafe.Sizeof(m), uintptr(unsafe.Pointer(&m)))
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
		return nil, &program.Error{Phase: program.PhaseInit, Errno: program.Errno(err), Cause: fmt.Sprintf("sched_getaffinity: %v", err)}
	}
	want := maskOf(cpus)
	err = setThreadMask(&want)
	got, _ := threadMask()
	if err == nil && got == want {
		return func() { _ = setThreadMask(&before) }, nil
	}
	_ = setThreadMask(&before)
	sorted := slices.Sorted(slices.Values(cpus))
	return nil, &program.Error{Phase: program.PhaseInit, Errno: unix.EINVAL,
		Cause: fmt.Sprintf("it cannot be bound to CPUs %v: the container may use %v", sorted, before.list()),
		Hint:  "bind to CPUs of the container, or do not bind"}
}

// CPUs are those that the process may run on now, by the kernel's numbers. None after it has ended.
func (p *Process) CPUs() ([]int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reaped {
		return nil, nil
	}
	m, err := maskOfThread(p.pid)
	if err != nil {
		return nil, os.NewSyscallError("sched_getaffinity", err)
	}
	return m.list(), nil
}

// Memory policies, set_mempolicy(2).
const (
	mpolDefault   = 0
	mpolPreferred = 1
	maxNode       = 1024 // CONFIG_NODES_SHIFT is 10 at most
)

type nodeMask [maxNode / 64]uint64

// preferMemory lets the calling thread, and so its next child, take memory of a node first; back undoes it. A
// container may lack the right (Docker's seccomp profile wants CAP_SYS_NICE). It can do without: a process's memory
// comes from where it runs, unless the agent was started under another policy.
func preferMemory(node *int) (back func()) {
	none := func() {}
	if node == nil || *node < 0 || *node >= maxNode {
		return none
	}
	var before, want nodeMask
	var mode int32
	if _, _, errno := unix.RawSyscall6(unix.SYS_GET_MEMPOLICY, uintptr(unsafe.Pointer(&mode)), uintptr(unsafe.Pointer(&before)), maxNode, 0, 0, 0); errno != 0 {
		return none
	}
	want[*node/64] |= 1 << (*node % 64)
	if _, _, errno := unix.RawSyscall(unix.SYS_SET_MEMPOLICY, mpolPreferred, uintptr(unsafe.Pointer(&want)), maxNode); errno != 0 {
		return none
	}
	return func() {
		if mode == mpolDefault {
			_, _, _ = unix.RawSyscall(unix.SYS_SET_MEMPOLICY, mpolDefault, 0, 0)
			return
		}
		_, _, _ = unix.RawSyscall(unix.SYS_SET_MEMPOLICY, uintptr(mode), uintptr(unsafe.Pointer(&before)), maxNode)
	}
}
