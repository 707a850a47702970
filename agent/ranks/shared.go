package ranks

import (
	"context"
	"log/slog"

	"github.com/mpiup/mpiup/agent/gpuwatch"
	"github.com/mpiup/mpiup/agent/host"
	"github.com/mpiup/mpiup/agent/metrics"
	"github.com/mpiup/mpiup/agent/mpilib"
	"github.com/mpiup/mpiup/agent/reap"
	"github.com/mpiup/mpiup/gpu"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/pmi/kvs"
	"github.com/mpiup/mpiup/pmi/pmix"
	"github.com/mpiup/mpiup/topology/usable"
)

// Session is a job's session as the job sees it.
type Session interface {
	Send(f *apiv1.Frame)                                                       // queues a frame for the launcher
	Lend(f *apiv1.Frame, back func())                                          // Send of a frame whose bytes are given back
	Spawn(ctx context.Context, number int, r job.Spawn) (child int, err error) // asks the launcher for another job
	Job(id uint32) *Job                                                        // the job that a process belongs to, nil for an id of none
	PMIx(st *Job) (*pmix.Server, error)                                        // the session's server, which knows the job then
}

// Shared is what the jobs of a session share.
type Shared struct {
	ID      string // hex, also MPIUP_SESSION of all it starts
	Log     *slog.Logger
	Engine  *kvs.Engine
	Host    *host.Host
	Super   *reap.Supervisor
	Libs    *mpilib.Memory
	Metrics *metrics.Metrics
	Hints   *host.Hints

	Name      string   // of the host
	Env       []string // the container's
	Dir       string   // of processes whose own does not exist here
	Embedded  bool     // the launcher is this process
	Inventory usable.Inventory
	GPUs      gpu.Inventory // as files tell

	Crowded  func() bool                       // the session has more processes here than there are processors
	Variable func(name string) string          // what the user exported for the command line's programs, else the container's
	Audit    func(l *apiv1.Launch, files bool) // notes what is started, or copied
	GPUUse   func() []gpuwatch.GPU             // as far as the watch has told; nil: nobody watches
	Session  Session
}

// maxFences bounds the fences that Waiting looks at.
const maxFences = 16

// Waiting are the ids of this host's that wait in fences.
func (s *Shared) Waiting() (ids idset.Set) {
	for _, w := range s.Engine.Waits(maxFences) {
		ids = ids.Union(w.Entered)
	}
	return ids
}
