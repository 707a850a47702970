package mpirun

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// hydraRows are mpiexec's options of Hydra (src/pm/hydra/mpiexec/options.c), of MPICH 3.2 to 5,
// MVAPICH and Intel MPI.
func hydraRows() []row {
	return append(hydraMeant(), hydraRest()...)
}

func hydraMeant() []row {
	return []row{
		{names: "hosts hostlist machine machines machinelist", args: 1, level: Done, set: (*parser).list,
			means: "the hosts; `:N` is how many ranks go to one at a time, else 1"},
		{names: "host", args: 1, level: Done, set: (*parser).ownList, means: "the hosts of one program (Intel MPI); of one program alone as `-hosts`"},
		{names: "f hostfile machinefile", args: 1, level: Done, means: "file with the hosts, `name:N` a line", set: (*parser).file},
		{names: "ppn perhost grr", args: 1, level: Done, means: "so many ranks on a host, then the next, and round again; also `I_MPI_PERHOST`", set: (*parser).perHost},
		{names: "rr", level: Done, means: "one rank a host, and round again", set: on(func(l *Line) { l.PerHost = 1 })},
		{names: "genv", args: 2, joins: true, level: Done, means: "a variable for all programs, `NAME value` or `NAME=value`", set: (*parser).genv},
		{names: "env", args: 2, joins: true, level: Done, means: "a variable for one program", set: (*parser).env},
		{names: "genvnone", level: Done, means: "nothing of the launcher's environment goes along; also `HYDRA_ENV=none`", set: inheriting(Inherit{None: true}, false)},
		{names: "genvall", level: Done, means: "all of it goes along (so anyway)", set: inheriting(Inherit{}, false)},
		{names: "genvlist", args: 1, level: Done, means: "only these variables of it do", set: (*parser).genvList},
		{names: "genvexcl", args: 1, level: Done, means: "all but these do", set: (*parser).genvExcept},
		{names: "envnone", level: Done, means: "as `-genvnone`, for one program", set: inheriting(Inherit{None: true}, true)},
		{names: "envall", level: Done, means: "as `-genvall`, for one program", set: inheriting(Inherit{}, true)},
		{names: "envlist", args: 1, level: Done, means: "as `-genvlist`, for one program", set: (*parser).envList},
		{names: "envexcl", args: 1, level: Done, means: "as `-genvexcl`, for one program", set: (*parser).envExcept},
		{names: "iface", args: 1, level: Done, means: "the interface, `MPIR_CVAR_NEMESIS_TCP_NETWORK_IFACE` for the ranks; also `HYDRA_IFACE`", set: (*parser).iface},
		{names: "configfile", args: 1, level: Done, means: "file with programs and their options, a line as between two `:`, without quotes", set: (*parser).programFile},
		{names: "l prepend-rank", level: Done, means: "`[rank] ` before every line", set: on(func(l *Line) { l.TagOutput = true })},
		{names: "prepend-pattern", args: 1, level: Done, means: "a text before every line: `%r` is the rank, `%h` the host, `%p` its index, `%g` the job's number, `%t` seconds since the start, `%%` a percent sign",
			set: func(p *parser, v []string) error { return p.pattern(&p.line.Prepend, v[0], false) }},
		{names: "outfile-pattern outfile", args: 1, level: Done, means: "a file for standard output, by such a pattern",
			set: func(p *parser, v []string) error { return p.pattern(&p.line.OutFile, v[0], true) }},
		{names: "errfile-pattern errfile", args: 1, level: Done, means: "a file for standard error, by such a pattern",
			set: func(p *parser, v []string) error { return p.pattern(&p.line.ErrFile, v[0], true) }},
		{names: "s stdin", args: 1, level: Done, means: "who reads the launcher's standard input: a rank, `all` or `none`", set: (*parser).stdin},
		{names: "timeout", args: 1, level: Done, means: "ends the job after so many seconds, code 110; also `MPIEXEC_TIMEOUT`", set: (*parser).timeout},
		{names: "pmi-port", level: Done, means: "ranks of PMI-1 reach their agent by `PMI_PORT`", set: on(func(l *Line) { l.PMIPort = true })},
		{names: "skip-launch-node nolocal", level: Done, means: "no rank on the launcher's own host", set: on(func(l *Line) { l.NoLocal = true })},
		{names: "info", level: Done, means: "as `-version`", set: on(func(l *Line) { l.Version = true })},
		{names: "debug", level: Done, means: "as `-v`", set: on(func(l *Line) { l.Verbose++ })},
		{names: "gpus-per-proc g", args: 1, level: Done, means: "so many GPUs of its host for each rank, in turn; without it ranks see all", set: (*parser).gpusPerProc},
		{names: "bind-to binding", args: 1, level: Done, set: (*parser).bindTo,
			means: "`none` (so anyway), `machine`, `numa`, `socket`, `l1cache` to `l3cache`, `core`, `hwthread`, each with `:N` for N of them, `rr`, `user:0+1,2+3`. Objects near devices are refused"},
		{names: "map-by", args: 1, level: Done, set: (*parser).hydraMapBy,
			means: "objects within a host over which ranks are dealt out, where they are bound; `-ppn` and `-rr` say how many go to a host"},
	}
}

