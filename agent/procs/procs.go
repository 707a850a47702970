// Package procs says how much processes use and what they wait for, each with all that descend from it.
//
//	proctree.Snapshot ──▶ Branches: leader → its processes ──▶ Look: /proc/PID/{stat,io,wchan,syscall} ──▶ Usage
//
// Nothing here needs a privilege: what the kernel does not show stays empty (Kernel.Syscall is for who may trace the
// process, Usage.IO and Kernel.Wchan for who runs as its user). Nothing is kept between two looks, which belong to one
// goroutine each. The package does not know whose a process is: its caller names the leaders.
package procs

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/mpiup/mpiup/agent/reap/proctree"
)

// Usage is what a leader and its descendants use.
type Usage struct {
	Main      int           // the process that does the work: the leader, or what wrappers of one child wait for
	Name      string        // of Main, by the kernel
	State     byte          // of Main: 'R', 'S', 'D' and so on (proc_pid_stat(5)); 0: it is gone
	CPU       time.Duration // of all, and of children that were waited for; children that others reap are lost
	RSS       uint64        // bytes of all; memory that they share counts more than once
	Processes int
	IO        uint64 // bytes that read(2), write(2) and the like moved; 0 where that does not show
	Kernel    Kernel // where Main waits
}

// Kernel is where a process waits in the kernel. Both are empty for one that runs, and where nothing shows.
type Kernel struct {
	Syscall string // "futex", from /proc/PID/syscall
	Wchan   string // "futex_wait_queue", from /proc/PID/wchan
}

// Bounds of one look.
const (
	maxBranch = 512  // processes of one leader
	maxStat   = 4096 // bytes
	tick      = time.Second / 100
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

// Look is what each leader's branch uses now. A leader that is gone has no entry.
func Look(proc proctree.Proc, leaders []int) (map[int]Usage, error) {
	if err := proc.Verify(); err != nil {
		return nil, err
	}
	all, err := proc.Snapshot()
	if err != nil {
		return nil, err
	}
	out := make(map[int]Usage, len(leaders))
	for leader, pids := range Branches(all, leaders) {
		if u := branch(proc, leader, pids); u.Processes > 0 {
			out[leader] = u
		}
	}
	return out, nil
}

func branch(proc proctree.Proc, leader int, pids []int) (u Usage) {
	stats := make(map[int]stat, len(pids))
	for _, pid := range pids {
		text, err := proctree.ReadSome(file(proc, pid, "stat"), maxStat)
		if err != nil {
			continue
		}
		s, err := parseStat(text)
		if err != nil {
			continue
		}
		stats[pid] = s
		u.CPU += s.cpu
		u.RSS += s.rss
		u.Processes++
		if text, err := proctree.ReadSome(file(proc, pid, "io"), maxStat); err == nil {
			u.IO += parseIO(text)
		}
	}
	u.Main = mainOf(leader, stats)
	if s, ok := stats[u.Main]; ok {
		u.Name, u.State = s.name, s.state
		u.Kernel = Where(proc, u.Main)
	}
	return u
}

// mainOf goes down from a leader while it has one child and has done little itself: a shell or a wrapper that waits.
func mainOf(leader int, stats map[int]stat) int {
	children := map[int][]int{}
	for pid, s := range stats {
		children[s.parent] = append(children[s.parent], pid)
	}
	at := leader
	for range len(stats) {
		if _, ok := stats[at]; !ok || len(children[at]) != 1 {
			break
		}
		child := children[at][0]
		if stats[at].state == 'R' || stats[at].own > stats[child].own {
			break
		}
		at = child
	}
	return at
}

// Where is where a process waits in the kernel.
func Where(proc proctree.Proc, pid int) (k Kernel) {
	if text, err := proctree.ReadSome(file(proc, pid, "wchan"), maxStat); err == nil && string(text) != "0" {
		k.Wchan = symbol(text)
	}
	if text, err := proctree.ReadSome(file(proc, pid, "syscall"), maxStat); err == nil {
		k.Syscall = parseSyscall(text)
	}
	return k
}

func file(proc proctree.Proc, pid int, name string) string {
	return filepath.Join(proc.Root, strconv.Itoa(pid), name)
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

// stat is a line of /proc/PID/stat, as far as it says what is used.
type stat struct {
	name   string
	state  byte
	parent int
	own    time.Duration // user and system time
	cpu    time.Duration // children that were waited for included
	rss    uint64
}

var errStat = errors.New("malformed /proc/PID/stat")

var pageSize = uint64(os.Getpagesize())

func parseStat(line []byte) (s stat, err error) {
	open, end := bytes.IndexByte(line, '('), bytes.LastIndexByte(line, ')')
	if open < 0 || end < open {
		return s, errStat
	}
	f := bytes.Fields(line[end+1:])
	if len(f) < 22 || len(f[0]) != 1 {
		return s, errStat
	}
	number := func(field int) uint64 { // by its number in proc_pid_stat(5)
		n, e := strconv.ParseUint(string(f[field-3]), 10, 63)
		if e != nil {
			err = errStat
		}
		return n
	}
	const (
		ppid   = 4
		utime  = 14
		stime  = 15
		cutime = 16
		cstime = 17
		rss    = 24
	)
	const mostTicks = 1 << 48
	s.name, s.state, s.parent = string(line[open+1:end]), f[0][0], int(number(ppid))
	own, children := number(utime)+number(stime), number(cutime)+number(cstime)
	s.own, s.cpu = time.Duration(min(own, mostTicks))*tick, time.Duration(min(own+children, mostTicks))*tick
	s.rss = min(number(rss), 1<<44) * pageSize
	return s, err
}

// parseIO is rchar and wchar of /proc/PID/io.
func parseIO(text []byte) (n uint64) {
	for line := range bytes.Lines(text) {
		name, value, _ := bytes.Cut(line, []byte(": "))
		if s := string(name); s == "rchar" || s == "wchar" {
			v, _ := strconv.ParseUint(string(bytes.TrimSpace(value)), 10, 63) // what is no number counts nothing
			n += v
		}
	}
	return n
}

// parseSyscall is the call that /proc/PID/syscall names by its number; "" where the process runs.
func parseSyscall(text []byte) string {
	word, _, _ := bytes.Cut(bytes.TrimSpace(text), []byte(" "))
	n, err := strconv.Atoi(string(word))
	if err != nil || n < 0 {
		return "" // "running"; -1: in no call
	}
	if name := calls[n]; name != "" {
		return name
	}
	return "syscall " + strconv.Itoa(n)
}
