package launcher

import (
	"context"
	"log/slog"
	"os"
	"time"

	"github.com/mpiup/mpiup/gpu"
	"github.com/mpiup/mpiup/internal/frameworks"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/network"
	"github.com/mpiup/mpiup/launcher/iof"
	"github.com/mpiup/mpiup/launcher/metrics"
	"github.com/mpiup/mpiup/launcher/placement"
	"github.com/mpiup/mpiup/launcher/reach"
	"github.com/mpiup/mpiup/launcher/remains"
	"github.com/mpiup/mpiup/launcher/run"
	"github.com/mpiup/mpiup/rdma"
)

// Config is one run. cmd/mpiup fills it from flags and environment, read once.
type Config struct {
	reach.Reach
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
	MaxRestarts    int           // how often ranks that failed are started again; 0: never
	Spares         int           // hosts that get no ranks before another host is lost, with MaxRestarts
	Timeout        time.Duration // for the whole run, from the call of Run; 0: none
	Preempt        job.Preempt
	Stall          StallConfig
	PMI            job.Protocol
	Universe       int // MPI_UNIVERSE_SIZE, or one of Universe...

	NoTopologyHint bool // ranks read /sys themselves

	Net      network.Wish  // for MPI's traffic; zero: each host chooses, if it has several interfaces
	MPIPorts network.Ports // that MPI libraries may listen on; zero: any

	GPUs gpu.Wish // of its host that a rank sees; zero: all

	Expand     bool           // $NAME in the programs' Env is each rank's
	Frameworks frameworks.Set // whose variables the ranks get
	Nodes      int            // above 1: frameworks count the job, which is on one host, as one of so many of its size; each is a run of its own
	Node       int            // which

	Explain int // 1 + the rank whose environment is printed, in place of running programs; 0: none

	Fabric rdma.Wish

	Output     iof.Config // Mode, Dir, ...; destinations, ranks and hosts are filled in by Run
	SpawnFiles string     // directory below which hostfiles may be that ranks name when they spawn; empty: none are read
	WorkerLogs bool       // agents tee the ranks' output to their own logs too
	// Pty makes each rank's standard output a raw terminal, where it goes nowhere but to our own streams.
	Pty    bool
	Window int // bytes of output one rank may have under way; default 1 MiB, less with many ranks

	Report  remains.Config
	Metrics *metrics.Metrics // nil: nobody is shown any

	Stdin       *os.File // nil: ranks read end of file
	StdinTarget string   // "0" (default), a rank, "all", "none"
	Signals     <-chan os.Signal
}

// Values of Config.Universe that are no numbers, in the words of Hydra.
const (
	UniverseUnknown = run.UniverseUnknown
	UniverseSystem  = run.UniverseSystem
)

// StallConfig is what is done about a run that hangs.
type StallConfig = run.StallConfig

// pty says that ranks write to terminals: Pty is set, and their output is for somebody who reads along. Files
// and JSON get pipes, to which programs write in larger pieces and without colours.
func (c *Config) pty() bool {
	o := &c.Output
	return c.Pty && o.Mode != iof.JSON && o.Dir == "" && o.Files == [2]iof.Pattern{}
}

// forRun is what the run itself needs to know of the user's wishes.
func (c *Config) forRun() run.Config {
	return run.Config{
		Apps: c.Apps, Policy: c.Policy, ReportBindings: c.ReportBindings, KeepOn: c.KeepOn, Recover: c.Recover, Linger: c.Linger, Expand: c.Expand,
		Nodes: c.Nodes, Node: c.Node, Timeout: c.Timeout, Stall: c.Stall, Grace: c.Grace, TermGrace: c.TermGrace, Preempt: c.Preempt, PMI: c.PMI, Universe: c.Universe,
		NoTopologyHint: c.NoTopologyHint, WorkerLogs: c.WorkerLogs, Net: c.Net, MPIPorts: c.MPIPorts, GPUs: c.GPUs,
		Frameworks: c.Frameworks, Explain: c.Explain, Fabric: c.Fabric, Window: c.Window, MaxRestarts: c.MaxRestarts, Version: c.Version,
		Pty: c.pty(), Pod: c.Pod, SpawnFiles: c.SpawnFiles != "", Verbose: c.Log.Enabled(context.Background(), slog.LevelInfo), Self: c.Self,
	}
}
