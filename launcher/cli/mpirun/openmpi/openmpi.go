// Package openmpi is the command line of Open MPI's mpirun, orterun and prterun: its options, the parameters of its
// launcher (--mca, OMPI_MCA_ and PRTE_MCA_ variables, files of --am and --tune), --app and --map-by seq.
//
// PURE: each line is read by a parser of its own, which nobody shares. The package maps and binds no rank.
package openmpi

import (
	"errors"
	"fmt"
	"strings"

	"github.com/mpiup/mpiup/internal/hostlist"
	"github.com/mpiup/mpiup/launcher/cli/mpirun/line"
)

// parser reads one line.
type parser struct {
	line.Parser

	params map[param]string // given on the command line, without quotes
	tuned  []string         // files of parameters

	seqFile       string // of --map-by seq:FILE=; "": none
	seqMapper     bool   // --mca rmaps seq
	kernelNumbers bool   // CPUs in rankfiles are the kernel's
}

// Parse reads the words after the launcher's own name. owner tells whose an unknown option is. Errors are the user's.
func Parse(args []string, o line.Outside, owner func(option string) line.Family) (line.Line, error) {
	p := &parser{params: map[param]string{}}
	rules := line.Rules{Family: line.OpenMPI, Dialect: hostlist.OpenMPI, Rows: p.rows(), Owner: owner,
		ReadPrograms: p.programs, Hosts: p.hosts}
	return p.Read(rules, args, o, p.Appfile, p.tune, p.TimeLimit, p.parameters, p.Hosts, p.sequence, p.binds, p.Settle, p.settle)
}

// Rows are all options.
func Rows() []line.Row { return new(parser).rows() }

// settle takes the last steps, with each program's variables known.
func (p *parser) settle() error {
	if p.Line.OutputDir != "" {
		p.Line.OutputDir = p.Absolute(p.Line.OutputDir)
	}
	for i := range p.Line.Contexts {
		p.setPrefix(&p.Line.Contexts[i])
	}
	return nil
}

// rows are mpirun's options of Open MPI 4.1 (orte/mca/schizo/ompi) and 5.0 (schizo/ompi of
// PRRTE 3).
func (p *parser) rows() []line.Row {
	rows := append(p.placement(), p.outputs()...)
	return append(append(append(rows, p.variables()...), p.rest()...), p.Common()...)
}

