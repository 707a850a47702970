package look

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/mpiup/mpiup/agent/reap"
	"github.com/mpiup/mpiup/agent/reap/proctree"
	"github.com/mpiup/mpiup/agent/trace"
	"github.com/mpiup/mpiup/internal/awake"
	"github.com/mpiup/mpiup/topology/sysfs"
)

// Take finds out where processes are, by the best means that is there:
//
//	a signal that the program handles by writing where it is (Python's faulthandler), where the caller names one
//	eu-stack, then gdb            ─┐  where ptrace is allowed and the tool is on PATH: they stop the process for a moment;
//	py-spy, beside, for Python    ─┘  it reads while the process runs, since two tools cannot stop one
//	/proc/PID/{stack,syscall,wchan}   always
//
// What waits in C or C++ shows to the first two alone, and a program's own lines to py-spy alone: a stack has both, native functions innermost.
//
// Tools run as the caller's Run runs them, a few at a time, and with bounds of time and output; agent/trace reads what they write. Where a
// process is of another user than the caller, who is root, tools run as that user: they read what the process wants them to read.
// A signal is sent to a process that catches it, and to no other.

// StackConfig is what Take needs.
type StackConfig struct {
	// Run runs a program to its end, or kills it when ctx ends, and returns what it wrote, at most limit bytes. As another user where as is
	// not nil: then only a program that nobody but root can have put there. trace.ErrNoProgram: it is not there.
	Run    func(ctx context.Context, argv []string, as *reap.User, limit int) (string, error)
	Signal int // SIGUSR1, SIGUSR2 or 0
}

// Target is a process.
type Target struct {
	PID int
	// Hear calls f while the process may write, with what it writes to its standard error, until the returned function is called.
	Hear func(f func([]byte)) (stop func())
}

// Stack is where a process is.
type Stack struct {
	Means  string   // as ProcStack.means
	Frames []string // the innermost first
}

// Bounds.
const (
	maxOutput = 1 << 20 // bytes of one tool
	toolTime  = 10 * time.Second
	allTime   = 20 * time.Second
	atOnce    = 4
	dumpTime  = 2 * time.Second        // for the first byte after a signal
	dumpQuiet = 200 * time.Millisecond // without another one the dump is over
	maxDump   = 256 << 10
	maxNotes  = 8
)

// Signals are those that a program may be sent.
var Signals = []int{int(unix.SIGUSR1), int(unix.SIGUSR2)}

// taking is one Take.
type taking struct {
	StackConfig
	proc proctree.Proc

	lacks sync.Map // tools that are not there, by name

	mu    sync.Mutex
	notes []string // guarded by mu
}

// Take looks at each target. Notes are what would tell more, each once.
func Take(ctx context.Context, cfg StackConfig, targets []Target) (found []Stack, notes []string) {
	ctx, cancel := awake.Within(ctx, allTime)
	defer cancel()
	l := &taking{StackConfig: cfg, proc: proctree.Proc{Root: "/proc"}}
	found = make([]Stack, len(targets))
	var all errgroup.Group
	all.SetLimit(atOnce)
	for i, t := range targets {
		all.Go(func() error {
			found[i] = l.at(ctx, t)
			return nil
		})
	}
	_ = all.Wait() // nothing fails
	return found, l.notes
}