func hydraRest() []row {
	return []row{
		{names: "membind", args: 1, level: NoEffect, means: "memory is taken from where a rank runs"},
		{names: "launcher bootstrap launcher-exec bootstrap-exec bootstrap-exec-args rmk topolib demux localhost branch-count order-nodes memory-alloc-kinds tmpdir", args: 1, level: NoEffect,
			means: "of Hydra's own daemons"},
		{names: "enable-x disable-x enable-auto-cleanup enable-hostname-propagation disable-hostname-propagation hybrid-hosts print-all-exitcodes print-rank-map pmi-aggregate no-pmi-aggregate profile silent-abort cleanup nocleanup ordered-output", level: NoEffect,
			means: "of Hydra's own daemons"},
		{names: "usize", args: 1, level: Done, set: (*parser).universe,
			means: "`MPI_UNIVERSE_SIZE`: a number, `SYSTEM` (the sum of the hosts' numbers) or `INFINITE`, which leaves it unset, as it is without this option"},
		{names: "disable-auto-cleanup dac", level: Done, means: "a rank that fails ends nothing; the job's code is that of the first", set: on(func(l *Line) { l.Linger = true })},
		{names: "gpu-subdevs-per-proc", args: 1, level: Refused, means: "parts of GPUs are not given out: write -gpus-per-proc N, or choose by MPI_LOCALRANKID"},
		{names: "rankmap", args: 1, level: Refused, means: "name the hosts in their order with their numbers, -hosts a:2,b:2"},
		{names: "output-from", args: 1, level: Done, means: "only that rank's output is shown", set: (*parser).outputFrom},
		{names: "hosts-group", args: 1, level: Done, means: "the hosts, with numbers in brackets: `n[01-03,7],b` (Intel MPI)", set: (*parser).list},
		{names: "gtool", args: 1, level: Done, set: (*parser).tools,
			means: "`TOOL ARGS:RANKS;...` puts a tool before the program of those ranks, `all` or `0-3,7`; launch modes and architectures are refused. Also `I_MPI_GTOOL` (Intel MPI)"},
		{names: "gtoolfile", args: 1, level: Done, means: "a file with that", set: (*parser).toolFile},
		{names: "trace t mps aps check_mpi trace-pt2pt trace-collectives", level: Refused, means: "libraries are not preloaded: write -genv LD_PRELOAD FILE"},
		{names: "tune", args: 1, level: Refused, means: "write -genv I_MPI_TUNING_BIN FILE"},
		{names: "path", args: 1, level: Done, local: true, set: (*parser).searchPath, means: "directories in which hosts look for the program before those of `PATH`"},
		{names: "umask", args: 1, level: Done, means: "the file mode mask of ranks, octal, set by `/bin/sh` on their host (Intel MPI)", set: (*parser).umask},
		{names: "gdb gdba tv tva", level: Refused, means: "debuggers are not started: use mpiup exec HOST -- gdb -p PID"},
		{names: "nameserver", args: 1, level: Refused, means: "there is no other server to join: jobs of one mpiexec find each other's names"},
		{names: "preload-binary", level: Done, local: true, means: "copies the program to the hosts, as Open MPI's mpirun does", set: (*parser).preloadBinary},
		{names: "preload-files", args: 1, level: Done, local: true, means: "copies `FILE,...` to the hosts: a relative name to `$MPIUP_FILES` there, an absolute one to its place", set: (*parser).preloadFiles},
	}
}

