package watch

import (
	"bytes"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/mpiup/mpiup/agent/reap/proctree"

	"github.com/mpiup/mpiup/agent/look"
	"github.com/mpiup/mpiup/internal/bounded"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/topology/sysfs"
)

// Host is where LoadOf reads.
const Host = "/"

// Bounds of what one look reads.
const (
	maxThreads = 256 // of one process
	maxCounter = 4096
	maxSNMP    = 16 << 10
	maxFiles   = 256 // of one kind, of a machine
)

// LoadOf is what held this container up since its start, with what all of its ranks share, below a root; at is CLOCK_MONOTONIC. With the host's
// network TCP's are those of all of the host.
func LoadOf(root string) (at time.Duration, l job.RankWork) {
	cgroup := filepath.Join(root, "sys/fs/cgroup")
	l.Throttled = throttled(cgroup)
	l.Memory, l.Storage = stalled(read(cgroup, "memory.pressure")), stalled(read(cgroup, "io.pressure"))
	l.Segments, l.Resent = segments(read(root, "proc/net/snmp"))
	sys := bounded.Tree(filepath.Join(root, "sys"))
	for _, name := range []string{"symbol_error", "link_downed", "local_link_integrity_errors", "port_rcv_errors"} {
		for _, n := range numbers(sys, "class/infiniband/*/ports/*/counters/"+name) {
			l.LinkErrors += n
		}
	}
	if khz := numbers(sys, "devices/system/cpu/cpufreq/policy*/scaling_cur_freq"); len(khz) > 0 {
		sum := uint64(0)
		for _, n := range khz {
			sum += min(n, 1e9)
		}
		l.MHz = uint32(sum / uint64(len(khz)) / 1000)
	}
	return monotonic(), l
}

// read is a file's text, empty where it cannot be read.
func read(dir, name string) []byte {
	text, err := proctree.ReadSome(filepath.Join(dir, name), maxSNMP)
	if err != nil {
		return nil
	}
	return text
}

// numbers are those of files that match a pattern, at most maxFiles of them.
func numbers(sys fs.FS, pattern string) (list []uint64) {
	names, _ := fs.Glob(sys, pattern) // the pattern is a constant
	for _, name := range names[:min(len(names), maxFiles)] {
		f, err := sys.Open(path.Clean(name))
		if err != nil {
			continue
		}
		b := make([]byte, 32)
		n, _ := f.Read(b) // of a file of the kernel: all of it, or nothing
		f.Close()
		if v, err := strconv.ParseUint(string(bytes.TrimSpace(b[:n])), 10, 63); err == nil {
			list = append(list, v)
		}
	}
	return list
}

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
	return nanoseconds(string(f[1]))
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
		if us, ok := sysfs.Field(string(text), "throttled_usec "); ok {
			return nanoseconds(us) * 1000
		}
		if ns, ok := sysfs.Field(string(text), "throttled_time "); ok {
			return nanoseconds(ns)
		}
	}
	return 0
}

// stalled is how long some tasks waited for what a pressure file is about: "some avg10=0.00 avg60=0.00 avg300=0.00 total=12345", in
// microseconds (Documentation/accounting/psi.rst). cgroup v1 has no such file.
func stalled(text []byte) time.Duration {
	some, _ := sysfs.Field(string(text), "some ")
	_, total, _ := strings.Cut(some, "total=")
	return min(nanoseconds(total), maxAge/1000) * 1000
}

// segments are those that TCP sent, and sent again: OutSegs and RetransSegs of /proc/net/snmp, where a line of names comes before the
// numbers (Documentation/networking/snmp_counter.rst).
func segments(text []byte) (sent, again uint64) {
	var names [][]byte
	for line := range bytes.Lines(text) {
		f := bytes.Fields(line)
		switch {
		case len(f) == 0 || string(f[0]) != "Tcp:":
		case names == nil:
			names = f
		default:
			for i, name := range names[:min(len(names), len(f))] {
				n, _ := strconv.ParseUint(string(f[i]), 10, 63) // MaxConn may be -1
				switch string(name) {
				case "OutSegs":
					sent = n
				case "RetransSegs":
					again = n
				}
			}
			return sent, again
		}
	}
	return 0, 0
}

// nanoseconds is a number of the kernel's, 0 where it is none.
func nanoseconds(text string) time.Duration {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > int64(maxAge) {
		return 0
	}
	return time.Duration(n)
}

// maxAge is more than any counter can have: a hundred years of a thousand threads would not fit a Duration.
const maxAge = 1000 * 24 * time.Hour

// WorkOf is what the processes of a rank did besides waiting in MPI.
func WorkOf(proc proctree.Proc, u look.Usage) job.RankWork {
	return job.RankWork{CPU: u.CPU, Queued: queuedOf(proc, u.PIDs), Blocked: u.Delay, ReadBack: u.ReadBack}
}
