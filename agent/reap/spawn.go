package reap

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mpiup/mpiup/agent/reap/guard"
	"github.com/mpiup/mpiup/agent/reap/proctree"
	"github.com/mpiup/mpiup/agent/reap/program"
	"github.com/mpiup/mpiup/internal/awake"
)

// Command is a process to start.
type Command struct {
	Argv []string // argv[0] as the process sees it, then arguments; at least one
	Path string   // the program; "": Argv[0]. Looked up as execvp does
	Look string   // where it is looked up before the PATH in Env; "": nowhere
	// AlsoDir looks for it in Dir when it is nowhere on PATH, as Open MPI does (opal_path_findv).
	AlsoDir bool
	// ByShell has /bin/sh run a text without a #! line, as execvp(3) does.
	ByShell bool
	Env     []string // NAME=value, the whole environment
	Dir     string   // absolute working directory; "": the supervisor's own

	// Files become descriptors 0, 1, 2, ...; a nil or missing one of the first three is
	// /dev/null. They are set to blocking mode, as a program expects. The caller closes them
	// after Start returned.
	Files []*os.File
	// Terminal makes Files[0], the slave of a pseudo terminal, the controlling terminal.
	Terminal bool

	// SameSession leaves it in this process's session, as leader of a process group only. Not with Terminal.
	//
	// Where each session is a scheduling group of its own (sched(7), autogroup), sched_yield(2) gives way to nobody
	// in another. Ranks that share CPUs and yield while they wait would then keep them for whole slices.
	SameSession bool

	User *User // nil: this process's own. No other groups, no capabilities and no way to either (no_new_privs) come with another one. Not with CPUs, Memory

	CPUs    []int  // affinity by kernel CPU number; empty: inherited
	Memory  *int   // NUMA node whose memory is taken first, by its kernel number; nil: inherited
	Session string // the value of MPIUP_SESSION in Env; "": belongs to none
	Cut     bool   // for Collect: of what it writes too much, the beginning is enough
}

// User is who a process runs as.
type User struct{ UID, GID uint32 }

func (c *Command) validate() error {
	bad := ""
	switch {
	case len(c.Argv) == 0:
		bad = "no program is named"
	case len(c.Session) > proctree.MaxSession || strings.ContainsAny(c.Session, " \n\x00"):
		bad = "the session's name is malformed"
	case c.Dir != "" && c.Dir[0] != '/':
		bad = "the working directory is not absolute"
	case c.Terminal && c.SameSession:
		bad = "a terminal belongs to a session of its own"
	case c.Terminal && (len(c.Files) == 0 || c.Files[0] == nil):
		bad = "a terminal was asked for and none given"
	case len(c.CPUs) > 0 && (slices.Min(c.CPUs) < 0 || slices.Max(c.CPUs) >= maxCPU):
		bad = "a CPU number is out of range"
	}
	if bad == "" {
		return nil
	}
	return &program.Error{Phase: program.PhaseInit, Cause: bad}
}

// request is a Command on its way through the spawner.
type request struct {
	cmd   Command
	ctx   context.Context // nil: never withdrawn
	path  string
	guard bool
	reply chan spawned  // capacity 1
	born  chan struct{} // made when the fork begins, closed when the child is in the table, or there is none

	abandoned bool // guarded by Supervisor.mu: nobody waits for it any more
}

type spawned struct {
	p   *Process
	err error
}

// Start starts a process. The error is a *program.Error, ErrEnded, or ctx's. It returns after the
// exec succeeded or failed, or when Config.SpawnDeadline has passed for it in vain. A ctx that ends
// withdraws what has not been forked yet.
func (s *Supervisor) Start(ctx context.Context, cmd Command) (*Process, error) {
	if err := cmd.validate(); err != nil {
		return nil, err
	}
	path, err := s.find(ctx, &cmd)
	if err != nil {
		return nil, err
	}
	p, err := s.submit(ctx, &request{cmd: cmd, ctx: ctx, path: path, reply: make(chan spawned, 1)}, s.cfg.SpawnDeadline)
	var failed *program.Error
	if cmd.ByShell && errors.As(err, &failed) && failed.Text {
		return s.startText(ctx, cmd, path)
	}
	return p, err
}

// shell runs texts without a #! line (_PATH_BSHELL of glibc's execvp).
const shell = "/bin/sh"

// startText starts a shell that runs a text. The text's name is that of the command, where it has a slash, else where it was found on PATH, as
// execvp(3) has it.
func (s *Supervisor) startText(ctx context.Context, cmd Command, path string) (*Process, error) {
	text := cmp.Or(cmd.Path, cmd.Argv[0])
	if !strings.Contains(text, "/") {
		text = path
	}
	cmd.Argv = slices.Concat([]string{shell, text}, cmd.Argv[1:])
	cmd.Path = ""
	cmd.ByShell = false
	return s.submit(ctx, &request{cmd: cmd, ctx: ctx, path: shell, reply: make(chan spawned, 1)}, s.cfg.SpawnDeadline)
}

