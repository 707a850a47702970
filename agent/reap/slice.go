package reap

import "golang.org/x/sys/unix"

// Slices are how long a thread may run before another's turn, of those that have a right to it. From Linux 6.12 on (kernel/sched/syscalls.c)
// each thread may ask for one of its own, without rights; 0 is the kernel's own. A thread with a short one gets no more of the processors, but
// what wakes it is answered sooner beside ranks that poll. Older kernels pass over the wish.
const (
	shortSlice = 100_000 // ns, the least that Linux gives
	usualSlice = 0
)

// shortenSlices gives short slices to all threads of this process, and so to those that they make. The spawner then takes the usual one, which
// its children have from it.
func shortenSlices() {
	eachThread(func(tid int) { setSlice(tid, shortSlice) })
}

// setSlice sets that of a thread, 0 for the calling one, if it is scheduled as usual. Sandboxes may refuse it; then it stays as it is.
func setSlice(tid int, ns uint64) {
	a, err := unix.SchedGetAttr(tid, 0)
	if err != nil || a.Policy != unix.SCHED_NORMAL {
		return
	}
	a.Runtime = ns
	_ = unix.SchedSetAttr(tid, a, 0) // an old kernel, or a sandbox
}
