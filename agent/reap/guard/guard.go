// Package guard is the process that ends what a killed agent leaves: a backstop for kill -9.
//
//	agent ──Ledger (memfd): sessions, leaders, directories──▶ read once, when the agent is gone
//	agent ──pipe, pidfd──▶ guard: asleep ──agent has ended──▶ kill, look again ──two looks find nothing──▶ exit
//
// The guard is a sibling of the ranks, in a process session of its own. It ignores all signals that can be ignored,
// so what ends agent or ranks does not end it. An agent that ends in order leaves nothing and kills its guard. (As
// the ranks' parent it could reap them, but every first spawn would wait for it, and exits would come through one
// more process.)
//
// A guard has its process for itself and starts no goroutine of its own. A Ledger may be used by several goroutines.
//
// It starts no process: the supervisor starts it. It sees no descent from an agent that is gone: a process without environment and
// process session is known by its mark (proctree.Mark).
package guard

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mpiup/mpiup/agent/reap/proctree"
	"github.com/mpiup/mpiup/pmi/pmix/leftover"
)

// Name is the argv[0] with which the guard is started, and its only argument.
const Name = "mpiup-guard"

// A process that is a guard never comes to its main function. It is one as soon as this package is initialised, which is before the libraries
// of a program that has many: their tables would take milliseconds of a processor beside the first ranks, and memory for as long as the agent lives.
func init() {
	if len(os.Args) == 1 && filepath.Base(os.Args[0]) == Name {
		os.Exit(guard())
	}
}

// Env keeps the Go runtime of the guard small. It has no MPIUP_SESSION: a guard must
// outlive the session that its agent may itself be part of.
var Env = []string{"GOMAXPROCS=1", "GOGC=10", "GOTRACEBACK=none"}

// Descriptors of a guard.
const (
	pipeFD   = 3 // ends when the agent ends
	ledgerFD = 4
	agentFD  = 5 // the agent's pidfd; missing on kernels before 5.3
)

// patience bounds the work of a guard whose agent is gone.
const patience = 30 * time.Second

// guard sleeps until the agent has ended, kills what the ledger says the
// agent had, grandchildren included, and returns the exit status of the process.
func guard() int {
	signal.Ignore(unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2,
		unix.SIGALRM, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU, unix.SIGPIPE)
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, 5) // it is never in a hurry while ranks start
	debug.FreeOSMemory()
	DropProgramPages()
	awaitAgent()
	ledger := os.NewFile(ledgerFD, "ledger")
	b, err := io.ReadAll(io.NewSectionReader(ledger, 0, 1<<30))
	_ = ledger.Close()
	if err != nil {
		return 1
	}
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, 0)
	records := read(b)
	ended := endAll(proctree.Proc{Root: "/proc"}, records, time.Now().Add(patience))
	removeDirs(records)
	_, _ = leftover.Segments(leftover.Shm, os.Geteuid()) // nobody is left who could be told
	if !ended {
		return 1
	}
	return 0
}

// SessionDir is a session's directory below dirs, the directory of all.
func SessionDir(dirs, session string) string { return filepath.Join(dirs, "session-"+session) }

// removeDirs removes the directories of the records' sessions, and what holds them if nothing else
// is in it.
func removeDirs(records []Record) {
	for _, in := range records {
		if !filepath.IsAbs(in.Dirs) {
			continue
		}
		for _, r := range records {
			if r.Session != "" && filepath.Base(r.Session) == r.Session {
				_ = os.RemoveAll(SessionDir(in.Dirs, r.Session))
			}
		}
		_ = os.Remove(in.Dirs)
	}
}

// awaitAgent blocks, at no cost, until the pipe's other end or the agent's pidfd says that the
// agent has ended. A child between fork and exec may hold the pipe open a little longer.
func awaitAgent() {
	fds := []unix.PollFd{{Fd: pipeFD}, {Fd: agentFD, Events: unix.POLLIN}}
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

// maxWaits bounds, in milliseconds, the wait for processes in mid-exec, which have no environment that tells whose
// they are. Those of other users never show theirs.
const maxWaits = 500

// endAll kills what belongs to the records. It ends when two looks in a row find nothing, and no process that may be
// one of theirs is about to become another program.
func endAll(proc proctree.Proc, records []Record, until time.Time) bool {
	if len(records) == 0 {
		return true
	}
	if proc.Verify() != nil {
		return false
	}
	for clean, waits := 0, 0; clean < 2; {
		if time.Now().After(until) {
			return false
		}
		found, sure := leftBehind(proc, records)
		if len(found) == 0 && !sure && waits < maxWaits {
			waits++
			time.Sleep(time.Millisecond)
			continue
		}
		if len(found) == 0 {
			clean++
			continue
		}
		clean = 0
		targets := proc.Aim(found, true)
		targets.Signal(unix.SIGKILL)
		ctx, cancel := context.WithDeadline(context.Background(), until)
		targets.Await(ctx)
		cancel()
		targets.Close()
	}
	return true
}

// leftBehind are the live processes of the records' sessions. The agent is gone, so descent from
// it can no longer be seen; a process session whose number was given anew is left alone. sure is false when a
// process that had no environment just then may be one of them; kernel threads, of session 0, are none.
func leftBehind(proc proctree.Proc, records []Record) (out []proctree.Stat, sure bool) {
	all, err := proc.Snapshot()
	if err != nil {
		return nil, true
	}
	known := proctree.Known{Self: os.Getpid(), Leaders: map[int]proctree.Whose{}, Sessions: map[string]bool{}}
	for _, r := range records {
		switch {
		case r.Dirs != "":
		case r.PID == 0:
			known.Sessions[r.Session] = true
		default:
			known.Leaders[r.PID] = proctree.Whose{Session: r.Session, Start: r.Start}
		}
	}
	t := proctree.New(all, known, proc)
	sure = true
	for _, p := range all {
		switch {
		case !p.Alive() || p.PID == t.Self:
		case t.Owner(p.PID).Ours:
			out = append(out, p)
		case p.SID != 0 && proc.Unsettled(p):
			sure = false
		}
	}
	return out, sure
}
