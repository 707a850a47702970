// Package cli is the command line of mpiup run, and the flags that every command shares.
//
//	mpiup run [flags] [--] program [args] [: [-n N] [-x VAR] [--wdir DIR] program [args]] ...
//	          └ first program's -n, -x, --wdir   └ each further program's own
//	            and everything about the run
//
// The first word that is no flag is the program. All after it is the program's own, up to
// a word ":" that begins the next program. -n, -x and --wdir belong to the one program that
// follows them, as with Open MPI and Hydra; all other flags come before the first program.
//
// Use, in this order:
//
//	var f cli.RunFlags
//	f.Register(cmd.Flags())                  // flags, aliases, interspersed off
//	args = cli.Dashes(cmd.Flags(), args)     // "-np 4", "-hostfile f": one dash is enough
//	err = cli.FlagError(cmd.Flags(), err)    // parse errors as sentences
//	err = f.Check()                          // what flags say together
//	apps, warnings, err := f.ParseApps(rest, env)
//
// All errors are the user's (exit code 240). Values are checked when they are set. The package
// reads files only in HostFlags.Entries; environment and directory are handed in. It has no
// goroutines; a RunFlags belongs to one caller.
//
// It does not know the grammars of mpirun, mpiexec and horovodrun, and does not connect or
// place anything.
package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mpiup/mpiup/internal/frameworks"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/layout"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/launcher/iof"
	"github.com/mpiup/mpiup/launcher/progress"
	"github.com/mpiup/mpiup/launcher/run"
	"github.com/mpiup/mpiup/rdma"
)

// aliases are other names of flags; they are accepted everywhere and shown nowhere.
var aliases = map[string]string{
	"hosts":         "host",
	"gpus-per-proc": "gpus-per-rank",
	"n":             "np",
	"tag":           "tag-output",
}

func withAliases(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	if full, ok := aliases[name]; ok {
		name = full
	}
	return pflag.NormalizedName(name)
}

// RunFlags is what the flags of mpiup run said.
type RunFlags struct {
	HostFlags
	LeaseFlags
	run.Wishes          // as far as flags say them, after Check; Policy.Binding is what --map-by and its like said, all of it but the rankfile
	Program    AppFlags // of the first program

	Rankfile      string // "": not given
	DisplayMap    bool
	Local         bool // all ranks on this machine
	Preflight     bool
	RestartBeside time.Duration // of ranks that may still run on a host that is silent
	OnLoss        job.Loss      // of the launcher
	Spares        int           // hosts without ranks, for those that are lost
	MinNP, MaxNP  int           // bounds of how many ranks there are; 0: not given
	LastCall      time.Duration // for more hosts, once there are enough for MinNP

	TerminationLog string     // "": not given
	Report         string     // a folder; "": not given
	Metrics        string     // address; "": none
	Output         iof.Config // its form, and where it goes; after Check with TagOutput in it
	TagOutput      bool
	SpawnFiles     string // "": none
	Pty            bool
	Stdin          string // a rank, all, none
	MPI            string // auto, pmix, pmi1, pmi2, pmi-port, none
	Verbose        int    // times -v was given

	Independent bool       // the ranks are no job: nothing tells them of each other
	Wrap        []job.Tool // programs that start those of some ranks

	Env []string // frameworks, as frameworks.Parse reads them; none: auto

	DryRun  bool
	Picture string // a file for the plan as a picture; "": none
}

// protocols are the values of --mpi.
var protocols = []string{"auto", "pmix", "pmi1", "pmi2", "pmi-port", "none", "native"}

// AppFlags is what may stand before each program.
type AppFlags struct {
	N    int      // ranks; 0: not given
	Env  []string // VAR or VAR=V, as written
	Wdir string   // "": not given

	PreloadBinary bool
	PreloadFiles  []string // lists with commas
}

