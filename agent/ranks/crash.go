package ranks

import (
	"context"
	"errors"
	"os"
	"strings"
	"time"

	"github.com/mpiup/mpiup/agent/reap"
	"github.com/mpiup/mpiup/agent/trace"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/awake"
	"github.com/mpiup/mpiup/internal/bounded"
	"github.com/mpiup/mpiup/internal/job"
	"golang.org/x/sys/unix"
)

// Where a rank crashed, by its core file and by what its own handler wrote. Both are the rank's, and so is its working directory, of which it may
// make a link to anywhere:
//
//	before its start   working directory ─▶ held open
//	core file          opened in that, through no link; its owner, as the rank ran, and nobody else may have written it ─▶ a descriptor
//	eu-stack, gdb      as the rank's user, with that descriptor (reap.CollectTool)
//
// A file system that does not answer ends neither look. So both have a time, and neither the rank's end nor the agent's waits longer.

// Bounds of what may not answer, and of how many such looks of a job go on at once.
const (
	holdTime  = time.Second
	crashTime = 6 * time.Second // a little longer than trace's own
	maxLooks  = 32
)

// holdDirs holds the working directories of a launch's programs; nil for one that is not there or does not answer.
func (st *Job) holdDirs(dirs []string) {
	st.held = make([]*bounded.Dir, len(dirs))
	if st.Launch.Job.Explain > 0 { // no program runs
		return
	}
	byPath := map[string]*bounded.Dir{}
	for i, path := range dirs {
		dir, known := byPath[path]
		if !known {
			ctx, cancel := awake.Within(st.ctx, holdTime)
			dir, _ = awake.InTurn(ctx, st.looks, func() *bounded.Dir {
				dir, err := bounded.HoldDir(path)
				if err != nil {
					return nil
				}
				return dir
			})
			cancel()
			byPath[path] = dir
		}
		st.held[i] = dir
	}
}

// releaseDirs lets go of them.
func (st *Job) releaseDirs() {
	for _, dir := range st.held {
		if dir != nil {
			dir.Close() // of several programs: again, no matter
		}
	}
}

// lookAtCore tells the user where the process crashed, by its core file. Its exit was told of before, and the job's end waits for its
// output only.
func lookAtCore(p *Process) (frames []string) {
	p.mu.Lock()
	ours := p.ours
	p.mu.Unlock()
	if ex, _ := p.exit(); !ex.Core || ours {
		return nil
	}
	pattern, err := os.ReadFile("/proc/sys/kernel/core_pattern")
	if err != nil {
		return nil
	}
	owner, as, ok := p.crashedAs()
	if !ok {
		p.Job.s.Notice(true, "%v left a core file, which is not looked at: as which user it ended does not show", p)
		return nil
	}

	tool := func(ctx context.Context, argv []string, core *os.File, limit int) (string, error) {
		o, err := reap.CollectTool(ctx, p.Job.s.Super, reap.Tool{Argv: argv, Env: p.Job.s.Env, As: as, In: core}, limit)
		if errors.Is(err, reap.ErrNoTool) {
			return "", trace.ErrNoProgram
		}
		return string(o.Out), err
	}
	type found struct {
		file   string
		frames []string
	}
	crashed := trace.Process{PID: p.Pid(), UID: owner, Dir: p.held, Since: p.begun, Pattern: string(pattern)}
	core, answered := answered(p, func(ctx context.Context) (f found) {
		f.file, f.frames = trace.Core(ctx, tool, crashed)
		return f
	})
	switch {
	case !answered:
		p.Job.s.Notice(true, "%v left a core file, which is not looked at: the file system of %s does not answer", p, p.dir)
	case len(core.frames) > 0:
		p.Job.s.Notice(true, "%v crashed in %s, by its core file %s", p, strings.Join(core.frames, ", called by "), core.file)
	case core.file != "":
		p.Job.s.Notice(true, "%v left a core file: %s", p, core.file)
	}
	return core.frames
}

// answered is what look finds of a process that has ended, in a time that the agent's end ends.
func answered[T any](p *Process, look func(ctx context.Context) T) (T, bool) {
	ctx, cancel := awake.Within(p.Job.ctx, crashTime)
	defer cancel()
	return awake.InTurn(ctx, p.Job.looks, func() T { return look(ctx) })
}

// crashedAs is whose file the core is, and who looks at it; nil: this process's user. false: that does not show.
func (p *Process) crashedAs() (owner uint32, as *reap.User, ok bool) {
	own := uint32(os.Geteuid())
	if own != 0 {
		return own, nil, true // it can be nobody else, and a core of another user's is none of its
	}
	as = p.dumpedAs()
	switch {
	case as == nil:
		return 0, nil, false
	case as.UID == own:
		return own, nil, true
	}
	return as.UID, as, true
}

// dumpedAs is as whom the process ran that exit tells of; nil: it does not show.
func (p *Process) dumpedAs() *reap.User {
	p.clients.mu.Lock()
	e := p.clients.ended
	p.clients.mu.Unlock()
	if e.known && e.exit.Status() != 0 {
		return e.dumped
	}
	return p.process.Dumped()
}

// placed is where a process was that a signal has ended, by what its own handler wrote.
func (p *Process) placed(ex job.Exit) (list []*apiv1.Placed) {
	if ex.Signal == 0 || ex.Signal == int(unix.SIGKILL) {
		return nil
	}
	found, _ := answered(p, func(ctx context.Context) []job.Placed { return trace.Resolve(ctx, p.heard.Last(), p.held) })
	for _, f := range found {
		list = append(list, &apiv1.Placed{Frame: f.Frame, Place: f.Place})
	}
	return list
}
