package mpirun

import "strings"

// openMPIRows are mpirun's options of Open MPI 4.1 (orte/mca/schizo/ompi) and 5.0 (schizo/ompi of
// PRRTE 3).
func openMPIRows() []row {
	rows := append(openMPIPlacement(), openMPIOutput()...)
	return append(append(rows, openMPIEnvironment()...), openMPIRest()...)
}

func openMPIPlacement() []row {
	return []row{
		{names: "c", args: 1, level: Done, local: true, means: "as `-n`", set: (*parser).ranks},
		{names: "host H", args: 1, level: Done, local: true, set: (*parser).ownList,
			means: "the hosts: each bare mention is a slot, `:N` is N, `:*` what the hostfile or the host itself says; with a hostfile it chooses from that. The job has the hosts of all programs' lists; a program without a list may use all"},
		{names: "hostfile machinefile default-hostfile", args: 1, level: Done, means: "file with the hosts, `name slots=N` a line", set: (*parser).file},
		{names: "map-by", args: 1, level: Done, set: (*parser).mapBy,
			means: "`slot`, `node`, `hwthread`, `core`, `l1cache` to `l3cache`, `numa`, `socket` (`package`), `ppr:N:OBJECT`, `rankfile`, `seq` (a rank on each mention of a host or each line of the hostfile, which may list its CPUs; `seq:FILE=`); modifiers `PE=n`, `span`, `oversubscribe`, `nooversubscribe`, `nolocal`, `hwtcpus`, `PE-LIST=`, `ordered`, `FILE=`. `dist` is refused ([binding.md](binding.md))"},
		{names: "rank-by", args: 1, level: Done, set: (*parser).rankBy,
			means: "`slot`, `fill`, `node`, or an object, over whose kind numbers go round within a host, with `:span` over all hosts"},
		{names: "N npernode", args: 1, level: Done, means: "so many ranks on every host", set: (*parser).perNode},
		{names: "pernode", level: Done, means: "one rank on every host", set: func(p *parser, _ []string) error { return p.perNode([]string{"1"}) }},
		{names: "ppr", args: 1, level: Done, means: "`N:node`, as `--map-by ppr:N:node`", set: func(p *parser, v []string) error {
			return p.mapBy([]string{"ppr:" + v[0]})
		}},
		{names: "oversubscribe", level: Done, means: "slots are no limit", set: on(func(l *Line) { l.Oversubscribe = true })},
		{names: "nooversubscribe", level: Done, means: "slots are a limit (so anyway)", set: on(func(l *Line) { l.Oversubscribe = false })},
		{names: "nolocal", level: Done, means: "no rank on the launcher's own host", set: on(func(l *Line) { l.NoLocal = true })},
		{names: "bynode", level: Done, means: "as `--map-by node`", set: as((*parser).mapBy, "node")},
		{names: "byslot", level: Done, means: "as `--map-by slot`", set: as((*parser).mapBy, "slot")},
		{names: "bycore", level: Done, means: "as `--map-by core`", set: as((*parser).mapBy, "core")},
		{names: "bysocket", level: Done, means: "as `--map-by socket`", set: as((*parser).mapBy, "socket")},
		{names: "npersocket", args: 1, level: Done, means: "as `--map-by ppr:N:socket`", set: (*parser).perSocket},
		{names: "cpus-per-proc cpus-per-rank", args: 1, level: Done, means: "as `--map-by :PE=N`", set: (*parser).cpusPerRank},
		{names: "bind-to binding", args: 1, level: Done, set: (*parser).bindTo,
			means: "`none`, `hwthread`, `core`, `l1cache` to `l3cache`, `numa`, `socket` (`package`), `cpu-list[:ordered]`; `:overload-allowed`. By default nothing is bound that others may use ([binding.md](binding.md))"},
		{names: "bind-to-core", level: Done, means: "as `--bind-to core`", set: as((*parser).bindTo, "core")},
		{names: "bind-to-socket", level: Done, means: "as `--bind-to socket`", set: as((*parser).bindTo, "socket")},
		{names: "use-hwthread-cpus", level: Done, means: "hardware threads count as CPUs, not cores", set: on(func(l *Line) { l.Binding.HWThreads = true })},
		{names: "rankfile rf", args: 1, level: Done, means: "file with the host and CPUs of each rank; its hosts are the job's where nothing else names any", set: (*parser).rankFile},
		{names: "cpu-set cpu-list", args: 1, level: Done, set: (*parser).cpuSet,
			means: "ranks get only these CPUs of each host: logical numbers of cores, `1:0-3` of a socket's, `p0-3` the kernel's"},
		{names: "app", args: 1, level: Done, means: "file with a program and its options a line, without quotes", set: (*parser).programFile},
	}
}