func (p *parser) placement() []line.Row {
	return []line.Row{
		{Names: "c", Args: 1, Level: line.Done, Local: true, Means: "as `-n`", Set: p.Ranks},
		{Names: "host H", Args: 1, Level: line.Done, Local: true, Set: p.OwnList,
			Means: "the hosts: each bare mention is a slot, `:N` is N, `:*` what the hostfile or the host itself says; with a hostfile it chooses from that. The job has the hosts of all programs' lists; a program without a list may use all"},
		{Names: "hostfile machinefile default-hostfile", Args: 1, Level: line.Done, Means: "file with the hosts, `name slots=N` a line", Set: p.File},
		{Names: "map-by", Args: 1, Level: line.Done, Set: p.mapBy,
			Means: "`slot`, `node`, `hwthread`, `core`, `l1cache` to `l3cache`, `numa`, `socket` (`package`), `ppr:N:OBJECT`, `rankfile`, `seq` (a rank on each mention of a host or each line of the hostfile, which may list its CPUs; `seq:FILE=`); modifiers `PE=n`, `span`, `oversubscribe`, `nooversubscribe`, `nolocal`, `hwtcpus`, `PE-LIST=`, `ordered`, `FILE=`. `dist` is refused ([binding.md](binding.md))"},
		{Names: "rank-by", Args: 1, Level: line.Done, Set: p.rankBy,
			Means: "`slot`, `fill`, `node`, or an object, over whose kind numbers go round within a host, with `:span` over all hosts"},
		{Names: "N npernode", Args: 1, Level: line.Done, Means: "so many ranks on every host", Set: p.perNode},
		{Names: "pernode", Level: line.Done, Means: "one rank on every host", Set: func(_ []string) error { return p.perNode([]string{"1"}) }},
		{Names: "ppr", Args: 1, Level: line.Done, Means: "`N:node`, as `--map-by ppr:N:node`", Set: func(v []string) error {
			return p.mapBy([]string{"ppr:" + v[0]})
		}},
		{Names: "oversubscribe", Level: line.Done, Means: "slots are no limit", Set: p.On(func(l *line.Line) { l.Oversubscribe = true })},
		{Names: "nooversubscribe", Level: line.Done, Means: "slots are a limit (so anyway)", Set: p.On(func(l *line.Line) { l.Oversubscribe = false })},
		{Names: "nolocal", Level: line.Done, Means: "no rank on the launcher's own host", Set: p.On(func(l *line.Line) { l.NoLocal = true })},
		{Names: "bynode", Level: line.Done, Means: "as `--map-by node`", Set: line.As(p.mapBy, "node")},
		{Names: "byslot", Level: line.Done, Means: "as `--map-by slot`", Set: line.As(p.mapBy, "slot")},
		{Names: "bycore", Level: line.Done, Means: "as `--map-by core`", Set: line.As(p.mapBy, "core")},
		{Names: "bysocket", Level: line.Done, Means: "as `--map-by socket`", Set: line.As(p.mapBy, "socket")},
		{Names: "npersocket", Args: 1, Level: line.Done, Means: "as `--map-by ppr:N:socket`", Set: p.perSocket},
		{Names: "cpus-per-proc cpus-per-rank", Args: 1, Level: line.Done, Means: "as `--map-by :PE=N`", Set: p.cpusPerRank},
		{Names: "bind-to binding", Args: 1, Level: line.Done, Set: p.bindTo,
			Means: "`none`, `hwthread`, `core`, `l1cache` to `l3cache`, `numa`, `socket` (`package`), `cpu-list[:ordered]`; `:overload-allowed`. By default nothing is bound that others may use ([binding.md](binding.md))"},
		{Names: "bind-to-core", Level: line.Done, Means: "as `--bind-to core`", Set: line.As(p.bindTo, "core")},
		{Names: "bind-to-socket", Level: line.Done, Means: "as `--bind-to socket`", Set: line.As(p.bindTo, "socket")},
		{Names: "use-hwthread-cpus", Level: line.Done, Means: "hardware threads count as CPUs, not cores", Set: p.On(func(l *line.Line) { l.Binding.HWThreads = true })},
		{Names: "rankfile rf", Args: 1, Level: line.Done, Means: "file with the host and CPUs of each rank; its hosts are the job's where nothing else names any", Set: p.rankFile},
		{Names: "cpu-set cpu-list", Args: 1, Level: line.Done, Set: p.cpuSet,
			Means: "ranks get only these CPUs of each host: logical numbers of cores, `1:0-3` of a socket's, `p0-3` the kernel's"},
		{Names: "app", Args: 1, Level: line.Done, Means: "file with a program and its options a line, without quotes", Set: p.ProgramFile},
	}
}

func (p *parser) outputs() []line.Row {
	return []line.Row{
		{Names: "tag-output", Level: line.Done, Means: "`[1,rank]<stdout>:` before every line, with a blank behind it as of Open MPI 5", Set: p.On(func(l *line.Line) { l.TagOutput = true })},
		{Names: "timestamp-output", Level: line.Done, Means: "the time before every line", Set: p.On(func(l *line.Line) { l.Timestamps = true })},
		{Names: "merge-stderr-to-stdout", Level: line.Done, Means: "one stream for both", Set: p.On(func(l *line.Line) { l.Merge = true })},
		{Names: "output-filename", Args: 1, Level: line.Done, Set: p.outputName,
			Means: "`DIR[:nojobid][,nocopy]`: a directory with DIR/1/rank.N/stdout and stderr, and a copy on the terminal. With Open MPI 5 files FILE.prterun-HOST-PID@1.N.out and .err instead, and no copy"},
		{Names: "output-directory", Args: 1, Level: line.Done, Set: p.outputDir, Means: "as `--output directory=DIR`"},
		{Names: "output", Args: 1, Level: line.Done, Set: p.output,
			Means: "`tag`, `timestamp`, `merge-stderr-to-stdout`, `directory=DIR` (DIR/prterun-HOST-PID@1/rank.N/stdout and stderr), `file=NAME` (as `--output-filename`) and their beginnings. Nothing of what is in files is on the terminal. Others are refused (Open MPI 5)"},
		{Names: "stdin", Args: 1, Level: line.Done, Means: "who reads the launcher's standard input: a rank, `all` or `none`", Set: p.Stdin},
		{Names: "display-map", Level: line.Done, Means: "shows hosts, ranks and their CPUs as Open MPI does", Set: p.On(func(l *line.Line) { l.DisplayMap = true })},
		{Names: "display", Args: 1, Level: line.Done, Means: "`map`, `bind`; others have no effect (Open MPI 5)", Set: p.display},
		{Names: "quiet q", Level: line.Done, Means: "no warnings", Set: p.On(func(l *line.Line) { l.Quiet = true })},
		{Names: "display-allocation display-devel-map display-devel-allocation display-diffable-map display-topo output-proctable show-progress", Level: line.NoEffect,
			Means: "`--display-map` shows the plan"},
		{Names: "xml", Level: line.NoEffect, Set: p.xml, Means: "output stays as ranks write it, which is said; `mpiup run --output json` has an object a line"},
		{Names: "xml-file xterm", Args: 1, Level: line.Refused, Means: "use --output-filename DIR, or mpiup run --output json"},
		{Names: "stream-buffering", Args: 1, Level: line.NoEffect, Means: "ranks' output is shown line by line"},
	}
}

