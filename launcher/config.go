package launcher

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/frameworks"
	"github.com/mpiup/mpiup/internal/identity"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/network"
	"github.com/mpiup/mpiup/internal/resolve"
	"github.com/mpiup/mpiup/internal/wire"
	"github.com/mpiup/mpiup/launcher/hosts"
	"github.com/mpiup/mpiup/launcher/iof"
	"github.com/mpiup/mpiup/launcher/placement"
	"github.com/mpiup/mpiup/launcher/quorum"
	"github.com/mpiup/mpiup/launcher/survey"
)

// Reach is how agents are found and spoken to; every command needs one.
type Reach struct {
	hosts.Sources
	Identity   *identity.Identity // nil: only the embedded agent can be used
	NoIdentity error              // why there is none, when hosts turn out to need one
	Resolver   *resolve.Resolver  // default: this machine's
	// Embedded serves one session of an agent in this process and returns when the session is
	// over or s has ended. nil: there is none.
	Embedded func(ctx context.Context, s wire.Stream) error
	// Here is that agent, for looks at this host. nil: there is none.
	Here survey.Agent

	Wait        time.Duration // for all hosts to answer; default 5 min
	Insist      bool          // the user said how long: hosts that do not answer are waited for all of it
	WaitBy      string        // what a user sets it with, for messages; default "--wait"
	LocalBy     string        // what a user asks for a run on this host alone with; default "--local"
	Lease       time.Duration // how long an agent keeps ranks of a silent launcher; default 60 s
	NodeTimeout time.Duration // silence after which a host is given up; default 30 s
	Grace       time.Duration // between TERM and KILL after a failure; default 5 s
	TermGrace   time.Duration // between TERM and KILL where the pod is being ended; default 25 s

	Incarnation string // of this container (internal/incarnation)
	Sandbox     string // of its pod (internal/incarnation)
	Version     string // of this build
	Namespace   string // of our pod, for the agents' audit lines
	Pod         string

	Stdout   io.Writer
	Stderr   io.Writer  // mpiup's own lines, and the ranks' standard error
	Terminal bool       // Stderr is a terminal: progress is redrawn in place
	Width    func() int // columns of that terminal; nil: 80
	Log      *slog.Logger
	// TerminationLog gets the last lines of a failure (Kubernetes: /dev/termination-log). It is
	// written only if it exists; "" is nowhere.
	TerminationLog string

	pinned netip.AddrPort // where the only host's agent is, if that is known already
	known  *hosts.Set     // the hosts, if they have been reached already; nil: they are looked for
	// told gets the last lines of a failure and what the rank wrote that it was the fault of. nil: nobody.
	told func(lines, tail []string)
	need quorum.Need // what hosts that are found one by one must be
}

// Config is one run. cmd/mpiup fills it from flags and environment, read once.
type Config struct {
	Reach
	Apps    []job.App
	Policy  placement.Policy
	DryRun  bool // gather and place, print the plan to Stdout, start nothing
	ShowMap bool // print the plan to Stderr before the ranks are started
	// Preflight looks at the hosts of the plan first, and starts nothing where something fails.
	Preflight bool
	// MapOfOpenMPI prints the plan to Stdout instead, as Open MPI's mpirun does, by the rules of Policy.
	MapOfOpenMPI bool
	// ReportBindings prints each rank's CPUs to Stderr when it has started.
	ReportBindings bool
	KeepOn         bool          // a rank's exit code other than 0 ends nothing and is no failure; signals and aborts are
	Recover        bool          // nor are signals, an end without MPI_Finalize, and the loss of a host while ranks run on another
	Linger         bool          // a rank's failure ends nothing; when all have ended, the first counts
	Timeout        time.Duration // for the whole run, from the call of Run; 0: none
	PMI            apiv1.Pmi
	Universe       int // MPI_UNIVERSE_SIZE, or one of Universe...

	NoTopologyHint bool // ranks read /sys themselves

	Net      network.Wish  // for MPI's traffic; zero: each host chooses, if it has several interfaces
	MPIPorts network.Ports // that MPI libraries may listen on; zero: any

	GPUsPerRank int    // GPUs of its host that a rank sees; 0: all
	GPUBind     string // which, as mpiup run --gpu-bind has it; "": in turn

	Expand     bool           // $NAME in the programs' Env is each rank's
	Frameworks frameworks.Set // whose variables the ranks get

	Explain int // 1 + the rank whose environment is printed, in place of running programs; 0: none

	Fabric *apiv1.Fabric // checked by the command line; nil: each host uses what it has

	Output     iof.Config // Mode, Dir, ...; destinations, ranks and hosts are filled in by Run
	SpawnFiles string     // directory below which hostfiles may be that ranks name when they spawn; empty: none are read
	WorkerLogs bool       // agents tee the ranks' output to their own logs too
	// Pty makes each rank's standard output a raw terminal, where it goes nowhere but to our own streams.
	Pty    bool
	Window int // bytes of output one rank may have under way; default 1 MiB, less with many ranks

	Stdin       *os.File // nil: ranks read end of file
	StdinTarget string   // "0" (default), a rank, "all", "none"
	Signals     <-chan os.Signal
}

// Values of Config.Universe that are no numbers. They concern libraries of PMI-1 and PMI-2; those of PMIx are told
// all slots.
const (
	UniverseGiven   = 0  // the slots, where all were given
	UniverseUnknown = -1 // Hydra's INFINITE, and what it says of itself
	UniverseSystem  = -2 // Hydra's SYSTEM: the numbers of hosts, 1 where there is none
)

func (r *Reach) fill() {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&r.Wait, job.DefaultWait)
	r.WaitBy, r.LocalBy = cmp.Or(r.WaitBy, "--wait"), cmp.Or(r.LocalBy, "--local")
	def(&r.Lease, job.DefaultLease)
	def(&r.NodeTimeout, job.DefaultNodeTimeout)
	def(&r.Grace, job.DefaultGrace)
	def(&r.TermGrace, job.DefaultTermGrace)
	if r.Resolver == nil {
		r.Resolver = resolve.New(resolve.Config{Root: r.Root})
	}
	if r.Root == "" {
		r.Root = "/"
	}
	if r.Env == nil {
		r.Env = func(string) string { return "" }
	}
	if r.Environ == nil {
		r.Environ = func() []string { return nil }
	}
	if r.Stdout == nil {
		r.Stdout = io.Discard
	}
	if r.Stderr == nil {
		r.Stderr = io.Discard
	}
	if r.Log == nil {
		r.Log = slog.New(slog.DiscardHandler)
	}
	if r.Width == nil {
		r.Width = func() int { return 80 }
	}
}
