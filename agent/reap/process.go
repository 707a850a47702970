package reap

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mpiup/mpiup/agent/reap/proctree"
	"github.com/mpiup/mpiup/internal/job"
)

// Process is a child that was started. It is reaped by its waiter, which parks on the pidfd,
// or, on kernels without pidfds (before 5.3), by the orphan loop.
type Process struct {
	s        *Supervisor
	pid      int
	start    uint64 // starttime of /proc/PID/stat, 0 when unknown
	session  string
	terminal bool
	guard    bool
	pidfd    *os.File // nil without pidfds
	done     chan struct{}
	found    int           // guarded by Supervisor.mu: sockets it was found to hold, see Holds
	near     int           // guarded by Supervisor.mu: the descriptor under which it had the last one
	asked    atomic.Uint64 // the signals that Ask has sent, one bit each

	mu     sync.Mutex
	reaped bool      // guarded by mu: the pid may belong to another process
	exit   job.Exit  // guarded by mu until done is closed
	ended  time.Time // guarded by mu until done is closed
	peak   uint64    // bytes resident at most, guarded by mu
	dumped *User     // as whom it has left a core, guarded by mu
}

func newProcess(s *Supervisor, pid, pidfd int, req *request) *Process {
	p := &Process{s: s, pid: pid, session: req.cmd.Session, terminal: req.cmd.Terminal, guard: req.guard, done: make(chan struct{})}
	if st, err := s.proc.Stat(pid); err == nil {
		p.start = st.Start
	}
	if pidfd >= 0 {
		// Nonblocking, so that os.File waits for it in the runtime's poller, not in a thread.
		_ = unix.SetNonblock(pidfd, true)
		p.pidfd = os.NewFile(uintptr(pidfd), "pidfd")
	}
	return p
}

// Pid is its process id, also the number of its process group and process session.
func (p *Process) Pid() int { return p.pid }

// Done is closed when the process has ended and been reaped. Its descendants may live on.
func (p *Process) Done() <-chan struct{} { return p.done }

// Over says whether the process has ended by now, and reaps it then. On a busy host its waiter may not have run yet,
// and a caller that is about to stop it has to know that the stop did not end it.
func (p *Process) Over() bool { return p.tryReap() }

// Dying says that the process is about to end, or has: the kernel closes its descriptors some time before it can be reaped.
func (p *Process) Dying() bool {
	if p.Over() {
		return true
	}
	if p.s.Lives(p.pid, p.start) {
		return false
	}
	st, err := p.s.proc.Stat(p.pid)
	if err != nil || st.Start != p.start { // it was reaped meanwhile, or nothing shows
		return p.Over()
	}
	return true
}

// Began is when a process of that number began, as /proc/PID/stat counts; 0: there is none, or it does not show.
func (s *Supervisor) Began(pid int) (start uint64) {
	if pid <= 0 || s.proc.Verify() != nil {
		return 0
	}
	st, err := s.proc.Stat(pid)
	if err != nil {
		return 0
	}
	return st.Start
}

// Lives says that a process, whosever child it is, has not ended and is not about to. start is what Began said of it.
func (s *Supervisor) Lives(pid int, start uint64) bool {
	st, err := s.proc.Stat(pid)
	switch {
	case err != nil || st.Start != start:
		return false
	case !st.Dying:
		return true
	case st.Alive():
		return false
	}
	// Its first thread has ended. So have all others, or it lives on without that.
	threads, err := proctree.Proc{Root: fmt.Sprintf("%s/%d/task", s.proc.Root, pid)}.Snapshot()
	if err != nil {
		return false
	}
	return slices.ContainsFunc(threads, func(t proctree.Stat) bool { return !t.Dying })
}

// Name is what the kernel calls a process, which has at most 15 bytes; "": there is none, or it does not show.
func (s *Supervisor) Name(pid int) string {
	st, err := s.proc.Stat(pid)
	if err != nil {
		return ""
	}
	return st.Name
}

// Sleeps says that a process waits for something just now.
func (s *Supervisor) Sleeps(pid int, start uint64) bool {
	st, err := s.proc.Stat(pid)
	return err == nil && st.Start == start && st.State == 'S'
}

// Exit is how it ended; zero before Done is closed.
func (p *Process) Exit() job.Exit {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.exit
}

// Peak is how many bytes it, or a child that it had waited for, had resident at most; zero before Done is closed, and where that is not known.
func (p *Process) Peak() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.peak
}

