package mpirun

import (
	"errors"
	"fmt"
	"path"
	"strings"
)

// openMPIRows are mpirun's options of Open MPI 4.1 (orterun.1) and 5.0 (prterun of PRRTE 3).
func openMPIRows() []row {
	return []row{
		{names: "c", args: 1, level: Done, local: true, means: "as -n", set: (*parser).ranks},
		{names: "host H", args: 1, level: Done, means: "the hosts: each bare mention is a slot, :N is N; with a hostfile it chooses from that", set: (*parser).list},
		{names: "hostfile default-hostfile", args: 1, level: Done, means: "file with the hosts, \"name slots=N\" a line", set: (*parser).file},
		{names: "N npernode", args: 1, level: Done, means: "so many ranks on every host", set: (*parser).perHost},
		{names: "pernode", level: Done, means: "one rank on every host", set: on(func(l *Line) { l.PerHost = 1 })},
		{names: "oversubscribe", level: Done, means: "slots are no limit", set: on(func(l *Line) { l.Oversubscribe = true })},
		{names: "nooversubscribe", level: Done, means: "slots are a limit (so anyway)", set: on(func(l *Line) { l.Oversubscribe = false })},
		{names: "nolocal", level: Done, means: "no rank on the launcher's own host", set: on(func(l *Line) { l.NoLocal = true })},
		{names: "bynode", level: Done, means: "as --map-by node", set: on(func(l *Line) { l.MapBy = "node" })},
		{names: "byslot", level: Done, means: "as --map-by slot", set: on(func(l *Line) { l.MapBy = "slot" })},
		{names: "x", args: 1, level: Done, local: true, means: "gives ranks a variable: NAME (the launcher's value), NAME=value, PREFIX*", set: (*parser).export},
		{names: "mca omca", args: 2, level: Done, local: true, means: "a parameter, OMPI_MCA_NAME for the ranks; those of the launcher mean here what docs/mpirun.md says", set: (*parser).param},
		{names: "gmca gomca", args: 2, level: Done, means: "a parameter for all programs", set: (*parser).globalParam},
		{names: "prtemca", args: 2, level: NoEffect, means: "PRRTE's own parameters"},
		{names: "pmixmca gpmixmca", args: 2, level: Done, means: "PMIX_MCA_NAME for the ranks", set: (*parser).pmixParam},
		{names: "app", args: 1, level: Done, means: "file with a program and its options a line", set: func(p *parser, v []string) error { p.appfile = v[0]; return nil }},

		{names: "tag-output", level: Done, means: "\"[rank] \" before every line", set: on(func(l *Line) { l.TagOutput = true })},
		{names: "timestamp-output", level: Done, means: "the time before every line", set: on(func(l *Line) { l.Timestamps = true })},
		{names: "merge-stderr-to-stdout", level: Done, means: "one stream for both", set: on(func(l *Line) { l.Merge = true })},
		{names: "output-filename", args: 1, level: Done, means: "DIR[:nojobid][:nocopy]: a directory with DIR/1/rank.N/stdout and stderr, and a copy on the terminal", set: (*parser).outputDir},
		{names: "output", args: 1, level: Done, means: "tag, timestamp, merge, dir=DIR (Open MPI 5)", set: (*parser).output},
		{names: "stdin", args: 1, level: Done, means: "who reads the launcher's standard input: a rank, all or none", set: (*parser).stdin},
		{names: "timeout", args: 1, level: Done, means: "ends the job after so many seconds, code 110", set: (*parser).timeout},
		{names: "display-map", level: Done, means: "shows the plan of ranks and hosts on standard error", set: on(func(l *Line) { l.DisplayMap = true })},
		{names: "display", args: 1, level: Done, means: "map; the others have no effect (Open MPI 5)", set: (*parser).display},
		{names: "runtime-options", args: 1, level: NoEffect, means: "PRRTE's"},
		{names: "quiet q", level: Done, means: "fewer lines of mpiup's own", set: on(func(l *Line) { l.Quiet = true })},
		{names: "do-not-launch", level: Done, means: "as --dry-run", set: on(func(l *Line) { l.DryRun = true })},
		{names: "report-bindings", level: NoEffect, means: "ranks are not bound yet", set: on(func(l *Line) { l.ReportBinds = true })},
		{names: "rank-by", args: 1, level: NoEffect, means: "ranks are numbered by slot"},

		{names: "allow-run-as-root", level: NoEffect, means: "root may run anything an agent runs as"},
		{names: "prefix", args: 1, level: Done, local: true, means: "DIR/bin and DIR/lib come first in PATH and LD_LIBRARY_PATH of ranks", set: (*parser).prefix},
		{names: "noprefix enable-recovery disable-recovery report-child-jobs-separately continuous index-argv-by-rank xml tv debug-daemons d debug-devel leave-session-attached no-local-bindings use-hwthread-cpus novm launch-agent-verbose", level: NoEffect,
			means: "of Open MPI's own daemons and files"},
		{names: "personality launch-agent max-restarts report-events report-pid report-uri ompi-server xml-file path tmpdir stream-buffering cpu-set cpu-list cpus-per-proc cpus-per-rank output-proctable display-devel-allocation am tune dvm-uri fwd-mpirun-port max-vm-size report-state-on-timeout", args: 1, level: NoEffect,
			means: "of Open MPI's own daemons and files, or of binding"},
		{names: "display-allocation display-devel-map display-topo display-diffable-map get-stack-traces staged slot-list bind-to-core bind-to-socket bind-to-none bycore bysocket nodisplay overload-allowed", level: NoEffect,
			means: "of binding, or of what Open MPI shows of itself"},
		{names: "npersocket", args: 1, level: Refused, means: "ranks are counted by host here: use -N, so many ranks a host"},
		{names: "rankfile rf", args: 1, level: Refused, means: "rankfiles are not read: name the hosts in their order with their slots, -H a:2,b:2"},
		{names: "preload-files", args: 1, level: Refused, means: "files are not copied to hosts: put them into the image or on a shared volume"},
		{names: "debug debugger", level: Refused, means: "debuggers are not started: use mpiup exec HOST -- gdb -p PID"},
	}
}

