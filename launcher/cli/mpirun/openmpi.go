package mpirun

import (
	"errors"
	"fmt"
	"strings"

	"github.com/mpiup/mpiup/internal/hostlist"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher/cli/mpirun/line"
)

// openMPIParser reads one line of Open MPI's mpirun, orterun or prterun: its options, the parameters of its launcher (--mca, OMPI_MCA_ and PRTE_MCA_
// variables, files of --am and --tune), --app and --map-by seq.
type openMPIParser struct {
	line.Parser

	params  map[param]string // given on the command line, without quotes
	globals map[string]bool  // of these, parameters that --gmca alone has given
	tuned   []string         // files of parameters

	seqFile       string // of --map-by seq:FILE=; "": none
	seqMapper     bool   // --mca rmaps seq
	kernelNumbers bool   // CPUs in rankfiles are the kernel's
}

// parseOpenMPI reads the words after the launcher's own name. program is that of a line on which no program stands; nil:
// they stand there. Errors are the user's.
func parseOpenMPI(args, program []string, o line.Outside) (line.Line, error) {
	p := &openMPIParser{params: map[param]string{}, globals: map[string]bool{}}
	rules := line.Rules{Family: line.OpenMPI, Dialect: hostlist.OpenMPI, Rows: p.rows(), Other: func() []line.Row { return rowsOf(line.Hydra) },
		Program: program, ReadPrograms: p.programs, Hosts: placing{p}.hosts}
	return p.Read(rules, args, o, p.Appfile, p.tune, p.TimeLimit, p.parameters, p.Hosts, placing{p}.sequence, placing{p}.binds, p.Settle, p.settle)
}