func openMPIOutput() []row {
	return []row{
		{names: "tag-output", level: Done, means: "`[1,rank]<stdout>:` before every line, with a blank behind it as of Open MPI 5", set: on(func(l *Line) { l.TagOutput = true })},
		{names: "timestamp-output", level: Done, means: "the time before every line", set: on(func(l *Line) { l.Timestamps = true })},
		{names: "merge-stderr-to-stdout", level: Done, means: "one stream for both", set: on(func(l *Line) { l.Merge = true })},
		{names: "output-filename", args: 1, level: Done, set: (*parser).outputName,
			means: "`DIR[:nojobid][,nocopy]`: a directory with DIR/1/rank.N/stdout and stderr, and a copy on the terminal. With Open MPI 5 files FILE.prterun-HOST-PID@1.N.out and .err instead, and no copy"},
		{names: "output-directory", args: 1, level: Done, set: (*parser).outputDir, means: "as `--output directory=DIR`"},
		{names: "output", args: 1, level: Done, set: (*parser).output,
			means: "`tag`, `timestamp`, `merge-stderr-to-stdout`, `directory=DIR` (DIR/prterun-HOST-PID@1/rank.N/stdout and stderr), `file=NAME` (as `--output-filename`) and their beginnings. Nothing of what is in files is on the terminal. Others are refused (Open MPI 5)"},
		{names: "stdin", args: 1, level: Done, means: "who reads the launcher's standard input: a rank, `all` or `none`", set: (*parser).stdin},
		{names: "display-map", level: Done, means: "shows hosts, ranks and their CPUs as Open MPI does", set: on(func(l *Line) { l.DisplayMap = true })},
		{names: "display", args: 1, level: Done, means: "`map`, `bind`; others have no effect (Open MPI 5)", set: (*parser).display},
		{names: "quiet q", level: Done, means: "no warnings", set: on(func(l *Line) { l.Quiet = true })},
		{names: "display-allocation display-devel-map display-devel-allocation display-diffable-map display-topo output-proctable show-progress", level: NoEffect,
			means: "`--display-map` shows the plan"},
		{names: "xml", level: NoEffect, set: (*parser).xml, means: "output stays as ranks write it, which is said; `mpiup run --output json` has an object a line"},
		{names: "xml-file xterm", args: 1, level: Refused, means: "use --output-filename DIR, or mpiup run --output json"},
		{names: "stream-buffering", args: 1, level: NoEffect, means: "ranks' output is shown line by line"},
	}
}

func openMPIEnvironment() []row {
	return []row{
		{names: "x", args: 1, level: Done, local: true, means: "gives ranks a variable: `NAME` (the launcher's value), `NAME=value`, `PREFIX*`", set: (*parser).export},
		{names: "mca omca", args: 2, level: Done, local: true, set: (*parser).param,
			means: "a parameter, `OMPI_MCA_NAME` for the ranks, before the first program for those of all; those of the launcher are listed below"},
		{names: "gmca gomca", args: 2, level: Done, means: "a parameter for all programs", set: (*parser).globalParam},
		{names: "prtemca gprtemca", args: 2, level: Done, means: "a parameter of the launcher alone", set: (*parser).prteParam},
		{names: "pmixmca gpmixmca", args: 2, level: Done, local: true, means: "`PMIX_MCA_NAME` for the ranks", set: (*parser).pmixParam},
		{names: "prefix", args: 1, level: Done, local: true, set: func(p *parser, v []string) error { p.ctx.prefix = v[0]; return nil },
			means: "`DIR/bin` and `DIR/lib` come first in `PATH` and `LD_LIBRARY_PATH` of ranks, before what `-x` gives or the launcher has"},
		{names: "am amca tune", args: 1, level: Done, set: (*parser).paramFiles,
			means: "files of parameters, `FILE,...`: lines `name = value`, or options `--mca name value` and `-x NAME=value`; the environment and the command line come before them"},
		{names: "path", args: 1, level: Done, local: true, set: (*parser).searchPath, means: "directories in which hosts look for the program before those of `PATH`"},
		{names: "fwd-environment", level: Done, means: "the launcher's environment goes along as with Hydra's launcher, see above (Open MPI 5)", set: on(func(l *Line) { l.ForwardAll = true })},
		{names: "preload-binary s", level: Done, local: true, set: (*parser).preloadBinary,
			means: "copies the program to the hosts, into the session's directory, in which its ranks run without `--wdir`; gone at the end"},
		{names: "preload-files", args: 1, level: Done, local: true, set: (*parser).preloadFiles,
			means: "copies `FILE,...` to the hosts: a relative name to `$OMPI_FILE_LOCATION` there, an absolute one to its place, where no other file may be; gone at the end"},
		{names: "set-cwd-to-session-dir", level: Done, local: true, set: func(p *parser, _ []string) error { p.ctx.SessionDir = true; return nil },
			means: "ranks run in the session's directory, one a host"},
	}
}

