package mpirun

import (
	"errors"
	"fmt"
	"strings"
)

// hydraRows are mpiexec's options of Hydra (src/pm/hydra/mpiexec/options.c), of MPICH 3.2 to 5,
// MVAPICH and Intel MPI.
func hydraRows() []row {
	return []row{
		{names: "hosts host hostlist", args: 1, level: Done, means: "the hosts; :N is how many ranks go to one at a time", set: (*parser).list},
		{names: "f hostfile", args: 1, level: Done, means: "file with the hosts, \"name:N\" a line", set: (*parser).file},
		{names: "ppn perhost grr", args: 1, level: Done, means: "so many ranks on a host, then the next", set: (*parser).wrapEvery},
		{names: "rr", level: Done, means: "one rank a host, and round again", set: on(func(l *Line) { l.MapBy = "node" })},
		{names: "genv", args: 2, joins: true, level: Done, means: "a variable for all programs", set: (*parser).genv},
		{names: "env", args: 2, joins: true, level: Done, local: true, means: "a variable for one program", set: (*parser).env},
		{names: "genvnone envnone", level: Done, means: "nothing of the launcher's environment goes along", set: on(func(l *Line) { l.NoExport = true })},
		{names: "genvall envall", level: Done, means: "all of the launcher's environment goes along (so anyway)", set: on(func(l *Line) { l.NoExport, l.Export = false, nil })},
		{names: "genvlist envlist", args: 1, level: Done, means: "only these variables of the launcher go along", set: (*parser).envList},
		{names: "genvexcl", args: 1, level: Done, means: "all but these variables go along", set: (*parser).envExcept},
		{names: "configfile", args: 1, level: Done, means: "file with a program and its options a line", set: func(p *parser, v []string) error { p.appfile = v[0]; return nil }},
		{names: "l prepend-rank", level: Done, means: "\"[rank] \" before every line", set: on(func(l *Line) { l.TagOutput = true })},
		{names: "s stdin", args: 1, level: Done, means: "who reads the launcher's standard input: a rank, all or none", set: (*parser).stdin},
		{names: "info", level: Done, means: "as --version", set: on(func(l *Line) { l.Version = true })},
		{names: "rank-by", args: 1, level: NoEffect, means: "ranks are numbered by slot"},

		{names: "launcher bootstrap launcher-exec bootstrap-exec rmk iface usize membind topolib pmi-port-range ckpoint-interval ckpointlib ckpoint-prefix demux localhost gpus-per-proc gpu-subdevs-per-proc tune gtool gtoolfile bootstrap-exec-args nettype order-hosts timeout-exec", args: 1, level: NoEffect,
			means: "of Hydra's own daemons, or of binding"},
		{names: "disable-auto-cleanup enable-auto-cleanup disable-hostname-propagation disable-x order-nodes print-all-exitcodes print-rank-map skip-launch-node nolocal pmi-port pmi-aggregate no-pmi-aggregate profile trace check_mpi branch-count silent-abort", level: NoEffect,
			means: "of Hydra's own daemons"},
		{names: "prepend-pattern outfile-pattern errfile-pattern", args: 1, level: Refused, means: "patterns of Hydra are not done: use -l, or mpiup run --output-dir DIR"},
		{names: "hosts-group", args: 1, level: Refused, means: "groups of hosts are not expanded: list them, -hosts a,b"},
	}
}

// wrapEvery is -ppn: the slots that hosts without a number have.
func (p *parser) wrapEvery(v []string) error { return p.perHost(v) }

func (p *parser) genv(v []string) error {
	p.common = setVar(p.common, v[0]+"="+v[1])
	return variable(v[0])
}

func (p *parser) env(v []string) error {
	p.ctx.Env = setVar(p.ctx.Env, v[0]+"="+v[1])
	return variable(v[0])
}

func variable(name string) error {
	if name == "" || strings.ContainsAny(name, "=\x00") {
		return fmt.Errorf("%.60q is no variable's name", name)
	}
	return nil
}

func (p *parser) envList(v []string) error {
	p.line.Export = names(v[0])
	if p.line.Export == nil {
		return errors.New("the list is empty")
	}
	return nil
}

func (p *parser) envExcept(v []string) error {
	p.line.Unset = append(p.line.Unset, names(v[0])...)
	return nil
}

func names(list string) (out []string) {
	for n := range strings.SplitSeq(list, ",") {
		if n = strings.TrimSpace(n); n != "" {
			out = append(out, n)
		}
	}
	return out
}