// settle takes the last steps, with each program's variables known.
func (p *openMPIParser) settle() error {
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
func (p *openMPIParser) rows() []line.Row {
	rows := append(placing{p}.rows(), printing{p}.rows()...)
	return append(append(append(rows, p.variables()...), p.rest()...), p.Common()...)
}

func (p *openMPIParser) variables() []line.Row {
	return []line.Row{
		{Names: "x", Args: 1, Level: line.Done, Local: true, Means: "gives ranks a variable: `NAME` (the launcher's value), `NAME=value`, `PREFIX*`", Set: p.export},
		{Names: "mca omca", Args: 2, Level: line.Done, Local: true, Set: p.setParam,
			Means: "a parameter, `OMPI_MCA_NAME` for the ranks, before the first program for those of all; those of the launcher are listed below"},
		{Names: "gmca gomca", Args: 2, Level: line.Done, Local: true, Set: p.globalParam,
			Means: "a parameter for all programs, where `--mca` has no other; behind a `:` it has no effect, as in Open MPI, which is said"},
		{Names: "prtemca gprtemca", Args: 2, Level: line.Done, Means: "a parameter of the launcher alone", Set: p.prteParam},
		{Names: "pmixmca gpmixmca", Args: 2, Level: line.Done, Local: true, Means: "`PMIX_MCA_NAME` for the ranks", Set: p.pmixParam},
		{Names: "prefix", Args: 1, Level: line.Done, Local: true, Set: func(v []string) error { p.Ctx.Prefix = v[0]; return nil },
			Means: "`DIR/bin` and `DIR/lib` come first in `PATH` and `LD_LIBRARY_PATH` of ranks, before what `-x` gives or the launcher has"},
		{Names: "am amca tune", Args: 1, Level: line.Done, Set: p.paramFiles,
			Means: "files of parameters, `FILE,...`: lines `name = value`, or options `--mca name value` and `-x NAME=value`; the environment and the command line come before them"},
		{Names: "path", Args: 1, Level: line.Done, Local: true, Set: p.SearchPath(), Means: "directories in which hosts look for the program before those of `PATH`"},
		{Names: "fwd-environment", Level: line.Done, Means: "the launcher's environment goes along as with Hydra's launcher, see above (Open MPI 5)",
			Set: line.True(&p.Line.ForwardAll)},
		{Names: "preload-binary s", Level: line.Done, Local: true, Set: line.True(&p.Ctx.PreloadBinary),
			Means: "copies the program to the hosts, into the session's directory, in which its ranks run without `--wdir`; gone at the end"},
		{Names: "preload-files", Args: 1, Level: line.Done, Local: true, Set: p.PreloadFiles,
			Means: "copies `FILE,...` to the hosts: a relative name to `$OMPI_FILE_LOCATION` there, an absolute one to its place, where no other file may be; gone at the end"},
		{Names: "set-cwd-to-session-dir", Level: line.Done, Local: true, Set: line.True(&p.Ctx.SessionDir),
			Means: "ranks run in the session's directory, one a host"},
	}
}

func (p *openMPIParser) rest() []line.Row {
	return []line.Row{
		{Names: "timeout", Args: 1, Level: line.Done, Means: "ends the job after so many seconds, code 110; also `MPIEXEC_TIMEOUT`", Set: p.Timeout},
		{Names: "do-not-launch", Level: line.Done, Means: "as `--dry-run`", Set: line.True(&p.Line.DryRun)},
		{Names: "runtime-options rtos", Args: 1, Level: line.Done, Set: p.runtime,
			Means: "`error-nonzero-status=0`: a rank's exit code other than 0 ends nothing; `donotlaunch`; some have no effect, others are refused (Open MPI 5)"},
		{Names: "allow-run-as-root", Level: line.NoEffect, Means: "root may run what an agent runs as"},
		{Names: "noprefix disable-recovery debug-daemons d debug-devel debug-daemons-file leave-session-attached novm use-regexp enable-instant-on-support do-not-resolve fwd-mpirun-port uniform-nodes hetero-nodes no-aggregate-help parseable parsable p report-state-on-timeout get-stack-traces", Level: line.NoEffect,
			Means: "of Open MPI's own daemons and reports"},
		{Names: "personality launch-agent max-vm-size tmpdir cartofile cf forward-signals spawn-timeout memory-alloc-kinds pset", Args: 1, Level: line.NoEffect,
			Means: "of Open MPI's own daemons and files"},
		{Names: "enable-recovery continuous", Level: line.Done, Set: line.True(&p.Line.Recover),
			Means: "a rank that fails, or a host that is lost, ends nothing and the job's code is 0, unless it calls `MPI_Abort`, others wait for it in `MPI_Init`, or no rank is left"},
		{Names: "max-restarts", Args: 1, Level: line.Done, Means: "when a rank fails or a host is lost, all ranks are started again, so often at most; not with `--enable-recovery`, and standard input is for no rank (`--stdin none`)",
			Set: func(v []string) (err error) {
				p.Line.MaxRestarts, err = line.Number(v[0], 0, job.MaxRestarts)
				return err
			}},
		{Names: "report-child-jobs-separately", Level: line.Refused, Means: "spawned jobs count for the exit code"},
		{Names: "index-argv-by-rank", Level: line.Done, Local: true, Means: "a program sees its own name with `-RANK` behind it", Set: line.True(&p.Ctx.IndexArgv)},
		{Names: "debug tv debugger stop-on-exec stop-in-init stop-in-app", Level: line.Refused,
			Means: "debuggers are not started: use mpiup exec HOST -- gdb -p PID"},
		{Names: "report-pid", Args: 1, Level: line.Done, Means: "writes the launcher's pid to standard output (`-`), to standard error (`+`) or to a file",
			Set: p.reportPID},
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
func (p *openMPIParser) runtime(v []string) error {
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
func (p *openMPIParser) programs(file, text string) error {
	n := 0
	for l := range strings.Lines(text) {
		n++
		l, _, _ = strings.Cut(l, "#")
		l, _, _ = strings.Cut(l, "//")
		words := line.Words(l)
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
