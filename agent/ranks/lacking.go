package ranks

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/mpiup/mpiup/agent/checkup"
	"github.com/mpiup/mpiup/agent/reap"
	"github.com/mpiup/mpiup/agent/reap/program"
	"github.com/mpiup/mpiup/agent/stacks"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/job"
	"golang.org/x/sys/unix"
)

// beginning is how long after its start a rank that ends may have ended in MPI_Init.
const beginning = 30 * time.Second

// tempGlance is how long a rank's end waits for the word of the directory for temporary files.
const tempGlance = 200 * time.Millisecond

// lacking is what MPI lacks here, if that may be why the rank has ended so: it spoke to its MPI's server, and ended soon, or
// by a signal that memory beyond what /dev/shm holds brings.
func (p *Process) lacking(ex job.Exit) string {
	bus := ex.Signal == int(unix.SIGBUS)
	if p.pmi.Load() == int32(apiv1.PmiState_PMI_NEVER) || !bus && time.Since(p.begun) > beginning {
		return ""
	}
	room := checkup.Room{Ranks: len(p.Job.Launch.Procs), Bus: bus}
	room.ShmSize, room.ShmFree = checkup.Shm()
	if p.Job.protocolOf(p.Spec.App) == apiv1.Pmi_PMI_PMIX && !bus { // Open MPI alone needs it
		room.Temp = checkup.LookTemp(p.tempDir(), tempGlance)
	}
	return room.Lacking()
}

// tempDir is where the rank puts temporary files.
func (p *Process) tempDir() string {
	for _, kv := range slices.Backward(p.Job.apps[p.Spec.App].Env) {
		if dir, ok := strings.CutPrefix(kv, "TMPDIR="); ok && dir != "" {
			return dir
		}
	}
	return p.Job.s.Host.TempDir()
}

// lookAtCore tells the user where the process crashed, by its core file. Its exit was told of before, and the job's end waits for its
// output only.
func (p *Process) lookAtCore() {
	p.mu.Lock()
	ours := p.ours
	p.mu.Unlock()
	if !p.process.Exit().Core || ours {
		return
	}
	pattern, err := os.ReadFile("/proc/sys/kernel/core_pattern")
	if err != nil {
		return
	}
	tool := func(ctx context.Context, argv []string, limit int) (string, error) {
		return runTool(ctx, p.Job.s, argv, limit)
	}
	file, frames := stacks.Core(p.Job.ctx, tool, stacks.Crash{PID: p.Pid(), Dir: p.dir, Since: p.begun, Pattern: string(pattern)})
	if len(frames) > 0 {
		p.Job.Notice(true, "rank %d crashed in %s, by its core file %s", p.ID, strings.Join(frames, ", called by "), file)
	} else if file != "" {
		p.Job.Notice(true, "rank %d left a core file: %s", p.ID, file)
	}
}

// runTool runs a program of the container's PATH, as one of the agent's processes.
func runTool(ctx context.Context, s *Shared, argv []string, limit int) (string, error) {
	o, err := reap.Collect(ctx, s.Super, reap.Command{Argv: argv, Env: s.Env}, limit)
	var failed *program.Error
	if errors.As(err, &failed) && failed.Phase == program.PhaseExec {
		return "", stacks.ErrNoProgram
	}
	return string(o.Out), err
}