// Dumped is as whom it ran when the kernel wrote its core; nil before Done is closed, where it has left none, or where that does not show.
func (p *Process) Dumped() *User {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dumped
}

// dumpedAs is as whom a child ran that has ended and left a core. It stays as it is: once it is reaped nothing shows any more. kind and id are
// waitid's. nil: it has not, or its ids differ, as those of a process that is changing its user.
func (s *Supervisor) dumpedAs(pid, kind, id int) *User {
	info, err := endOf(kind, id)
	if err != nil || int(info.pid) != pid || info.code != cldDumped {
		return nil
	}
	const most = 16 << 10 // bytes
	text, err := proctree.ReadSome(filepath.Join(s.proc.Root, strconv.Itoa(pid), "status"), most)
	if err != nil {
		return nil
	}
	users, groups := proctree.IDs(string(text), "Uid:"), proctree.IDs(string(text), "Gid:")
	if !oneOnly(users) || !oneOnly(groups) {
		return nil
	}
	return &User{UID: users[0], GID: groups[0]}
}

// oneOnly says that there are ids, and all are the same.
func oneOnly(ids []uint32) bool {
	return len(ids) > 0 && !slices.ContainsFunc(ids, func(id uint32) bool { return id != ids[0] })
}

// Ended is when its end was noticed, by this host's clock; zero before Done is closed.
func (p *Process) Ended() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended
}

// Signal sends sig to its process group. After it ended: os.ErrProcessDone, also while other
// members of the group live; Supervisor.StopSession finds those.
func (p *Process) Signal(sig syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reaped {
		return os.ErrProcessDone
	}
	if err := unix.Kill(-p.pid, sig); err != nil && err != unix.ESRCH {
		return os.NewSyscallError("kill", err)
	}
	return nil
}

// Ask sends its process group a signal that asks it to end, once: programs take a second one for impatience, and leave
// what they were saving.
func (p *Process) Ask(sig syscall.Signal) error {
	if bit := uint64(1) << (uint(sig) & 63); p.asked.Or(bit)&bit != 0 {
		return nil
	}
	return p.Signal(sig)
}

// Asked says that Ask has sent a signal; 0: any.
func (p *Process) Asked(sig syscall.Signal) bool {
	asked := p.asked.Load()
	return sig == 0 && asked != 0 || asked&(uint64(1)<<(uint(sig)&63)) != 0
}

// wait returns when the process is reaped or forgotten.
func (p *Process) wait() {
	if p.pidfd == nil {
		p.s.orphans.wake() // it may have ended before it was in the table
		<-p.done
		return
	}
	conn, err := p.pidfd.SyscallConn()
	if err == nil {
		err = conn.Read(func(uintptr) bool { return p.tryReap() })
	}
	_ = p.pidfd.Close()
	if err != nil {
		p.forget()
	}
}

// tryReap reaps it if it has ended, and tells everyone.
func (p *Process) tryReap() bool {
	p.mu.Lock()
	if p.reaped {
		p.mu.Unlock()
		return true
	}
	dumped := p.s.dumpedAs(p.pid, unix.P_PID, p.pid)
	var ws unix.WaitStatus
	var used unix.Rusage
	pid, err := unix.Wait4(p.pid, &ws, unix.WNOHANG, &used)
	if err == unix.EINTR || err == nil && pid == 0 {
		p.mu.Unlock()
		return false
	}
	p.reaped, p.ended, p.dumped = true, time.Now(), dumped
	if err == nil {
		p.peak = uint64(max(used.Maxrss, 0)) << 10
	}
	switch {
	case err != nil: // ECHILD: someone else in this process waits for children
		p.s.cfg.Log.Error("a child was waited for elsewhere, its exit status is lost", "pid", p.pid, "err", err)
		p.exit = job.Exit{Code: job.ExitInternal}
	case ws.Signaled():
		p.exit = job.Exit{Signal: int(ws.Signal()), Core: ws.CoreDump()}
	default:
		p.exit = job.Exit{Code: ws.ExitStatus()}
	}
	p.mu.Unlock()
	p.s.reaped(p)
	close(p.done)
	p.s.orphans.wake() // whose look ended at this one
	return true
}

// forget ends the wait for a process that will not end.
func (p *Process) forget() {
	if p.pidfd != nil {
		_ = p.pidfd.Close()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reaped {
		return
	}
	p.reaped, p.ended = true, time.Now()
	p.exit = job.Exit{Signal: int(unix.SIGKILL)}
	close(p.done)
}