// universe is -usize, whose words are in capitals with Hydra too.
func (p *parser) universe(v []string) error {
	if v[0] != "SYSTEM" && v[0] != "INFINITE" {
		if _, err := number(v[0], 1, maxRanks); err != nil {
			return fmt.Errorf("%w; SYSTEM and INFINITE are the words", err)
		}
	}
	p.line.Universe = v[0]
	return nil
}

func (p *parser) gpusPerProc(v []string) (err error) {
	p.line.GPUsPerRank, err = number(v[0], 1, maxGPUs)
	return err
}

func (p *parser) genv(v []string) error {
	if err := variable(v); err != nil {
		return err
	}
	p.common = append(p.common, v[0]+"="+v[1])
	return nil
}

func (p *parser) env(v []string) error {
	if err := variable(v); err != nil {
		return err
	}
	return p.give(v[0] + "=" + v[1])
}

func (p *parser) iface(v []string) error {
	return p.genv([]string{"MPIR_CVAR_NEMESIS_TCP_NETWORK_IFACE", v[0]})
}

// variable checks a name and its value.
func variable(v []string) error {
	switch {
	case v[0] == "" || strings.ContainsAny(v[0], "=\x00") || strings.ContainsRune(v[1], 0):
		return fmt.Errorf("%.60q is no variable's name, or its value has a zero byte", v[0])
	case len(v[0])+1+len(v[1]) > maxVar:
		return fmt.Errorf("variable %.60s has %d bytes, more than the %d that one can have", v[0], len(v[0])+1+len(v[1]), maxVar)
	}
	return nil
}

// inheriting is -genvnone and its like; own is those of one program.
func inheriting(in Inherit, own bool) func(*parser, []string) error {
	return func(p *parser, _ []string) error { return p.inherit(in, own) }
}

// inherit takes one wish for all programs, or for one; several are an error, as with Hydra.
func (p *parser) inherit(in Inherit, own bool) error {
	in.given = true
	switch {
	case own && p.ctx.Inherit != nil, !own && p.line.Inherit.given:
		return errors.New("what goes along of the environment is said already; say it once")
	case own:
		p.ctx.Inherit = &in
	default:
		p.line.Inherit = in
	}
	return nil
}

func (p *parser) genvList(v []string) error   { return p.inheritNames(v[0], false, false) }
func (p *parser) genvExcept(v []string) error { return p.inheritNames(v[0], true, false) }
func (p *parser) envList(v []string) error    { return p.inheritNames(v[0], false, true) }
func (p *parser) envExcept(v []string) error  { return p.inheritNames(v[0], true, true) }

func (p *parser) inheritNames(list string, except, own bool) error {
	names := slices.DeleteFunc(strings.Split(list, ","), func(n string) bool { return strings.TrimSpace(n) == "" })
	for i := range names {
		names[i] = strings.TrimSpace(names[i])
	}
	switch {
	case len(names) == 0:
		return errors.New("the list is empty")
	case except:
		return p.inherit(Inherit{Except: names}, own)
	}
	return p.inherit(Inherit{Only: names}, own)
}
