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

// maskOfThread is that of a process's first thread; 0: of the calling one.
func maskOfThread(pid int) (unix.CPUSetDynamic, error) {
	m := unix.NewCPUSet(maxCPU)
	return m, unix.SchedGetaffinityDynamic(pid, m)
}

// numbers are the CPUs of a mask.
func numbers(m unix.CPUSetDynamic) (cpus []int) {
	for c := range maxCPU {
		if m.IsSet(c) {
			cpus = append(cpus, c)
		}
	}
	return cpus
}

// setAffinity gives the calling thread, and so its next child, the CPUs; back undoes it. The
// kernel silently drops CPUs outside the container's cpuset, so what it made of it is read back.
func setAffinity(cpus []int) (back func(), err error) {
	if len(cpus) == 0 {
		return func() {}, nil
	}
	before, err := maskOfThread(0)
	if err != nil {
		return nil, &program.Error{Phase: program.PhaseInit, Errno: program.Errno(err), Cause: fmt.Sprintf("sched_getaffinity: %v", err)}
	}
	want := unix.NewCPUSet(maxCPU)
	for _, c := range cpus {
		want.Set(c)
	}
	back = func() { _ = unix.SchedSetaffinityDynamic(0, before) }
	err = unix.SchedSetaffinityDynamic(0, want)
	if got, _ := maskOfThread(0); err == nil && slices.Equal(got, want) {
		return back, nil
	}
	back()
	sorted := slices.Sorted(slices.Values(cpus))
	return nil, &program.Error{Phase: program.PhaseInit, Errno: unix.EINVAL,
		Cause: fmt.Sprintf("it cannot be bound to CPUs %v: the container may use %v", sorted, numbers(before)),
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
	return numbers(m), nil
}

// maxNode bounds numbers of NUMA nodes (CONFIG_NODES_SHIFT is 10 at most).
const maxNode = 1024

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
	if _, _, errno := unix.RawSyscall(unix.SYS_SET_MEMPOLICY, unix.MPOL_PREFERRED, uintptr(unsafe.Pointer(&want)), maxNode); errno != 0 {
		return none
	}
	return func() {
		if mode == unix.MPOL_DEFAULT {
			_ = unix.SetMemPolicyDynamic(unix.MPOL_DEFAULT, nil)
			return
		}
		_, _, _ = unix.RawSyscall(unix.SYS_SET_MEMPOLICY, uintptr(mode), uintptr(unsafe.Pointer(&before)), maxNode)
	}
}
