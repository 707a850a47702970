package ranks

import (
	"slices"
	"strings"
	"time"

	"github.com/mpiup/mpiup/agent/checkup"
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
