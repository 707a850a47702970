package watch

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/mpiup/mpiup/agent/reap/proctree"
)

// Bounds of what one look reads.
const (
	maxThreads = 256 // of one process
	maxCounter = 4096
)

// queuedOf is how long the threads of these processes were ready to run and had no processor, since their start: the second number of
// /proc/PID/task/TID/schedstat (Documentation/scheduler/sched-stats.rst). Threads that have ended are lost, and so is the rest of more
// threads than are looked at.
func queuedOf(proc proctree.Proc, pids []int) (sum time.Duration) {
	for _, pid := range pids {
		dir, err := os.Open(filepath.Join(proc.Root, strconv.Itoa(pid), "task"))
		if err != nil {
			continue
		}
		names, _ := dir.Readdirnames(maxThreads)
		dir.Close()
		for _, name := range names {
			text, err := proctree.ReadSome(filepath.Join(dir.Name(), name, "schedstat"), maxCounter)
			if err == nil {
				sum += queued(text)
			}
		}
	}
	return sum
}

func queued(schedstat []byte) time.Duration {
	f := bytes.Fields(schedstat)
	if len(f) < 2 {
		return 0
	}
	return nanoseconds(f[1])
}

// throttled is how long this container was kept from running by its CPU quota, since its start; 0 where it has none. Of cgroup v2 it is
// throttled_usec, of v1 throttled_time (Documentation/admin-guide/cgroup-v2.rst, scheduler/sched-bwc.rst). A container sees its own group
// at the top of the mount.
func throttled(root string) time.Duration {
	for _, file := range []string{"cpu.stat", "cpu/cpu.stat", "cpu,cpuacct/cpu.stat"} {
		text, err := proctree.ReadSome(filepath.Join(root, file), maxCounter)
		if err != nil {
			continue
		}
		for line := range bytes.Lines(text) {
			name, value, _ := bytes.Cut(bytes.TrimSpace(line), []byte(" "))
			switch string(name) {
			case "throttled_usec":
				return nanoseconds(value) * 1000
			case "throttled_time":
				return nanoseconds(value)
			}
		}
	}
	return 0
}

// nanoseconds is a number of the kernel's, 0 where it is none.
func nanoseconds(text []byte) time.Duration {
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil || n < 0 || n > int64(maxAge) {
		return 0
	}
	return time.Duration(n)
}

// maxAge is more than any counter can have: a hundred years of a thousand threads would not fit a Duration.
const maxAge = 1000 * 24 * time.Hour