// Expect says that processes are about to be started. The guard is forked beside what has to be found out before them,
// rather than between the first two of them.
func (s *Supervisor) Expect() {
	s.mu.Lock()
	wanted := s.cfg.GuardExe != "" && s.guard == nil && !s.closed
	s.mu.Unlock()
	if wanted {
		poke(s.keeper.poke)
	}
}

// pathOf is PATH in an environment: the last one counts.
func pathOf(env []string) (path string) {
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, "PATH="); ok {
			path = v
		}
	}
	return path
}

// find finds the program, unless Run ends meanwhile.
func (s *Supervisor) find(ctx context.Context, c *Command) (string, error) {
	prog, pathEnv := cmp.Or(c.Path, c.Argv[0]), pathOf(c.Env)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.ended, func() { cancel(ErrEnded) })()
	return s.programs.Find(ctx, prog, c.Dir, program.SearchPath(c.Look, pathEnv, c.AlsoDir), s.cfg.SpawnDeadline)
}

// submit hands a request to the spawner and waits for what becomes of it, at most patience for its
// turn and for its fork.
func (s *Supervisor) submit(ctx context.Context, req *request, patience time.Duration) (*Process, error) {
	if err := s.queue(ctx, req, patience); err != nil {
		return nil, err
	}
	late, stop := awake.Within(context.Background(), patience)
	defer stop()
	select {
	case r := <-req.reply:
		return r.p, r.err
	case <-late.Done():
		return nil, s.abandon(req)
	}
}

// queue waits until the spawner takes a request. Where hundreds of processes are started at once it is
// busy and not stuck: patience begins anew when it has begun another fork meanwhile.
func (s *Supervisor) queue(ctx context.Context, req *request, patience time.Duration) error {
	late := make(chan struct{}, 1)
	stop := func() {}
	defer func() { stop() }()
	for begun := s.begun(); ; {
		stop()
		stop = awake.After(patience, func() { late <- struct{}{} })
		select {
		case s.requests <- req:
			return nil
		case <-s.ended.Done():
			return ErrEnded
		case <-ctx.Done():
			return ctx.Err()
		case <-late:
			n := s.begun()
			if n == begun {
				return s.busyError(req)
			}
			begun = n
		}
	}
}

func (s *Supervisor) begun() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.forks
}

func (s *Supervisor) busyError(req *request) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := program.TimedOut(req.path, s.cfg.SpawnDeadline)
	e.Cause = "no process can be started on this host"
	if s.forking != nil {
		e.Cause = fmt.Sprintf("no process can be started on this host: starting %s does not come to an end", s.forking.path)
	}
	return e
}

// abandon gives a fork up. It kills what hangs between clone and exec, which most file systems allow; the spawner
// kills a process that appears after all.
func (s *Supervisor) abandon(req *request) error {
	s.mu.Lock()
	req.abandoned = true
	s.mu.Unlock()
	s.killUnborn()
	return program.TimedOut(req.path, s.cfg.SpawnDeadline)
}

// killUnborn kills, while a fork is in flight, children that are not in the table and still run this program: the one
// between clone and exec. (An adopted orphan runs something else.)
func (s *Supervisor) killUnborn() {
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	all, err := s.proc.Snapshot()
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.forking == nil {
		return
	}
	for _, p := range all {
		if p.PPID != os.Getpid() || s.table[p.PID] != nil {
			continue
		}
		if exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", p.PID)); err == nil && exe == self {
			_ = unix.Kill(p.PID, unix.SIGKILL)
		}
	}
}

// spawner does every fork, on one thread that does nothing else. The thread ends with Run, when no child is left: its
// end would send the children their parent-death signal.
func (s *Supervisor) spawner() {
	runtime.LockOSThread() // never unlocked: the thread has a mask, an affinity and a slice of its own
	s.prepareThread()
	defer s.lesser.end()
	for {
		select {
		case req := <-s.requests:
			s.serve(req)
			continue
		default:
		}
		s.keeper.wake() // idle: a good moment to start a guard
		select {
		case req := <-s.requests:
			s.serve(req)
		case <-s.ended.Done():
			return
		}
	}
}

// prepareThread gives the calling thread what its children are to have.
func (s *Supervisor) prepareThread() {
	_ = unix.PthreadSigmask(unix.SIG_SETMASK, &unix.Sigset_t{}, nil) // Go passes it on to the child
	setSlice(0, usualSlice)
	s.priority.spawner()
}