// Register adds all flags of mpiup run to fs, with their defaults.
func (f *RunFlags) Register(fs *pflag.FlagSet) {
	fs.SortFlags = false
	fs.SetInterspersed(false)
	fs.SetNormalizeFunc(withAliases)

	f.Program.register(fs)
	programFlags.in(fs)
	valueVar(fs, &f.Policy.PerNode, "ppn", "N", parseCount, "start `N` ranks on every host (default: by slots)")
	valueVar(fs, &f.Policy.Binding.Map, "map-by", "", layout.ParseMapBy,
		"the `ORDER` in which ranks are dealt out: slot fills a host before the next, node deals one a host and round again, an object (core, l3cache, numa, socket) fills hosts and goes round its objects, ppr:N:node is -N N, ppr:N:numa N ranks on each; with :PE=n each gets n cores (default: slot)")
	fs.BoolVar(&f.Policy.Oversubscribe, "oversubscribe", false, "allow more ranks than the slots a hostfile or host:N gives")
	placingFlags.in(fs)
	f.registerBinding(fs)
	bindingFlags.in(fs)

	f.HostFlags.Register(fs)
	fs.BoolVar(&f.Local, "local", false, "run all ranks on this machine, whatever hosts the pod is told of")
	hostFlags.in(fs)

	valueVar(fs, &f.MaxRestarts, "max-restarts", "", parseRestarts, "when a rank fails or a host is lost, start all ranks again where they were, `N` times at most; MPIUP_RESTART_COUNT tells them (mpiup help restart) (default 0)")
	valueVar(fs, &f.Spares, "spares", "", parseCount,
		"the last `K` hosts get no ranks until a host is lost; with --max-restarts (default: hosts that -n leaves idle)")
	valueVar(fs, &f.MinNP, "min-np", "", parseCount, "start the ranks again also with fewer, `A` at least, where hosts do not come back, and with more when hosts come; with --max-restarts (mpiup help restart) (default: always -n)")
	valueVar(fs, &f.MaxNP, "max-np", "", parseCount, "with --min-np: `B` ranks at most (default: -n, else all slots of all hosts)")
	DurationVar(fs, &f.LastCall, "last-call", DefaultLastCall, true, "with --min-np: wait for more hosts for `TIME` when there are enough; 0 is not at all")
	DurationVar(fs, &f.RestartBeside, "restart-beside", 0, true, "start ranks again up to `TIME` before those on a host that is silent have surely ended; meanwhile two copies of a rank may run and write one checkpoint; with --max-restarts; 0 is never (default 0)")
	valueVar(fs, &f.OnLoss, "on-launcher-loss", "", parseLoss, "`WHAT` becomes of the ranks when this launcher is lost: fence, they end, and those that wait for another launcher end when this run starts; or hold=TIME, they live on for TIME, and the next launcher with the same command goes on with them (mpiup help restart) (default: they end)")
	restartFlags.in(fs)
	DurationVar(fs, &f.Timeout, "timeout", 0, true, "end the run after `TIME`, with exit code 110; 0 is never (default 0)")
	DurationVar(fs, &f.Stall.After, "stall-timeout", DefaultStall, true, "say so when no rank has shown work for `TIME` (no output, I/O, network traffic, GPU or PMI, and one at least uses no CPU) and who is the odd one out; 0 is never")
	DurationVar(fs, &f.Stall.Init, "init-timeout", 0, true,
		"say so when ranks still wait for others in MPI_Init `TIME` after all have started; 0 is never (default 0)")
	abortVar(fs, &f.Stall.Abort, "on-stall", "what --stall-timeout and --init-timeout do: `WHAT` is notice, or abort, which ends the run with exit code 110")
	w := &f.Stall.Progress
	addVar(fs, &w.Patterns, "watch", "", progress.ParsePattern,
		"read from the ranks' output how far they are: `PATTERN` is a regular expression with named groups, "+
			"'step (?P<step>\\d+).*loss (?P<loss>\\S+)', or "+strings.Join(progress.ReadyNames(), ", ")+", "+progress.OwnFile+
			"; may be repeated (mpiup help progress; mpiup ps --watch is another matter) (default: none)")
	w.Rank = progress.First
	valueVar(fs, &w.Rank, "watch-rank", "", parseWatchRank, "`WHO` --watch reads: a rank, each, or first, the one whose line matches first (default first)")
	DurationVar(fs, &w.Stall, "watch-stall", 0, true, "say so when --watch sees no new step for `TIME`, since its first; 0 is never (default 0)")
	DurationVar(fs, &w.Start, "watch-start", 0, true, "say so when no line has matched --watch `TIME` after the ranks were started; 0 is never (default 0)")
	addVar(fs, &w.Fail, "watch-fail", "", progress.ParseRule,
		"say so when a value of --watch fails: `RULE` is loss=nan, loss>1e4, rate<50%, which is half of its own median; may be repeated (default: none)")
	abortVar(fs, &w.Abort, "on-watch", "what the three above do: `WHAT` is notice, or abort, which ends the run with exit code 110")
	fs.BoolVar(&f.Stall.Watch, "watch-ranks", false, "load a library into the ranks that finds the one that the others wait for in MPI's collectives: "+
		"say which, for how much of the time and why, or why it is not known (mpiup help slow) (default: $MPIUP_WATCH_RANKS, else off)")
	DurationVar(fs, &f.Stall.WatchWindow, "watch-window", DefaultWatch, false, "a rank that is watched is named when it has held up the others for `TIME`")
	DurationVar(fs, &f.TermGrace, "term-grace", 0, false,
		"ranks have `TIME` after SIGTERM to the launcher or to an agent, whoever ends first (default: $MPIUP_POD_GRACE, the pod's own, less 5s; else 25s)")
	valueVar(fs, &f.Preempt.Signal, "preempt-signal", "", job.ParseEndSignal,
		"`SIGNAL` that every rank gets when a pod of the run is taken away, for --term-grace: TERM, INT, HUP, QUIT, USR1, USR2, ALRM or XCPU (default: $MPIUP_PREEMPT_SIGNAL, else TERM)")
	f.LeaseFlags.Register(fs)

	valueVar(fs, &f.Output.Mode, "output", "", outputForm,
		"`FORM` of the ranks' output: plain, tag ([rank] before each line) or json (a line is an object)")
	fs.Lookup("output").DefValue = "plain"
	fs.BoolVar(&f.TagOutput, "tag-output", false, "the same as --output tag")
	funcVar(fs, "tag-with", "",
		"`WHAT` stands in tags behind the rank: host, stream or host,stream (stdout, stderr); the same as --output tag besides (default: nothing)", f.tagWith)
	fs.BoolVar(&f.Output.Timestamps, "timestamp", false, "put the time before each line of output")
	fs.StringVar(&f.Output.Dir, "output-dir", "", "write each rank's output to files under `DIR` too (default: none)")
	fs.BoolVar(&f.Pty, "pty", false,
		"make each rank's standard output a raw terminal: programs then write line by line and lose nothing when they crash (default: $MPIUP_PTY)")
	fs.BoolVar(&f.WorkerLogs, "worker-logs", false, "copy the ranks' output to the worker pods' own logs too")
	valueVar(fs, &f.TerminationLog, "termination-log", "", text("name a file"), "write the verdict on a failed run to `FILE`, which is made where there is none (default: $MPIUP_TERMINATION_LOG, else /dev/termination-log where there is one)")
	valueVar(fs, &f.Report, "report", "", text("name a folder"),
		"write what remains of the run to the folder `DIR` (default: of a failed run a file in $MPIUP_REPORTS, else in the temporary directory; mpiup help report)")
	valueVar(fs, &f.Metrics, "metrics", "", text("name an address"),
		"show Prometheus how the run goes at http://`ADDRESS`/metrics, as in :7613 (default: $MPIUP_METRICS, else nowhere; mpiup help monitoring)")
	f.Stdin = "0"
	valueVar(fs, &f.Stdin, "stdin", "", parseStdin, "`WHO` reads standard input: a rank, all or none (default 0)")
	outputFlags.in(fs)
	f.MPI = "auto"
	valueVar(fs, &f.MPI, "mpi", "", oneOf(protocols...),
		"the `PROTOCOL` that ranks speak: auto (each host looks at the program), pmix (Open MPI), pmi1 (MPICH, Intel MPI, MVAPICH), pmi2, pmi-port (PMI-1 over TCP, where descriptors are closed) or none; native is the image's own mpirun, over mpiup's ssh (default: $MPIUP_MPI, else auto)")
	fs.BoolVar(&f.NoTopologyHint, "no-topology-hint", false,
		"let ranks read the machine from /sys themselves (default: they are handed it, HWLOC_XMLFILE, and start faster)")
	fs.BoolVar(&f.AloneOK, "alone-ok", false,
		"ranks that call MPI_Init and reach nobody, each alone as rank 0 of 1, are meant: several of them are a failure otherwise, exit code 247 (default: $MPIUP_ALONE_OK, else off)")
	valueVar(fs, &f.SpawnFiles, "spawn-hostfiles", "", text("name a directory"),
		"let ranks that spawn name hostfiles below `DIR` (default: $MPIUP_SPAWN_HOSTFILES, else none is read)")
	libraryFlags.in(fs)
	valueVar(fs, &f.GPUs.PerRank, "gpus-per-rank", "", parseCount, "let each rank see `N` of its host's GPUs, the next ranks the next (default: all see all)")
	valueVar(fs, &f.GPUs, "gpu-bind", "", parseGPUBind(&f.GPUs),
		"`WHICH` GPUs a rank sees: closest to its CPUs, map:0,1,... or mask:0x3,0xc,... by local rank (default: in turn)")
	gpuFlags.in(fs)
	valueVar(fs, &f.Net, "net", "", given(job.ParseNetwork, "name an interface or a network"),
		"`IFACE` or network (10.98.0.0/16) for MPI's own traffic, found on each host (default: $MPIUP_NET; of several the RDMA-backed secondary one, else that of the default route)")
	valueVar(fs, &f.MPIPorts, "mpi-ports", "", given(job.ParsePorts, "write a range as 18000-18999"),
		"TCP ports `A-B` that MPI libraries may listen on, at least one for each rank of a host, so that a NetworkPolicy can name them (default: $MPIUP_MPI_PORTS, else any)")
	valueVar(fs, &f.Fabric.Fabric, "fabric", "", given(rdma.ParseFabric, "choose auto, rdma or tcp"),
		"`KIND` of network between hosts: auto, rdma (a host without a usable RDMA device is an error) or tcp (no RDMA device is used) (default: $MPIUP_FABRIC, else auto)")
	valueVar(fs, &f.Fabric.NCCL, "nccl", "", given(rdma.ParseNCCL, "write parts as p2p=off,ib=off"),
		"switch `PARTS` of NCCL, p2p, ib or shm, as in p2p=off,ib=off (default: $MPIUP_NCCL)")
	fs.BoolVar(&f.Fabric.NoHints, "no-transport-hints", false,
		"let Open MPI try transports that cannot work on the host (default: without a fabric it is told so, OMPI_MCA_pml and OMPI_MCA_btl, and starts faster)")
	networkFlags.in(fs)
	fs.StringArrayVar(&f.Env, "env", nil,
		"give the ranks the variables of `FRAMEWORK`: torch (Lightning, Accelerate and DeepSpeed too), jax, horovod (by Gloo), tf, none, or auto (torch, jax, and Horovod as it was built); may be repeated (default: $MPIUP_ENV, else auto)")
	fs.BoolVar(&f.Independent, "independent", false,
		"start programs that know nothing of each other (sweeps, rollouts): no MPI, no framework's variables, and one that fails ends no other")
	libraryFlags.in(fs)
	addVar(fs, &f.Wrap, "wrap", "", parseTool, "start the programs of `RANKS`, 0,4-7 or all, with a command of the next word before them: --wrap 0 'nsys profile -o /tmp/r0'; may be repeated, the first that names a rank counts (default: none)")
	valueVar(fs, &f.Preempt.CheckpointDir, "checkpoint-dir", "", ParseCheckpointDir, "ranks save in `DIR`, which they know as $MPIUP_CHECKPOINT_DIR; each host makes it where it is missing and must be able to write there (default: $MPIUP_CHECKPOINT_DIR, else none)")
	fs.BoolVar(&f.Expand, "expand", false, "put each rank's own variables in the place of $NAME and ${NAME} in values of -x, as in -x 'LOG=/tmp/$MPIUP_RANK.log'")
	programFlags.in(fs)
	fs.BoolVar(&f.DryRun, "dry-run", false, "print which rank would run where, and start nothing")
	PictureVar(fs, &f.Picture,
		"with --dry-run draw the plan in `FILE` (- for standard output): hosts with CPUs, GPUs and HCAs, and what of them each rank would have (default: no file)")
	fs.BoolVar(&f.Preflight, "preflight", false,
		"look at the plan's hosts first, as mpiup doctor does: print warnings, and exit with 1 instead of starting where something fails")
	planFlags.in(fs)
	fs.CountVarP(&f.Verbose, "verbose", "v", "say more of what mpiup does; twice for debugging")
	otherFlags.in(fs)
	planFlags.of(fs, "display-map")
	commonFlags.of(fs, "np", "ppn", "host", "hostfile", "export", "wdir", "bind-to", "tag-output", "timeout", "verbose")
}