func (l *taking) at(ctx context.Context, t Target) Stack {
	if l.Signal != 0 {
		if frames := l.dump(ctx, t); len(frames) > 0 {
			return Stack{"faulthandler", frames}
		}
	}
	as, ours := l.user(t.PID)
	if p := l.ptrace(ours, as != nil); p.Refusal() != "" {
		if p.Reads() {
			if frames := l.asleep(ctx, t.PID); len(frames) > 0 {
				if l.python(t.PID) {
					frames = trace.OfPython(frames, nil)
					l.note("Yama forbids py-spy on this node, so Python's own lines are not shown: mpiup stacks --signal USR1, where the program handles it")
				}
				return Stack{"eu-stack", frames}
			}
		}
		l.note(p.Refusal())
		return Stack{"kernel", l.kernel(t.PID)}
	}
	pid := strconv.Itoa(t.PID)
	var lines []string
	var beside sync.WaitGroup
	python := l.python(t.PID)
	if python {
		beside.Go(func() {
			lines, _ = l.run(ctx, tool{"py-spy", []string{"dump", "--nonblocking", "--pid", pid}, trace.PySpy}, as)
		})
	}
	means, frames, there := l.native(ctx, pid, as)
	beside.Wait()
	switch {
	case len(lines) > 0 && means != "":
		return Stack{means + " and py-spy", trace.OfPython(frames, lines)}
	case len(lines) > 0:
		if !there {
			l.note("install elfutils (eu-stack) or gdb so that waits in C and C++ show: by Python's lines alone nobody is named")
		}
		return Stack{"py-spy", lines}
	case python && means != "":
		if _, lacks := l.lacks.Load("py-spy"); lacks {
			l.note("py-spy is not on PATH, so Python's own lines are not shown: pip install py-spy there, or mpiup stacks --signal USR1")
		}
		return Stack{means, trace.OfPython(frames, nil)}
	case means != "":
		return Stack{means, frames}
	case !there:
		l.note("neither eu-stack (elfutils) nor gdb is on PATH: what is shown is where ranks wait in the kernel")
	}
	return Stack{"kernel", l.kernel(t.PID)}
}

// native is what the first of these tools tells that tells something, and its name; there: one of them is.
func (l *taking) native(ctx context.Context, pid string, as *reap.User) (means string, frames []string, there bool) {
	for _, t := range []tool{
		{"eu-stack", []string{"-1", "-s", "-n", strconv.Itoa(trace.MaxFrames), "-p", pid}, trace.Sourced},
		{"gdb", []string{"-nx", "-batch", "-iex", "set auto-load off", "-iex", "set debuginfod enabled off",
			"-p", pid, "-ex", "bt " + strconv.Itoa(trace.MaxFrames)}, trace.Sourced},
	} {
		frames, ok := l.run(ctx, t, as)
		there = there || ok
		if slices.ContainsFunc(frames, func(f string) bool { return f != "??" }) { // else of a program without symbols: the kernel tells more
			return t.name, frames, true
		}
	}
	return "", nil, there
}

// tool is a program and what reads its output.
type tool struct {
	name string
	args []string
	read func(string) []string
}

// run is what a tool finds; there: the tool is.
func (l *taking) run(ctx context.Context, t tool, as *reap.User) (frames []string, there bool) {
	if _, lacks := l.lacks.Load(t.name); lacks || ctx.Err() != nil {
		return nil, ctx.Err() != nil
	}
	ctx, cancel := awake.Within(ctx, toolTime)
	defer cancel()
	out, err := l.Run(ctx, append([]string{t.name}, t.args...), as, maxOutput)
	if err == trace.ErrNoProgram {
		l.lacks.Store(t.name, true)
		return nil, false
	}
	if frames = t.read(out); len(frames) == 0 {
		l.note(t.name + silence(ctx, err))
	}
	return frames, true
}

// silence says why a tool has told nothing.
func silence(ctx context.Context, err error) string {
	switch {
	case ctx.Err() != nil:
		return " was ended: it took longer than a look may, as with many symbols or on a machine that has no time"
	case err == nil:
		return " tells nothing"
	}
	return fmt.Sprintf(" tells nothing: %.120v", err)
}

func (l *taking) note(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.notes) < maxNotes && !slices.Contains(l.notes, text) {
		l.notes = append(l.notes, text)
	}
}

func (l *taking) file(pid int, name string) string {
	const most = 16 << 10
	text, err := proctree.ReadSome(filepath.Join(l.proc.Root, strconv.Itoa(pid), name), most)
	if err != nil {
		return ""
	}
	return string(text)
}