func (s *Supervisor) serve(req *request) {
	files, err := childFiles(req.cmd.Files) // before others can give this fork up, and close them
	if err == nil {
		defer files.close()
		err = s.beginFork(req)
	}
	if err != nil {
		req.reply <- spawned{err: err}
		return
	}
	p, err := s.forkExec(req, files)
	abandoned := s.endFork(req, p)
	s.orphans.wake()
	if p != nil {
		s.waiters.Go(p.wait)
		if abandoned {
			_ = p.Signal(unix.SIGKILL)
		}
	}
	req.reply <- spawned{p, err}
}

func (s *Supervisor) beginFork(req *request) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed && !req.guard, req.abandoned:
		return ErrEnded
	case req.ctx != nil && req.ctx.Err() != nil:
		return req.ctx.Err()
	case req.cmd.Session != "" && s.stopping[req.cmd.Session] > 0:
		return &program.Error{Phase: program.PhaseInit, Cause: "the session is being stopped"}
	}
	s.forks++
	s.forking = req
	delete(s.empty, req.cmd.Session)
	req.born = make(chan struct{})
	if _, known := s.known[req.cmd.Session]; !known && req.cmd.Session != "" {
		s.known[req.cmd.Session] = s.ledger.Add(guard.Record{Session: req.cmd.Session})
	}
	return nil
}

// endFork puts the process into the table before anyone can look for it there, and says whether
// it has to go at once.
func (s *Supervisor) endFork(req *request, p *Process) (unwanted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forking = nil
	defer close(req.born)
	if p == nil {
		return false
	}
	s.table[p.pid] = p
	if req.guard {
		s.guard = p
		return req.abandoned || s.closed
	}
	if old, ok := s.leaders[p.pid]; ok {
		s.ledger.Remove(old.slot)
	}
	s.leaders[p.pid] = leader{proctree.Whose{Session: p.session, Start: p.start}, s.ledger.Add(guard.Record{Session: p.session, PID: p.pid, Start: p.start})}
	return req.abandoned || s.closed || s.stopping[p.session] > 0
}

// forkExec makes the child. ForkExec's child side restores default dispositions for signals
// that this process handles and the thread's mask, which is empty.
func (s *Supervisor) forkExec(req *request, files fileSet) (*Process, error) {
	cmd := &req.cmd
	s.priority.child(cmd.SameSession)
	back, err := setAffinity(cmd.CPUs)
	if err != nil {
		return nil, err
	}
	defer back()
	defer preferMemory(cmd.Memory)()
	defer s.mark(cmd.Session)()
	closeOnExec()
	pid, pidfd := 0, -1
	attr := &syscall.ProcAttr{Dir: cmd.Dir, Env: cmd.Env, Files: files.fds, Sys: &syscall.SysProcAttr{
		Setsid: !cmd.SameSession, Setpgid: cmd.SameSession, Setctty: cmd.Terminal, Ctty: 0,
	}}
	if u := cmd.User; u != nil {
		attr.Sys.Credential = &syscall.Credential{Uid: u.UID, Gid: u.GID}
	}
	if !s.noPidfd.Load() {
		attr.Sys.PidFD = &pidfd // stays -1 before Linux 5.2
	}
	if !req.guard {
		attr.Sys.Pdeathsig = syscall.SIGKILL
	}
	if attr.Env == nil {
		attr.Env = []string{}
	}
	fork := func() { pid, err = syscall.ForkExec(req.path, cmd.Argv, attr) }
	if cmd.User != nil {
		if err := s.lesser.begin(s.prepareThread); err != nil {
			return nil, &program.Error{Phase: program.PhaseInit, Path: req.path, Cause: err.Error()}
		}
		here := fork
		fork = func() { s.lesser.do(here) }
	}
	fork()
	if attr.Sys.PidFD != nil && (err == syscall.EINVAL || err == syscall.ENOSYS) { // a sandbox without pidfds?
		attr.Sys.PidFD = nil
		if fork(); err == nil {
			s.noPidfd.Store(true)
		}
	}
	runtime.KeepAlive(cmd.Files)
	if err != nil {
		return nil, program.Explain(req.path, cmd.Dir, cmd.Argv, cmd.Env, program.Errno(err))
	}
	return newProcess(s, pid, pidfd, req), nil
}

// mark gives this process, and so its next child, the session's mark; back undoes it. Nothing in the kernel looks at that limit, so
// that this process has it for a moment changes nothing. A sandbox may refuse it, and somebody may have bounded it.
func (s *Supervisor) mark(session string) (back func()) {
	if session == "" {
		return func() {}
	}
	var before unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_LOCKS, &before)
	if err == nil {
		err = unix.Setrlimit(unix.RLIMIT_LOCKS, &unix.Rlimit{Cur: proctree.Mark(session), Max: before.Max})
	}
	if err == nil {
		return func() { _ = unix.Setrlimit(unix.RLIMIT_LOCKS, &before) }
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.unmarked {
		s.unmarked = true
		s.cfg.Log.Info("processes cannot be marked: one that clears its environment and leaves its process session may be lost", "err", err)
	}
	return func() {}
}
