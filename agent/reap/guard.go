package reap

import (
	"errors"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// GuardName is the argv[0] with which the guard is started.
const GuardName = "mpiup-guard"

// IsGuard says whether this process was started as a guard; main then calls GuardMain first.
func IsGuard(argv []string) bool {
	return len(argv) == 1 && filepath.Base(argv[0]) == GuardName
}

// Descriptors of a guard.
const (
	guardPipe   = 3 // ends when the agent ends
	guardLedger = 4
	guardAgent  = 5 // the agent's pidfd; missing on kernels before 5.3
)

// guardPatience bounds the work of a guard whose agent is gone.
const guardPatience = 30 * time.Second

// GuardMain is the guard: it sleeps until its agent has ended, kills what the ledger says the
// agent had, grandchildren included, and returns the exit status of the process. It is a
// sibling of the ranks, in a process session of its own, that ignores what may be ignored, so
// what ends agent or ranks does not end it. It is a backstop for kill -9: an agent that ends in
// order leaves nothing and kills its guard. (As the ranks' parent it could reap them, but every
// first spawn would wait for it, and exits would come through one more process.)
func GuardMain() int {
	signal.Ignore(unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2,
		unix.SIGALRM, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU, unix.SIGPIPE)
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, 5) // it is never in a hurry while ranks start
	debug.FreeOSMemory()
	DropProgramPages()
	awaitAgent()
	ledger := os.NewFile(guardLedger, "ledger")
	b, err := io.ReadAll(io.NewSectionReader(ledger, 0, 1<<30))
	_ = ledger.Close()
	if err != nil {
		return 1
	}
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, 0)
	records := readLedger(b)
	ended := endAll(procfs{root: "/proc"}, records, time.Now().Add(guardPatience))
	removeDirs(records)
	if !ended {
		return 1
	}
	return 0
}

// SessionDir is a session's directory below Config.SessionDirs.
func SessionDir(dirs, session string) string { return filepath.Join(dirs, "session-"+session) }

// removeDirs removes the directories of the records' sessions, and what holds them if nothing else
// is in it.
func removeDirs(records []record) {
	for _, in := range records {
		if !filepath.IsAbs(in.dirs) {
			continue
		}
		for _, r := range records {
			if r.session != "" && filepath.Base(r.session) == r.session {
				_ = os.RemoveAll(SessionDir(in.dirs, r.session))
			}
		}
		_ = os.Remove(in.dirs)
	}
}

// DropProgramPages unmaps what the start of the program has touched of its file, which is most
// of a guard's resident set, and of an idle agent's; what it needs again comes back by a page fault.
func DropProgramPages() {
	smaps, err := readSome("/proc/self/smaps", 1<<20)
	if err != nil {
		return
	}
	for _, m := range droppable(string(smaps)) {
		_, _, _ = unix.RawSyscall(unix.SYS_MADVISE, m[0], m[1], unix.MADV_DONTNEED)
	}
}

// droppable reads /proc/PID/smaps and returns start and size of the mappings that equal their
// file. One that is read-only now but has pages of its own was written by the dynamic loader
// (RELRO), and they would not come back.
func droppable(smaps string) (out [][2]uintptr) {
	var start, size uintptr
	candidate := false
	for line := range strings.Lines(smaps) {
		if a, n, ok := programText(line); ok {
			start, size, candidate = a, n, true
			continue
		}
		f := strings.Fields(line)
		switch {
		case len(f) > 0 && !strings.HasSuffix(f[0], ":"):
			candidate = false // another mapping
		case candidate && len(f) == 3 && f[0] == "Anonymous:" && f[1] == "0":
			out = append(out, [2]uintptr{start, size})
		}
	}
	return out
}

// programText reads the first line of a mapping and says whether it maps a file read-only, so that
// its pages can be had again: "start-end perms offset dev inode path".
func programText(line string) (start, size uintptr, ok bool) {
	f := strings.Fields(line)
	if len(f) < 6 || f[4] == "0" || !strings.HasPrefix(f[5], "/") || len(f[1]) != 4 || f[1][1] != '-' || f[1][3] != 'p' {
		return 0, 0, false
	}
	from, to, _ := strings.Cut(f[0], "-")
	a, err1 := strconv.ParseUint(from, 16, 64)
	b, err2 := strconv.ParseUint(to, 16, 64)
	if err1 != nil || err2 != nil || b <= a {
		return 0, 0, false
	}
	return uintptr(a), uintptr(b - a), true
}

// awaitAgent blocks, at no cost, until the pipe's other end or the agent's pidfd says that the
// agent has ended. A child between fork and exec may hold the pipe open a little longer.
func awaitAgent() {
	fds := []unix.PollFd{{Fd: guardPipe}, {Fd: guardAgent, Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, -1)
		if n > 0 && (fds[0].Revents != 0 || len(fds) == 2 && fds[1].Revents&unix.POLLIN != 0) {
			return
		}
		if fds[1].Revents&unix.POLLNVAL != 0 {
			fds = fds[:1]
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// guardWaits bounds, in milliseconds, the wait for processes in mid-exec, which have no environment that tells whose
// they are. Those of other users never show theirs.
const guardWaits = 500

// endAll kills what belongs to the records until two looks in a row find nothing, and nobody who may be one of
// them is about to become another program.
func endAll(proc procfs, records []record, until time.Time) bool {
	if len(records) == 0 {
		return true
	}
	if proc.verify() != nil {
		return false
	}
	for clean, waits := 0, 0; clean < 2; {
		if time.Now().After(until) {
			return false
		}
		found, sure := leftBehind(proc, records)
		if len(found) == 0 && !sure && waits < guardWaits {
			waits++
			time.Sleep(time.Millisecond)
			continue
		}
		if len(found) == 0 {
			clean++
			continue
		}
		clean = 0
		targets := aim(proc, found, true)
		for i := range targets {
			targets[i].signal(unix.SIGKILL)
		}
		awaitUntil(targets, until)
		closeTargets(targets)
	}
	return true
}

// leftBehind are the live processes of the records' sessions. The agent is gone, so descent from
// it can no longer be seen; a process session whose number was given anew is left alone. sure is false when a
// process that had no environment just then may be one of them; kernel threads, of session 0, are none.
func leftBehind(proc procfs, records []record) (out []stat, sure bool) {
	all, err := proc.snapshot()
	if err != nil {
		return nil, true
	}
	f := &family{self: os.Getpid(), procs: make(map[int]stat, len(all)), leaders: map[int]leader{}, known: map[string]bool{},
		environ: proc.session, memo: map[int]ownership{}}
	for _, p := range all {
		f.procs[p.pid] = p
	}
	for _, r := range records {
		switch {
		case r.dirs != "":
		case r.pid == 0:
			f.known[r.session] = true
		default:
			f.leaders[r.pid] = leader{session: r.session, start: r.start}
		}
	}
	sure = true
	for _, p := range all {
		switch {
		case !p.alive() || p.pid == f.self:
		case f.owner(p.pid).ours:
			out = append(out, p)
		case p.sid != 0 && (p.unsettled || proc.changes(p)):
			sure = false
		}
	}
	return out, sure
}