func (p *parser) variables() []line.Row {
	return []line.Row{
		{Names: "x", Args: 1, Level: line.Done, Local: true, Means: "gives ranks a variable: `NAME` (the launcher's value), `NAME=value`, `PREFIX*`", Set: p.export},
		{Names: "mca omca", Args: 2, Level: line.Done, Local: true, Set: p.setParam,
			Means: "a parameter, `OMPI_MCA_NAME` for the ranks, before the first program for those of all; those of the launcher are listed below"},
		{Names: "gmca gomca", Args: 2, Level: line.Done, Means: "a parameter for all programs", Set: p.globalParam},
		{Names: "prtemca gprtemca", Args: 2, Level: line.Done, Means: "a parameter of the launcher alone", Set: p.prteParam},
		{Names: "pmixmca gpmixmca", Args: 2, Level: line.Done, Local: true, Means: "`PMIX_MCA_NAME` for the ranks", Set: p.pmixParam},
		{Names: "prefix", Args: 1, Level: line.Done, Local: true, Set: func(v []string) error { p.Ctx.Prefix = v[0]; return nil },
			Means: "`DIR/bin` and `DIR/lib` come first in `PATH` and `LD_LIBRARY_PATH` of ranks, before what `-x` gives or the launcher has"},
		{Names: "am amca tune", Args: 1, Level: line.Done, Set: p.paramFiles,
			Means: "files of parameters, `FILE,...`: lines `name = value`, or options `--mca name value` and `-x NAME=value`; the environment and the command line come before them"},
		{Names: "path", Args: 1, Level: line.Done, Local: true, Set: p.SearchPath, Means: "directories in which hosts look for the program before those of `PATH`"},
		{Names: "fwd-environment", Level: line.Done, Means: "the launcher's environment goes along as with Hydra's launcher, see above (Open MPI 5)", Set: p.On(func(l *line.Line) { l.ForwardAll = true })},
		{Names: "preload-binary s", Level: line.Done, Local: true, Set: p.PreloadBinary,
			Means: "copies the program to the hosts, into the session's directory, in which its ranks run without `--wdir`; gone at the end"},
		{Names: "preload-files", Args: 1, Level: line.Done, Local: true, Set: p.PreloadFiles,
			Means: "copies `FILE,...` to the hosts: a relative name to `$OMPI_FILE_LOCATION` there, an absolute one to its place, where no other file may be; gone at the end"},
		{Names: "set-cwd-to-session-dir", Level: line.Done, Local: true, Set: func(_ []string) error { p.Ctx.SessionDir = true; return nil },
			Means: "ranks run in the session's directory, one a host"},
	}
}