// export is -x. A name that is not set is a warning, as with Open MPI.
func (p *parser) export(v []string) error {
	name, _, set := strings.Cut(v[0], "=")
	switch {
	case name == "":
		return errors.New("a variable has a name")
	case set:
		p.ctx.Env = setVar(p.ctx.Env, v[0])
	case strings.HasSuffix(name, "*"):
		for _, kv := range p.out.Environ {
			if n, _, _ := strings.Cut(kv, "="); strings.HasPrefix(n, strings.TrimSuffix(name, "*")) {
				p.ctx.Env = setVar(p.ctx.Env, kv)
			}
		}
	default:
		value, ok := p.out.Lookup(name)
		if !ok {
			p.line.Warnings = append(p.line.Warnings, fmt.Sprintf("-x %s: not set in this environment, so ranks do not get it", name))
			return nil
		}
		p.ctx.Env = setVar(p.ctx.Env, name+"="+value)
	}
	return nil
}

// prefix is what Open MPI does with the remote PATH.
func (p *parser) prefix(v []string) error {
	for _, d := range []struct{ name, dir string }{{"PATH", "bin"}, {"LD_LIBRARY_PATH", "lib"}} {
		value := path.Join(v[0], d.dir)
		if old := p.out.getenv(d.name); old != "" {
			value += ":" + old
		}
		p.ctx.Env = setVar(p.ctx.Env, d.name+"="+value)
	}
	return nil
}

// outputDir is --output-filename DIR[:nojobid][:nocopy].
func (p *parser) outputDir(v []string) error {
	dir, rest, _ := strings.Cut(v[0], ":")
	if dir == "" {
		return errors.New("a directory has a name")
	}
	p.line.OutputDir = dir
	for _, m := range strings.FieldsFunc(strings.ToLower(rest), func(r rune) bool { return r == ',' || r == ':' }) {
		switch m {
		case "nojobid":
			p.line.NoJobID = true
		case "nocopy":
			p.line.NoCopy = true
		default:
			return fmt.Errorf("modifier %q is not known; nojobid and nocopy are", m)
		}
	}
	return nil
}

// output is Open MPI 5's --output LIST.
func (p *parser) output(v []string) error {
	for item := range strings.SplitSeq(v[0], ",") {
		name, value, _ := strings.Cut(item, "=")
		switch strings.ToLower(name) {
		case "tag", "tag-detailed", "tag-fullname":
			p.line.TagOutput = true
		case "timestamp":
			p.line.Timestamps = true
		case "merge", "merge-stderr-to-stdout":
			p.line.Merge = true
		case "dir", "directory":
			if err := p.outputDir([]string{value}); err != nil {
				return err
			}
		case "copy", "nocopy", "raw":
			p.line.NoCopy = name == "nocopy"
		default:
			return fmt.Errorf("%q is not done; tag, timestamp, merge and dir=DIR are", name)
		}
	}
	return nil
}

func (p *parser) display(v []string) error {
	for item := range strings.SplitSeq(strings.ToLower(v[0]), ",") {
		switch item {
		case "map", "map-devel":
			p.line.DisplayMap = true
		case "bind", "bindings", "allocation", "alloc", "topo", "cpus", "proctable":
			p.line.Without = append(p.line.Without, "--display "+item)
		default:
			return fmt.Errorf("%q is not known; map is", item)
		}
	}
	return nil
}
