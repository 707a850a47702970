package run

import (
	"time"

	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher/verdict"
)

// unwritten is output that could not be written, while that does not end the run yet.
//
// A signal to the launcher's process group, as Ctrl-C before "| tee log" is one, ends the reader of its output, too. So the launcher sees that nobody
// reads it any more soon after the signal, or a moment before; a terminal that hangs up does the same. That must not take from the ranks the time that
// the signal leaves them to save what they have:
//
//	nobody reads ──▶ a moment ──▶ the run ends
//	      signal ──▶ nobody reads ──▶ the ranks' time after the signal ──▶ the run ends
//	nobody reads ──▶ signal within the moment ──▶ likewise
//
// What is written meanwhile goes to those places that still take it.
type unwritten struct {
	// faults end the run once the timer Unread expires, or it is over.
	faults []verdict.Fault

	// signal is the last one of those that end a program which does not expect them; 0: the launcher got none.
	signal int

	// at is when it came, by the Clock.
	at time.Duration
}

// readerEcho is how much later than the end of its reader a run may see the signal that ended both. Whoever has "exec | head" in a loop waits less.
const (
	readerEcho     = 500 * time.Millisecond
	readerEchoExec = echo
)

// maxUnwritten bounds the faults that are kept: one place fails for the reason that the next one does.
const maxUnwritten = 16

// endsReaders says that a signal ends a program that has no handler for it (signal(7)), and is passed on to ranks.
func endsReaders(sig int) bool {
	switch sig {
	case job.SIGINT, job.SIGTERM, job.SIGHUP, job.SIGQUIT, job.SIGUSR1, job.SIGUSR2:
		return true
	}
	return false
}

// noteSignal: the launcher got a signal, and has done what that asks for.
func (r *Run) noteSignal(sig int) {
	u := &r.unwritten
	if !endsReaders(sig) || r.job == jobStopping {
		return
	}
	u.signal = sig
	u.at = r.now.Clock
	if len(u.faults) > 0 {
		r.set(Unread, r.timeAfterSignal())
	}
}

// timeAfterSignal is what is left of the ranks' time after the last signal.
func (r *Run) timeAfterSignal() time.Duration {
	u := &r.unwritten
	if u.signal == 0 {
		return 0
	}
	grace := r.cfg.Grace
	if r.job == jobLeaving {
		grace = r.cfg.TermGrace
	}
	return max(u.at+grace-r.now.Clock, 0)
}

// onUnwritten takes output that could not be written.
func (r *Run) onUnwritten(e Unwritten) {
	f := verdict.Fault{Event: verdict.NotWritten, Node: -1, ID: -1, At: r.now.Clock, Text: e.Text, Errno: e.Errno}
	if e.Reader {
		f.Event = verdict.ReaderGone
	}

	wait := r.timeAfterSignal()
	if wait == 0 {
		r.unwritten.signal = 0 // which was long ago

		// A terminal that has hung up answers EIO (tty_io.c: hung_up_tty_write), and SIGHUP comes with it.
		if e.Reader || e.Errno == "EIO" {
			wait = readerEcho
		}
		if wait > 0 && r.cfg.Exec != nil {
			wait = readerEchoExec
		}
	}
	if wait == 0 || r.job >= jobStopping {
		r.fail(f)
		return
	}

	if len(r.unwritten.faults) < maxUnwritten {
		r.unwritten.faults = append(r.unwritten.faults, f)
	}
	r.set(Unread, wait)
}

// failUnwritten ends the run for what could not be written. Who stopped reading because of a signal is no cause beside that.
func (r *Run) failUnwritten() {
	u := &r.unwritten
	faults := u.faults
	u.faults = nil
	for _, f := range faults {
		hungUp := f.Errno == "EIO" && u.signal == job.SIGHUP
		if u.signal != 0 && f.Event == verdict.ReaderGone || hungUp {
			f = verdict.Fault{Event: verdict.Signalled, Node: -1, ID: -1, Code: u.signal, Unread: true}
		}
		r.fail(f)
	}
}