// register adds what may stand before each program.
func (a *AppFlags) register(fs *pflag.FlagSet) {
	valueVar(fs, &a.N, "np", "n", parseCount, "start `N` ranks of the program (default: one a slot)")
	ExportVar(fs, &a.Env, "give the ranks `VAR[=V]`; without =V this command's own value; may be repeated (default: NCCL_* and its like that are set for this command, mpiup help environment)")
	valueVar(fs, &a.Wdir, "wdir", "", text("name a directory"), "working `DIR` of the ranks (default: this one, where a host has it)")
	fs.BoolVar(&a.PreloadBinary, "preload-binary", false, "copy the program to the hosts, where its ranks run in a directory of the session's; gone at the end")
	fs.StringArrayVar(&a.PreloadFiles, "preload-files", nil,
		"copy `FILES`, with commas between, to the hosts: a relative name to $MPIUP_FILES there, an absolute one to its place; gone at the end (default: none)")
}

func (f *RunFlags) tagWith(s string) error {
	for w := range strings.SplitSeq(s, ",") {
		switch w {
		case "host":
			f.Output.TagHost = true
		case "stream":
			f.Output.TagStream = true
		default:
			return fmt.Errorf("%s is not known; use host, stream or host,stream", visible.Clip(w))
		}
	}
	return nil
}