// kernel is where the process waits in the kernel, or that it runs.
func (l *taking) kernel(pid int) (frames []string) {
	k := Where(l.proc, pid)
	if k == (Kernel{}) { // what stack has then is of an interrupt
		return []string{"running, or the kernel does not show where it waits"}
	}
	if frames = trace.KernelStack(l.file(pid, "stack")); len(frames) == 0 && k.Wchan != "" {
		frames = []string{k.Wchan}
	}
	if k.Syscall != "" {
		frames = append(frames, "in "+k.Syscall)
	}
	return frames
}

// python says that the process is a Python interpreter, by its program's name.
func (l *taking) python(pid int) bool {
	exe, err := os.Readlink(filepath.Join(l.proc.Root, strconv.Itoa(pid), "exe"))
	return err == nil && strings.HasPrefix(filepath.Base(exe), "python")
}

const capSysPtrace = 19

// user is whom a tool has to be to look into a process of another user than this one, who is root; nil: it runs as this one. ours: the process is of
// this user.
func (l *taking) user(pid int) (as *reap.User, ours bool) {
	ids, gids := userIDs(l.file(pid, "status"))
	ours = len(ids) > 0 && !slices.ContainsFunc(ids, func(id uint32) bool { return int(id) != os.Geteuid() })
	if ours || os.Geteuid() != 0 {
		return nil, ours
	}
	if len(ids) == 0 || len(gids) == 0 || slices.ContainsFunc(ids, func(id uint32) bool { return id != ids[0] }) {
		return &reap.User{UID: nobody, GID: nobody}, false // it is changing its user, and nobody is one that can look
	}
	return &reap.User{UID: ids[0], GID: gids[0]}, false
}

const nobody = 65534

// ptrace is what is known of whether tools may look into the process. They are children of this one, and so have its
// capabilities where they run as its user, and no rank above them.
func (l *taking) ptrace(ours, asRank bool) ptrace {
	p := ptrace{Scope: -1, SameUser: ours, AsRank: asRank}
	if text, err := proctree.ReadSome("/proc/sys/kernel/yama/ptrace_scope", 16); err == nil {
		p.Scope, _ = strconv.Atoi(strings.TrimSpace(string(text)))
	}
	if text, ok := sysfs.Field(l.file(os.Getpid(), "status"), "CapEff:"); ok {
		bits, _ := strconv.ParseUint(text, 16, 64)
		p.Capable = bits&(1<<capSysPtrace) != 0
	}
	return p
}

// dump sends the signal to a process that catches it, and reads where it is from what it writes.
func (l *taking) dump(ctx context.Context, t Target) []string {
	var mu sync.Mutex
	var text []byte
	more := make(chan struct{}, 1)
	stop := t.Hear(func(b []byte) {
		mu.Lock()
		text = append(text, b[:min(len(b), maxDump-len(text))]...)
		mu.Unlock()
		select {
		case more <- struct{}{}:
		default:
		}
	})
	defer stop()
	if !l.signal(t.PID) {
		return nil
	}
	for quiet := dumpTime; ; quiet = dumpQuiet {
		within, cancel := awake.Within(ctx, quiet)
		heard := false
		select {
		case <-more:
			heard = true
		case <-within.Done():
		}
		if cancel(); !heard {
			break
		}
	}
	mu.Lock()
	defer mu.Unlock()
	frames := trace.Faulthandler(string(text))
	if len(frames) == 0 {
		l.note(fmt.Sprintf("a rank's handler of %s wrote no Python stack to its standard error", unix.SignalName(unix.Signal(l.Signal))))
	}
	return frames
}

// signal sends the signal, unless the process does not catch it: then it would end.
func (l *taking) signal(pid int) bool {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(fd) }()
	if !catches(l.file(pid, "status"), l.Signal) { // of the process that fd is: it has not ended
		l.note(fmt.Sprintf("ranks that have no handler for %s were not sent it", unix.SignalName(unix.Signal(l.Signal))))
		return false
	}
	return unix.PidfdSendSignal(fd, unix.Signal(l.Signal), nil, 0) == nil
}
