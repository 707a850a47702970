package look

import (
	"bytes"
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mpiup/mpiup/agent/reap/proctree"
	"github.com/mpiup/mpiup/topology/sysfs"
)

// Usage is what a leader and its descendants use.
type Usage struct {
	Main      int           // the process that does the work: who is in MPI, the leader, or what wrappers of one child wait for
	Name      string        // of Main, by the kernel
	State     byte          // of Main: 'R', 'S', 'D' and so on (proc_pid_stat(5)); 0: it is gone
	CPU       time.Duration // of all, and of children that were waited for; children that others reap are lost
	RSS       uint64        // bytes of all; memory that they share counts more than once
	Processes int
	IO        uint64        // bytes that read(2), write(2) and the like moved, and that came from storage or went there
	Blind     bool          // IO does not show, at least of one
	Faults    uint64        // pages that were not there, or not yet: a mapped file is read so
	ReadBack  uint64        // those of them that came from storage
	Delay     time.Duration // of Main: it waited for block devices that have answered
	PIDs      []int         // all
	Kernel    Kernel        // where Main waits
}

// Kernel is where a process waits in the kernel. All are empty for one that runs, and where nothing shows.
type Kernel struct {
	Syscall string // "futex", from /proc/PID/syscall
	Wchan   string // "futex_wait_queue", from /proc/PID/wchan
	Mount   string // whose answer it waits for: "/data (nfs4, filer:/export)"; Where leaves it out
	Child   string // where its only child waits that it waits for; Where leaves it out, too
}

// String is where, in words: "read on /data (nfs4, filer:/export)", "wait4 for a child in clock_nanosleep"; "" where nothing shows.
func (k Kernel) String() string {
	where := cmp.Or(k.Syscall, k.Wchan)
	if k.Mount != "" {
		where = strings.TrimSpace(where + " on " + k.Mount)
	}
	if k.Child != "" {
		where += " for a child in " + k.Child
	}
	return where
}

// maxThreads bounds how many threads of a process Stuck looks at.
const maxThreads = 256

// Stuck is what a process that does not end waits for, in whichever thread; "" where none is in uninterruptible sleep.
func Stuck(proc proctree.Proc, pid int) string {
	tasks := proctree.Proc{Root: file(proc, pid, "task")}
	dir, err := os.Open(tasks.Root)
	if err != nil {
		return ""
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(maxThreads) // those that can be read
	for _, name := range names {
		tid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if s, err := tasks.Stat(tid); err == nil && s.State == 'D' {
			k := Where(tasks, tid)
			k.Mount = heldOn(tasks, tid, s.State, k)
			return k.String()
		}
	}
	return ""
}

// Bounds of one look.
const (
	maxBranch = 512  // processes of one leader
	maxStat   = 4096 // bytes
)

// Branches says for each leader which of the processes of a snapshot are its own: the leader, what descends from it, and
// orphans in its process session. Nothing is in two branches.
func Branches(all []proctree.Stat, leaders []int) map[int][]int {
	parent, sid := make(map[int]int, len(all)), make(map[int]int, len(all))
	for _, p := range all {
		if p.Alive() {
			parent[p.PID], sid[p.PID] = p.PPID, p.SID
		}
	}
	leads := make(map[int]bool, len(leaders))
	for _, l := range leaders {
		leads[l] = true
	}
	owner := func(pid int) int {
		for at, n := pid, 0; n < len(all); n++ {
			if leads[at] {
				return at
			}
			above, known := parent[at]
			if !known {
				break
			}
			at = above
		}
		if leads[sid[pid]] {
			return sid[pid]
		}
		return 0
	}
	out := make(map[int][]int, len(leaders))
	for _, p := range all {
		if !p.Alive() {
			continue
		}
		if l := owner(p.PID); l != 0 && len(out[l]) < maxBranch {
			out[l] = append(out[l], p.PID)
		}
	}
	return out
}

// Leader is a process that was started as a rank.
type Leader struct {
	PID  int
	Main int // the process of its branch that is in MPI for it; 0: that is not known
}

// At is what each leader's branch uses now, by its PID. A leader that is gone has no entry.
func At(proc proctree.Proc, leaders []Leader) (map[int]Usage, error) {
	if err := proc.Verify(); err != nil {
		return nil, err
	}
	all, err := proc.Snapshot()
	if err != nil {
		return nil, err
	}
	byPID := make(map[int]proctree.Stat, len(all))
	for _, p := range all {
		byPID[p.PID] = p
	}
	out := make(map[int]Usage, len(leaders))
	pids := make([]int, len(leaders))
	mains := make(map[int]int, len(leaders))
	for i, l := range leaders {
		pids[i] = l.PID
		mains[l.PID] = l.Main
	}
	for leader, pids := range Branches(all, pids) {
		out[leader] = branch(proc, byPID, Leader{leader, mains[leader]}, pids)
	}
	return out, nil
}

func branch(proc proctree.Proc, all map[int]proctree.Stat, leader Leader, pids []int) (u Usage) {
	stats := make(map[int]proctree.Stat, len(pids))
	for _, pid := range pids {
		s := all[pid]
		stats[pid] = s
		u.CPU += s.CPU
		u.RSS += s.RSS
		u.Processes++
		u.Faults += s.Faults
		u.ReadBack += s.ReadBack
		text, err := proctree.ReadSome(file(proc, pid, "io"), maxStat)
		u.IO += parseIO(text)
		u.Blind = u.Blind || err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, unix.ESRCH) // else it is gone
	}
	u.PIDs = pids
	u.Main = leader.Main
	if _, there := stats[u.Main]; !there {
		u.Main = mainOf(leader.PID, stats)
	}
	if s, ok := stats[u.Main]; ok {
		u.Name, u.State, u.Delay = s.Name, s.State, s.Delay
		u.Kernel = Where(proc, u.Main)
		u.Kernel.Mount = heldOn(proc, u.Main, u.State, u.Kernel)
		if child := onlyChild(u.Main, stats); child != 0 && (u.Kernel.Syscall == "wait4" || u.Kernel.Syscall == "waitid") {
			u.Kernel.Child = Where(proc, child).String() // as of a program that calls system(3): it sleeps where its child does
		}
	}
	return u
}

