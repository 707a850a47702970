package reap

import (
	"context"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/mpiup/mpiup/agent/reap/proctree"
	"github.com/mpiup/mpiup/internal/job"
)

// What a process that was started here leaves when it ends: a daemon, or what a shell has put into the background. It
// is no child of the table, and may become one of this process when its parents have ended.

// Remnant is a process of a session that was not started here itself.
type Remnant struct {
	PID     int
	Start   uint64 // starttime of /proc/PID/stat
	Session string
	Bare    bool   // its environment does not show, or is empty, as in the middle of an exec
	Key     string // what the caller's pick has made of its environment
}

// maxRemnants bounds what one look finds.
const maxRemnants = 4096

// remnants are those of all sessions, as one look has seen them.
type remnants struct {
	found []Remnant
	sure  bool // nobody can have slipped through
}

// Remains are the living processes of a session that it did not start itself, by a look that begins after the call.
// pick makes of an environment, of strings that end in NUL, what tells the caller whose a process is; all calls bring the
// same one. Where /proc cannot be used there are none.
//
// A look lists the processes and then looks at each. Linux numbers them upwards: whoever of a chain of processes that fork
// and end is listed last was alive then, and is either found or seen to have ended since. sure is false in the second
// case, where a child of it may live that is not listed. What is left is a chain that begins anew at the lowest numbers
// just then.
func (s *Supervisor) Remains(session string, pick func(environ []byte) string) (found []Remnant, sure bool) {
	all := s.remaining.do(func() remnants { return s.lookForRemnants(pick) })
	for _, r := range all.found {
		if r.Session == session {
			found = append(found, r)
		}
	}
	return found, all.sure
}

func (s *Supervisor) lookForRemnants(pick func(environ []byte) string) remnants {
	if s.proc.Verify() != nil {
		return remnants{sure: true}
	}
	over, forks := s.sessionsWithoutChildren()
	all, whole, err := s.proc.Census()
	if err != nil { // as where no descriptor is free: nobody knows
		return remnants{}
	}
	seen := remnants{sure: whole}
	t := s.tree(all, nil)
	for _, p := range all {
		_, own := t.Children[p.PID]
		if own || p.PID == t.Self || t.Exempt[p.PID] || s.adopts && !t.Descends(p.PID) {
			continue
		}
		if !p.Alive() {
			seen.sure = false
			continue
		}
		o := t.Owner(p.PID)
		switch {
		case o.Ours && o.Session != "" && len(seen.found) < maxRemnants:
			environ, _ := proctree.ReadSome(filepath.Join(s.proc.Root, strconv.Itoa(p.PID), "environ"), maxEnvironment)
			seen.found = append(seen.found, Remnant{PID: p.PID, Start: p.Start, Session: o.Session, Bare: len(environ) == 0, Key: pick(environ)})
		case o.Ours && o.Session != "": // there are too many
			seen.sure = false
		case !o.Ours && s.adopts && (s.proc.Unsettled(p) || !s.isThere(p)): // whose environment may have been gone when it was read
			seen.sure = false
		}
	}
	if seen.sure && s.adopts {
		s.noteEmpty(over, forks, seen.found)
	}
	return seen
}

// isThere says that a process that was seen lives.
func (s *Supervisor) isThere(seen proctree.Stat) bool {
	now, err := s.proc.Stat(seen.PID)
	return err == nil && now.Start == seen.Start && now.Alive()
}

// sessionsWithoutChildren are those that have no child in the table, and how many processes were started so far; none
// while one is being started.
func (s *Supervisor) sessionsWithoutChildren() (names []string, forks uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.forking != nil {
		return nil, s.forks
	}
	busy := map[string]bool{}
	for _, p := range s.table {
		if !p.guard {
			busy[p.session] = true
		}
	}
	for name := range s.known {
		if !busy[name] {
			names = append(names, name)
		}
	}
	return names, s.forks
}

// noteEmpty notes those sessions of which a look that is sure has found nobody, so that no other look is needed at their
// end: if nothing was started since it began. The guard knows them on: their directories are there.
func (s *Supervisor) noteEmpty(over []string, forks uint64, found []Remnant) {
	left := map[string]bool{}
	for _, r := range found {
		left[r.Session] = true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.forking != nil || s.forks != forks {
		return
	}
	for _, name := range over {
		if _, known := s.known[name]; known && !left[name] {
			s.empty[name] = true
		}
	}
}

// maxEnvironment bounds what is read of one process's.
const maxEnvironment = 1 << 20

// AskOther sends a signal to one process of a session that was not started here, if that still lives. A stop by the same
// signal leaves it out, as it does with Process.Ask.
func (s *Supervisor) AskOther(pid int, start uint64, sig unix.Signal) {
	at := Remnant{PID: pid, Start: start}
	s.mu.Lock()
	if s.others == nil {
		s.others = map[Remnant]uint64{}
	}
	if len(s.others) >= maxRemnants { // those that have ended are not told of
		clear(s.others)
	}
	s.others[at] |= 1 << (uint(sig) & 63)
	s.mu.Unlock()

	targets := s.proc.Aim([]proctree.Stat{{PID: pid, Start: start}}, !s.noPidfd.Load())
	targets.Signal(sig)
	targets.Close()
}

// askedOther says that AskOther has sent the signal.
func (s *Supervisor) askedOther(t proctree.Target, sig unix.Signal) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.others[Remnant{PID: t.PID, Start: t.Start}]&(1<<(uint(sig)&63)) != 0
}

// Await waits until a process has ended that was not started here, or ctx has; ended says which. Its exit is known where
// it had become a child of this process, as those do whose parents have ended before them. dumped is as Process.Dumped.
func (s *Supervisor) Await(ctx context.Context, pid int, start uint64) (exit job.Exit, dumped *User, known, ended bool) {
	s.watch(pid, 1)
	defer func() {
		s.watch(pid, -1)
		s.orphans.wake() // whose look ended at this one
	}()
	targets := s.proc.Aim([]proctree.Stat{{PID: pid, Start: start}}, !s.noPidfd.Load())
	defer targets.Close()
	if !targets.Await(ctx) {
		return job.Exit{}, nil, false, false
	}
	exit, dumped, known = s.exitOf(targets)
	return exit, dumped, known, true
}

// watch counts who waits for a process, which the orphan loop leaves alone meanwhile.
func (s *Supervisor) watch(pid, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watched == nil {
		s.watched = map[int]int{}
	}
	if s.watched[pid] += n; s.watched[pid] == 0 {
		delete(s.watched, pid)
	}
}

// Of siginfo_t's code, for a child (sigaction(2)).
const (
	cldExited = 1
	cldDumped = 3
)

// exitOf is how a process has ended, if it is a child of this one. It stays a zombie, which the orphan loop reaps.
func (s *Supervisor) exitOf(targets proctree.Targets) (exit job.Exit, dumped *User, known bool) {
	if len(targets) == 0 {
		return exit, nil, false
	}
	var info siginfoChild
	ok := targets[0].WithPidfd(func(fd int) bool {
		var err error
		info, err = endOf(unix.P_PIDFD, fd)
		dumped = s.dumpedAs(targets[0].PID, unix.P_PIDFD, fd)
		return err == nil && info.pid != 0
	})
	switch {
	case !ok: // another's child, or a kernel without pidfds
		return exit, nil, false
	case info.code == cldExited:
		return job.Exit{Code: int(info.status)}, nil, true
	}
	return job.Exit{Signal: int(info.status), Core: info.code == cldDumped}, dumped, true
}