func (p *parser) rest() []line.Row {
	return []line.Row{
		{Names: "timeout", Args: 1, Level: line.Done, Means: "ends the job after so many seconds, code 110; also `MPIEXEC_TIMEOUT`", Set: p.Timeout},
		{Names: "do-not-launch", Level: line.Done, Means: "as `--dry-run`", Set: p.On(func(l *line.Line) { l.DryRun = true })},
		{Names: "runtime-options rtos", Args: 1, Level: line.Done, Set: p.runtime,
			Means: "`error-nonzero-status=0`: a rank's exit code other than 0 ends nothing; `donotlaunch`; some have no effect, others are refused (Open MPI 5)"},
		{Names: "allow-run-as-root", Level: line.NoEffect, Means: "root may run what an agent runs as"},
		{Names: "noprefix disable-recovery debug-daemons d debug-devel debug-daemons-file leave-session-attached novm use-regexp enable-instant-on-support do-not-resolve fwd-mpirun-port uniform-nodes hetero-nodes no-aggregate-help parseable parsable p report-state-on-timeout get-stack-traces", Level: line.NoEffect,
			Means: "of Open MPI's own daemons and reports"},
		{Names: "personality launch-agent max-vm-size tmpdir cartofile cf forward-signals spawn-timeout memory-alloc-kinds pset", Args: 1, Level: line.NoEffect,
			Means: "of Open MPI's own daemons and files"},
		{Names: "enable-recovery continuous", Level: line.Done, Set: p.On(func(l *line.Line) { l.Recover = true }),
			Means: "a rank that fails, or a host that is lost, ends nothing and the job's code is 0, unless it calls `MPI_Abort`, others wait for it in `MPI_Init`, or no rank is left"},
		{Names: "max-restarts", Args: 1, Level: line.Refused, Means: "ranks are not started again: let the launcher's Job do it (backoffLimit)"},
		{Names: "report-child-jobs-separately", Level: line.Refused, Means: "spawned jobs count for the exit code"},
		{Names: "index-argv-by-rank", Level: line.Done, Local: true, Means: "a program sees its own name with `-RANK` behind it", Set: func(_ []string) error { p.Ctx.IndexArgv = true; return nil }},
		{Names: "debug tv debugger stop-on-exec stop-in-init stop-in-app", Level: line.Refused, Means: "debuggers are not started: use mpiup exec HOST -- gdb -p PID"},
		{Names: "report-pid", Args: 1, Level: line.Done, Means: "writes the launcher's pid to standard output (`-`), to standard error (`+`) or to a file", Set: p.reportPID},
		{Names: "report-uri", Args: 1, Level: line.Refused,
			Means: "it is the address of Open MPI's own server, for --ompi-server and --hnp of others, and there is no such server; a script that waits for the launcher can wait for the file of --report-pid"},
		{Names: "report-events", Args: 1, Level: line.Refused, Means: "there is no such server: mpiup run --output json tells of events"},
		{Names: "ompi-server hnp dvm-uri", Args: 1, Level: line.Refused, Means: "there is no other server to join: jobs of one mpirun find each other's names"},
		{Names: "dvm terminate", Level: line.Refused, Means: "the agents stay between jobs; nothing has to be started or ended"},
		{Names: "with-ft", Args: 1, Level: line.Refused, Means: "a rank that fails ends the job"},
		{Names: "initial-errhandler gpu-support", Args: 1, Level: line.Refused, Means: "write the parameter of the MPI library, --mca NAME VALUE"},
		{Names: "display-comm display-comm-finalize", Level: line.Refused, Means: "write --mca ompi_display_comm mpi_init or mpi_finalize"},
		{Names: "soft arch file", Args: 1, Level: line.Refused, Means: "Open MPI does not do it either"},
	}
}

// runtime is Open MPI 5's --runtime-options LIST.
func (p *parser) runtime(v []string) error {
	for item := range strings.SplitSeq(strings.ToLower(v[0]), ",") {
		name, value, given := strings.Cut(item, "=")
		yes := !given || truth(value)
		switch name {
		case "error-nonzero-status", "abort-nonzero-status":
			p.Line.KeepOn = !yes
		case "donotlaunch":
			p.Line.DryRun = yes
		case "fwd-environment", "forward-environment":
			p.Line.ForwardAll = yes
		case "recoverable", "continuous":
			p.Line.Recover = yes
		case "show-progress", "aggregate-help-messages":
			p.Without("--runtime-options " + item)
		default:
			return unknownItem(item, "error-nonzero-status and donotlaunch")
		}
	}
	return nil
}

// programs reads --app, a program a line. "#" begins a comment, and "//" too (parse_appfile of orterun).
func (p *parser) programs(file, text string) error {
	n := 0
	for l := range strings.Lines(text) {
		n++
		l, _, _ = strings.Cut(l, "#")
		l, _, _ = strings.Cut(l, "//")
		words := strings.Fields(l)
		if len(words) == 0 {
			continue
		}
		p.First = len(p.Line.Contexts) == 0
		err := p.Program(words)
		if err == nil && len(p.Ctx.Argv) == 0 {
			err = errors.New("no program is named")
		}
		if err != nil {
			return fmt.Errorf("%s line %d: %w", file, n, err)
		}
		p.Line.Contexts = append(p.Line.Contexts, p.Ctx)
	}
	return nil
}