func openMPIRest() []row {
	return []row{
		{names: "timeout", args: 1, level: Done, means: "ends the job after so many seconds, code 110; also `MPIEXEC_TIMEOUT`", set: (*parser).timeout},
		{names: "do-not-launch", level: Done, means: "as `--dry-run`", set: on(func(l *Line) { l.DryRun = true })},
		{names: "runtime-options rtos", args: 1, level: Done, set: (*parser).runtime,
			means: "`error-nonzero-status=0`: a rank's exit code other than 0 ends nothing; `donotlaunch`; some have no effect, others are refused (Open MPI 5)"},
		{names: "allow-run-as-root", level: NoEffect, means: "root may run what an agent runs as"},
		{names: "noprefix disable-recovery debug-daemons d debug-devel debug-daemons-file leave-session-attached novm use-regexp enable-instant-on-support do-not-resolve fwd-mpirun-port uniform-nodes hetero-nodes no-aggregate-help parseable parsable p report-state-on-timeout get-stack-traces", level: NoEffect,
			means: "of Open MPI's own daemons and reports"},
		{names: "personality launch-agent max-vm-size tmpdir cartofile cf forward-signals spawn-timeout memory-alloc-kinds pset", args: 1, level: NoEffect,
			means: "of Open MPI's own daemons and files"},
		{names: "enable-recovery continuous", level: Done, set: on(func(l *Line) { l.Recover = true }),
			means: "a rank that fails, or a host that is lost, ends nothing and the job's code is 0, unless it calls `MPI_Abort`, others wait for it in `MPI_Init`, or no rank is left"},
		{names: "max-restarts", args: 1, level: Refused, means: "ranks are not started again: let the launcher's Job do it (backoffLimit)"},
		{names: "report-child-jobs-separately", level: Refused, means: "spawned jobs count for the exit code"},
		{names: "index-argv-by-rank", level: Done, local: true, means: "a program sees its own name with `-RANK` behind it", set: func(p *parser, _ []string) error { p.ctx.IndexArgv = true; return nil }},
		{names: "debug tv debugger stop-on-exec stop-in-init stop-in-app", level: Refused, means: "debuggers are not started: use mpiup exec HOST -- gdb -p PID"},
		{names: "report-pid", args: 1, level: Done, means: "writes the launcher's pid to standard output (`-`), to standard error (`+`) or to a file", set: (*parser).reportPID},
		{names: "report-uri", args: 1, level: Refused,
			means: "it is the address of Open MPI's own server, for --ompi-server and --hnp of others, and there is no such server; a script that waits for the launcher can wait for the file of --report-pid"},
		{names: "report-events", args: 1, level: Refused, means: "there is no such server: mpiup run --output json tells of events"},
		{names: "ompi-server hnp dvm-uri", args: 1, level: Refused, means: "there is no other server to join: jobs of one mpirun find each other's names"},
		{names: "dvm terminate", level: Refused, means: "the agents stay between jobs; nothing has to be started or ended"},
		{names: "with-ft", args: 1, level: Refused, means: "a rank that fails ends the job"},
		{names: "initial-errhandler gpu-support", args: 1, level: Refused, means: "write the parameter of the MPI library, --mca NAME VALUE"},
		{names: "display-comm display-comm-finalize", level: Refused, means: "write --mca ompi_display_comm mpi_init or mpi_finalize"},
		{names: "soft arch file", args: 1, level: Refused, means: "Open MPI does not do it either"},
	}
}

func (p *parser) programFile(v []string) error {
	p.appfile = v[0]
	return nil
}

// runtime is Open MPI 5's --runtime-options LIST.
func (p *parser) runtime(v []string) error {
	for item := range strings.SplitSeq(strings.ToLower(v[0]), ",") {
		name, value, given := strings.Cut(item, "=")
		yes := !given || truth(value)
		switch name {
		case "error-nonzero-status", "abort-nonzero-status":
			p.line.KeepOn = !yes
		case "donotlaunch":
			p.line.DryRun = yes
		case "fwd-environment", "forward-environment":
			p.line.ForwardAll = yes
		case "recoverable", "continuous":
			p.line.Recover = yes
		case "show-progress", "aggregate-help-messages":
			p.without("--runtime-options " + item)
		default:
			return unknownItem(item, "error-nonzero-status and donotlaunch")
		}
	}
	return nil
}
