package agent

import (
	"cmp"
	"errors"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/mpiup/mpiup/agent/policy"
	"github.com/mpiup/mpiup/gpu"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/identity"
	"github.com/mpiup/mpiup/internal/resolve"
	"github.com/mpiup/mpiup/topology/discover"
)

// MaxSlots is the most slots of a host: as many processes of a job one starts.
const MaxSlots = apiv1.MaxProcs

// Helpers are files of mpiup besides its program, with their directory; "": there is none.
type Helpers struct {
	GPU   string // mpiup-nvml, which asks for GPUs
	Waits string // libmpiup-watch.so, which stands before a rank's MPI
	Spans string // mpiup-otel, which sends what a launcher's run was
}

// Files are those that are there.
func (h Helpers) Files() []string {
	return slices.DeleteFunc([]string{h.GPU, h.Waits, h.Spans}, func(path string) bool { return path == "" })
}

// Config is all an Agent needs; cmd/mpiup fills it from flags and environment.
type Config struct {
	Name        string             // host name as users know it; required
	Node        string             // of Kubernetes, where the pod tells; "": unknown
	Version     string             // build
	Incarnation string             // of this container (internal/identity); required
	Inventory   discover.Inventory // what this host may use
	GPUs        gpu.Inventory      // as files tell of them
	Helpers     Helpers            // what stands beside this program
	Slots       int                // 0: GPUs, else usable CPUs
	Env         []string           // the container's environment: the base of every rank's
	Dir         string             // working directory of ranks whose own does not exist here
	RunDir      string             // where the record of this agent is kept; "" for none
	Executable  string             // this program, for the guard; "" for none (PID 1)
	Stdout      io.Writer          // the worker's own log, for --worker-logs
	Stderr      io.Writer
	Log         *slog.Logger // required

	Inside *Inside // a launcher: all below is unused, but for Policy; nil: it has a port of its own

	Identity *identity.Identity // required unless Inside
	Listen   string             // address to bind, without port; "" for all
	Port     int                // 0: the fixed default, else a derived candidate
	HTTP     string             // address of /healthz, /readyz, /metrics; "off" for none
	// NoMetrics leaves /metrics out of these, so that probes have an answer and strangers none.
	NoMetrics bool
	Resolver  *resolve.Resolver
	Seeds     []string      // names of hosts to find peers by; own subdomain and operators' variables are added
	Grace     time.Duration // between TERM and KILL when the agent is ended; default 25 s
	Gossip    bool
	// GPUMetrics is how often GPUs' use is read through Helpers.GPU while somebody asks, and shown on /metrics; 0: /metrics has
	// nothing of it, and it is read each 15 s.
	GPUMetrics time.Duration
	Policy     *policy.Policy // what is done for whom, Inside only looks; nil: launchers may do everything, agents nothing
	IdleExit   time.Duration  // a job has run, and no session since for so long: end with code 0; 0: never
	Await      Await          // whose job this host is for
	Rest       func()         // called 2 s after the last session; nil: nobody
	Hasten     func(bool)     // called with true when a session begins and with false a while later; nil: nobody
	Ready      func()         // called once the agent can be reached; nil: nobody waits for it
}

// Inside is where an agent's launcher is in the same process.
type Inside struct {
	Look string        // the directory in which their user may look at what runs (internal/nearby); "": nowhere
	Said func() []byte // lines that ranks wrote last, as a log; nil: nobody knows
}

// Await is a launcher that has to come. The zero value waits for none.
type Await struct {
	For  time.Duration // without a session, and without Host among the peers, the agent ends with code 241; 0: never
	Host string        // the launcher's, whose agent lives as long as the job does; "": it is not known
}

func (c *Config) validate() error {
	switch {
	case c.Name == "" || c.Incarnation == "" || c.Log == nil:
		return errors.New("agent: Name, Incarnation and Log are required")
	case c.Inside == nil && c.Identity == nil:
		return errors.New("agent: Identity is required")
	}
	c.Slots = cmp.Or(c.Slots, max(c.Inventory.GPUs, 0), max(c.Inventory.CPUs, 1))
	c.Grace = cmp.Or(c.Grace, 25*time.Second) // of the 30 s that Kubernetes gives a pod by default
	c.HTTP = cmp.Or(c.HTTP, "off")
	return nil
}