// onlyChild goes down from a process while each has one child; 0: it has none, or several.
func onlyChild(top int, stats map[int]proctree.Stat) int {
	below, at := children(stats), top
	for range len(stats) {
		switch len(below[at]) {
		case 0:
			if at == top {
				return 0
			}
			return at
		case 1:
			at = below[at][0]
		default:
			return 0
		}
	}
	return 0
}

// mainOf goes down from a leader while it has one child and has done little itself: a shell or a wrapper that waits.
func mainOf(leader int, stats map[int]proctree.Stat) int {
	below, at := children(stats), leader
	for range len(stats) {
		if _, ok := stats[at]; !ok || len(below[at]) != 1 {
			break
		}
		child := below[at][0]
		if stats[at].State == 'R' || stats[at].Own > stats[child].Own {
			break
		}
		at = child
	}
	return at
}

// children are the processes that each one has started.
func children(stats map[int]proctree.Stat) map[int][]int {
	below := map[int][]int{}
	for pid, s := range stats {
		below[s.PPID] = append(below[s.PPID], pid)
	}
	return below
}

// Where is where a process waits in the kernel.
func Where(proc proctree.Proc, pid int) (k Kernel) {
	if text, err := proctree.ReadSome(file(proc, pid, "wchan"), maxStat); err == nil && string(text) != "0" {
		k.Wchan = symbol(text)
	}
	if text, err := proctree.ReadSome(file(proc, pid, "syscall"), maxStat); err == nil {
		k.Syscall = begunAgain(parseSyscall(text), k.Wchan)
	}
	return k
}

func file(proc proctree.Proc, pid int, name string) string {
	return filepath.Join(proc.Root, strconv.Itoa(pid), name)
}

// Peak is how many bytes processes had resident at most, summed: VmHWM of /proc/PID/status, which proc_pid_status(5) calls an estimate.
func Peak(proc proctree.Proc, pids []int) (sum uint64) {
	for _, pid := range pids {
		text, err := proctree.ReadSome(file(proc, pid, "status"), maxStat)
		if err != nil {
			continue
		}
		value, _ := sysfs.Field(string(text), "VmHWM:")
		n, _ := strconv.ParseUint(strings.TrimSuffix(value, " kB"), 10, 40)
		sum += n << 10
	}
	return sum
}

// symbol is text if that is a kernel symbol's name.
func symbol(text []byte) string {
	const most = 64
	text = bytes.TrimSpace(text)
	if len(text) > most || slices.ContainsFunc(text, func(c byte) bool {
		return c != '_' && c != '.' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z')
	}) {
		return ""
	}
	return string(text)
}

// parseIO is rchar and wchar of /proc/PID/io, and read_bytes and write_bytes: a mapped file moves no bytes by calls.
func parseIO(text []byte) (n uint64) {
	for line := range bytes.Lines(text) {
		name, value, _ := bytes.Cut(line, []byte(": "))
		switch string(name) {
		case "rchar", "wchar", "read_bytes", "write_bytes":
			v, _ := strconv.ParseUint(string(bytes.TrimSpace(value)), 10, 63) // what is no number counts nothing
			n += v
		}
	}
	return n
}

// begunAgain is the call that the kernel has begun again after a stop, as a look at its stack is one: of restart_syscall(2)'s one sleeps, one waits
// for a futex and one polls (Linux, restart_block.fn). A sleep's own functions are the scheduler's, which wchan leaves out: it shows their caller.
func begunAgain(call, wchan string) string {
	switch {
	case call != "restart_syscall" || wchan == "":
		return call
	case strings.Contains(wchan, "futex"):
		return "futex"
	case strings.Contains(wchan, "poll"):
		return "poll"
	}
	return "clock_nanosleep"
}

// parseSyscall is the call that /proc/PID/syscall names by its number; "" where the process runs.
func parseSyscall(text []byte) string {
	word, _, _ := bytes.Cut(bytes.TrimSpace(text), []byte(" "))
	n, err := strconv.Atoi(string(word))
	if err != nil || n < 0 {
		return "" // "running"; -1: in no call
	}
	return cmp.Or(calls[n], ownCalls[n], "syscall "+strconv.Itoa(n))
}
