package ranks

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"

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
	"github.com/mpiup/mpiup/pmi/lobby"
	"github.com/mpiup/mpiup/pmi/pmix"
	"github.com/mpiup/mpiup/topology/usable"
)

// Session is a job's session as the job sees it.
type Session interface {
	Send(f *apiv1.Frame)                                                       // queues a frame for the launcher
	Lend(f *apiv1.Frame, back func())                                          // Send of a frame whose bytes are given back
	Spawn(ctx context.Context, number int, r job.Spawn) (child int, err error) // asks the launcher for another job
	PMIx(st *Job) (*pmix.Server, error)                                        // the session's server, which knows the job then
}

// Config is what jobs need of their host, whatever their session.
type Config struct {
	Name      string   // of the host
	Env       []string // the container's
	Dir       string   // of processes whose own does not exist here
	Embedded  bool     // the launcher is this process
	Inventory usable.Inventory
	GPUs      gpu.Inventory // as files tell

	Host    *host.Host
	Super   *reap.Supervisor
	Libs    *mpilib.Memory
	Metrics *metrics.Metrics
	Watch   *gpuwatch.Watch // nil: nobody can tell how busy GPUs are
}

// Shared is what the jobs of a session share.
type Shared struct {
	Config
	ID     string // hex, also MPIUP_SESSION of all it starts
	Log    *slog.Logger
	Engine *kvs.Engine
	Jobs   *Jobs
	Hints  *host.Hints

	Audit   func(l *apiv1.Launch, files bool) // notes what is started, or copied
	Session Session
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

// Crowded says that the session has more processes here than there are processors: those that wait should yield.
func (s *Shared) Crowded() bool { return s.Jobs.Live() > s.Inventory.CPUs }

// Variable is what the user exported for the command line's programs, else the container's.
func (s *Shared) Variable(name string) string {
	var exported []string
	if first := s.Jobs.Number(0); first != nil && len(first.Launch.Apps) > 0 {
		exported = first.Launch.Apps[0].Env
	}
	for _, list := range [][]string{exported, s.Env} {
		for _, kv := range list {
			if v, ok := strings.CutPrefix(kv, name+"="); ok {
				return v
			}
		}
	}
	return ""
}

// MaySpeak lets only the ranks of a session here and their descendants speak on a loopback port,
// where anybody on the host can connect. Where /proc does not show whose a socket is, its user decides.
// What speaks has to know a namespace's or a rank's random bits besides. likely is whose port it is, where that is
// known: Horovod's ranks connect a thousand times.
func (s *Shared) MaySpeak(ctx context.Context, likely *reap.Process, c net.Conn) error {
	peer, err := lobby.PeerOf(c)
	if err != nil {
		return err
	}
	if s.Super.Holds(ctx, s.ID, likely, peer.Inode, peer.UID) == reap.NotHeld {
		return fmt.Errorf("a process of uid %d holds the other end, and none of this host's ranks or their descendants (the agent is uid %d)",
			peer.UID, os.Getuid())
	}
	return nil
}