// RegisterCompletion offers the values of flags to the shell.
func (f *RunFlags) RegisterCompletion(cmd *cobra.Command) error {
	for name, values := range map[string][]string{
		"map-by":         {"slot", "node", "ppr:", "core", "l3cache", "numa", "socket"},
		"rank-by":        {"slot", "node", "core", "numa", "socket"},
		"bind-to":        {"none", "hwthread", "core", "l3cache", "numa", "socket"},
		"output":         {"plain", "tag", "json"},
		"stdin":          {"0", "all", "none"},
		"preempt-signal": {"TERM", "INT", "HUP", "QUIT", "USR1", "USR2", "ALRM", "XCPU"},
		"mpi":            protocols,
		"gpu-bind":       {"closest", "map:", "mask:"},
		"env":            frameworks.Words(),
	} {
		if err := cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
			return err
		}
	}
	for _, name := range []string{"wdir", "output-dir", "checkpoint-dir", "tls-dir", "spawn-hostfiles"} {
		if err := cmd.MarkFlagDirname(name); err != nil {
			return err
		}
	}
	return nil
}

// RunExample is the examples in the help of mpiup run.
const RunExample = `  mpiup run -n 4 ./a.out                       # on this machine, or the pod's hosts
  mpiup run ./train.sh                         # one rank a slot
  mpiup run -n 16 --host w0:8,w1:8 ./train     # 8 slots on each of two hosts
  mpiup run --hostfile hosts -N 1 hostname     # one rank on every host
  mpiup run -n 8 -x NCCL_DEBUG=INFO -x PATH ./train
  mpiup run -n 1 ./master : -n 15 ./worker     # two programs, one job
  mpiup run -n 16 --dry-run ./train            # show which rank goes where
  mpiup run -n 16 --map-by numa --bind-to core --report-bindings ./train
  mpiup run --tag-output --timeout 1h ./train`
