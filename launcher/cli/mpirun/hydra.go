package mpirun

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mpiup/mpiup/internal/hostlist"
	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/layout"
	"github.com/mpiup/mpiup/launcher/cli/mpirun/line"
)

// hydraParser reads one line of Hydra's mpiexec, which MPICH, MVAPICH and Intel MPI have: its options, -configfile, and those of its variables that
// mean something here.
type hydraParser struct {
	line.Parser

	mask    []string // words of what sets the file mode mask
	bind    string   // -bind-to and -map-by, as given
	objects string
}

const maxGPUs = 256

// parseHydra reads the words after the launcher's own name. Errors are the user's.
func parseHydra(args []string, o line.Outside) (line.Line, error) {
	p := &hydraParser{}
	rules := line.Rules{Family: line.Hydra, Dialect: hostlist.Hydra, Rows: p.rows(),
		Other: func() []line.Row { return rowsOf(line.OpenMPI) }, Folded: p.folded, Anywhere: true,
		ReadPrograms: p.programs, Hosts: func(file string) ([]hostlist.Entry, error) { return o.Hostfile(file, hostlist.Hydra) }}
	return p.Read(rules, args, o, p.Appfile, p.TimeLimit, p.variables, p.Hosts, p.binds, p.Settle)
}

// folded warns of an option that is another one's in capitals: Hydra does not look at case (HYDU_parse_array).
func (p *hydraParser) folded(option string) {
	if option == "H" {
		p.Line.Warnings = append(p.Line.Warnings, "-H is -help to Hydra; write the hosts as -hosts a,b:2, or in a file, -f FILE")
	}
}

// rows are mpiexec's options of Hydra (src/pm/hydra/mpiexec/options.c), of MPICH 3.2 to 5,
// MVAPICH and Intel MPI.
func (p *hydraParser) rows() []line.Row {
	return append(append(p.meant(), p.rest()...), p.Common()...)
}

func (p *hydraParser) meant() []line.Row {
	return []line.Row{
		{Names: "hosts hostlist machine machines machinelist", Args: 1, Level: line.Done, Set: p.once(&p.Listed, p.List),
			Means: "the hosts; `:N` is how many ranks go to one at a time, else 1"},
		{Names: "host", Args: 1, Level: line.Done, Set: p.once(&p.Ctx.Listed, p.OwnList),
			Means: "the hosts of one program (Intel MPI); of one program alone as `-hosts`"},
		{Names: "f hostfile machinefile", Args: 1, Level: line.Done, Means: "file with the hosts, `name:N` a line", Set: p.file},
		{Names: "ppn perhost grr", Args: 1, Level: line.Done, Means: "so many ranks on a host, then the next, and round again; also `I_MPI_PERHOST`",
			Set: line.Count(&p.Line.PerHost, line.MaxRanks)},
		{Names: "rr", Level: line.Done, Means: "one rank a host, and round again", Set: p.On(func(l *line.Line) { l.PerHost = 1 })},
		{Names: "genv", Args: 2, Joins: true, Level: line.Done, Means: "a variable for all programs, `NAME value` or `NAME=value`", Set: p.genv},
		{Names: "env", Args: 2, Joins: true, Level: line.Done, Means: "a variable for one program", Set: p.env},
		{Names: "genvnone", Level: line.Done, Means: "nothing of the launcher's environment goes along; also `HYDRA_ENV=none`",
			Set: p.inheriting(line.Inherit{None: true}, false)},
		{Names: "genvall", Level: line.Done, Means: "all of it goes along (so anyway)", Set: p.inheriting(line.Inherit{}, false)},
		{Names: "genvlist", Args: 1, Level: line.Done, Means: "only these variables of it do", Set: p.inheritNames(false, false)},
		{Names: "genvexcl", Args: 1, Level: line.Done, Means: "all but these do", Set: p.inheritNames(true, false)},
		{Names: "envnone", Level: line.Done, Means: "as `-genvnone`, for one program", Set: p.inheriting(line.Inherit{None: true}, true)},
		{Names: "envall", Level: line.Done, Means: "as `-genvall`, for one program", Set: p.inheriting(line.Inherit{}, true)},
		{Names: "envlist", Args: 1, Level: line.Done, Means: "as `-genvlist`, for one program", Set: p.inheritNames(false, true)},
		{Names: "envexcl", Args: 1, Level: line.Done, Means: "as `-genvexcl`, for one program", Set: p.inheritNames(true, true)},
		{Names: "ilp64", Level: line.Done, Means: "`LD_PRELOAD=libmpi_ilp64.so` for the ranks (Intel MPI)", Set: p.ilp64},
		{Names: "iface", Args: 1, Level: line.Done, Means: "the interface, `MPIR_CVAR_NEMESIS_TCP_NETWORK_IFACE` for the ranks; also `HYDRA_IFACE`", Set: p.iface},
		{Names: "configfile", Args: 1, Level: line.Done, Means: "file with programs and their options, a line as between two `:`, without quotes",
			Set: p.ProgramFile},
		{Names: "l prepend-rank", Level: line.Done, Means: "`[rank] ` before every line", Set: line.True(&p.Line.TagOutput)},
		{Names: "prepend-pattern", Args: 1, Level: line.Done,
			Means: "a text before every line: `%r` is the rank, `%h` the host, `%p` its index, `%g` the job's number, `%t` seconds since the start, `%%` a percent sign",
			Set:   func(v []string) error { return p.pattern(&p.Line.Prepend, v[0], false) }},
		{Names: "outfile-pattern outfile", Args: 1, Level: line.Done, Means: "a file for standard output, by such a pattern",
			Set: func(v []string) error { return p.pattern(&p.Line.OutFile, v[0], true) }},
		{Names: "errfile-pattern errfile", Args: 1, Level: line.Done, Means: "a file for standard error, by such a pattern",
			Set: func(v []string) error { return p.pattern(&p.Line.ErrFile, v[0], true) }},
		{Names: "s stdin", Args: 1, Level: line.Done, Means: "who reads the launcher's standard input: ranks (`0,2-3`), `all` or `none`", Set: p.stdin},
		{Names: "timeout", Args: 1, Level: line.Done, Means: "ends the job after so many seconds, code 110; also `MPIEXEC_TIMEOUT`", Set: p.Timeout},
		{Names: "pmi-port", Level: line.Done, Means: "ranks of PMI-1 reach their agent by `PMI_PORT`", Set: line.True(&p.Line.PMIPort)},
		{Names: "skip-launch-node nolocal", Level: line.Done, Means: "no rank on the launcher's own host", Set: line.True(&p.Line.NoLocal)},
		{Names: "info", Level: line.Done, Means: "as `-version`", Set: line.True(&p.Line.Version)},
		{Names: "debug", Level: line.Done, Means: "as `-v`", Set: p.On(func(l *line.Line) { l.Verbose++ })},
		{Names: "gpus-per-proc g", Args: 1, Level: line.Done, Means: "so many GPUs of its host for each rank, in turn; without it ranks see all",
			Set: line.Count(&p.Line.GPUsPerRank, maxGPUs)},
		{Names: "bind-to binding", Args: 1, Level: line.Done, Set: p.bindTo,
			Means: "`none` (so anyway), `machine`, `numa`, `socket`, `l1cache` to `l3cache`, `core`, `hwthread`, each with `:N` for N of them, `rr`, `user:0+1,2+3`. Objects near devices are refused"},
		{Names: "map-by", Args: 1, Level: line.Done, Set: p.mapBy,
			Means: "objects within a host over which ranks are dealt out, where they are bound; `-ppn` and `-rr` say how many go to a host"},
	}
}

func (p *hydraParser) rest() []line.Row {
	return []line.Row{
		{Names: "v6", Level: line.NoEffect, Means: "agents are reached by whatever protocol their addresses have (Intel MPI)"},
		{Names: "membind", Args: 1, Level: line.NoEffect, Means: "memory is taken from where a rank runs"},
		{Names: "launcher bootstrap launcher-exec bootstrap-exec bootstrap-exec-args rmk topolib demux localhost branch-count order-nodes memory-alloc-kinds tmpdir", Args: 1, Level: line.NoEffect,
			Means: "of Hydra's own daemons"},
		{Names: "enable-x disable-x enable-auto-cleanup enable-hostname-propagation disable-hostname-propagation hybrid-hosts print-all-exitcodes print-rank-map pmi-aggregate no-pmi-aggregate profile silent-abort cleanup nocleanup ordered-output", Level: line.NoEffect,
			Means: "of Hydra's own daemons"},
		{Names: "usize", Args: 1, Level: line.Done, Set: p.universe,
			Means: "`MPI_UNIVERSE_SIZE`: a number, `SYSTEM` (the sum of the hosts' numbers) or `INFINITE`, which leaves it unset, as it is without this option"},
		{Names: "disable-auto-cleanup dac", Level: line.Done, Means: "a rank that fails ends nothing; the job's code is that of the first",
			Set: line.True(&p.Line.Linger)},
		{Names: "gpu-subdevs-per-proc", Args: 1, Level: line.Refused, Means: "parts of GPUs are not given out: write -gpus-per-proc N, or choose by MPI_LOCALRANKID"},
		{Names: "rankmap", Args: 1, Level: line.Refused, Means: "name the hosts in their order with their numbers, -hosts a:2,b:2"},
		{Names: "output-from", Args: 1, Level: line.Done, Means: "only that rank's output is shown", Set: p.outputFrom},
		{Names: "hosts-group", Args: 1, Level: line.Done, Means: "the hosts, with numbers in brackets: `n[01-03,7],b` (Intel MPI)", Set: p.once(&p.Listed, p.List)},
		{Names: "gtool", Args: 1, Level: line.Done, Set: p.tools,
			Means: "`TOOL ARGS:RANKS;...` puts a tool before the program of those ranks, `all` or `0-3,7`; launch modes and architectures are refused. Also `I_MPI_GTOOL` (Intel MPI)"},
		{Names: "gtoolfile", Args: 1, Level: line.Done, Means: "a file with that", Set: p.toolFile},
		{Names: "trace t mps aps check_mpi trace-pt2pt trace-collectives", Level: line.Refused, Means: "libraries are not preloaded: write -genv LD_PRELOAD FILE"},
		{Names: "tune", Args: 1, Level: line.Refused, Means: "write -genv I_MPI_TUNING_BIN FILE"},
		{Names: "path", Args: 1, Level: line.Done, Local: true, Set: p.SearchPath(), Means: "directories in which hosts look for the program before those of `PATH`"},
		{Names: "umask", Args: 1, Level: line.Done, Means: "the file mode mask of ranks, octal, set by `/bin/sh` on their host (Intel MPI)", Set: p.umask},
		{Names: "gdb gdba tv tva", Level: line.Refused, Means: "debuggers are not started: use mpiup exec HOST -- gdb -p PID"},
		{Names: "nameserver", Args: 1, Level: line.Refused, Means: "there is no other server to join: jobs of one mpiexec find each other's names"},
		{Names: "preload-binary", Level: line.Done, Local: true, Means: "copies the program to the hosts, as Open MPI's mpirun does",
			Set: line.True(&p.Ctx.PreloadBinary)},
		{Names: "preload-files", Args: 1, Level: line.Done, Local: true,
			Means: "copies `FILE,...` to the hosts: a relative name to `$MPIUP_FILES` there, an absolute one to its place", Set: p.PreloadFiles},
	}
}

// universe is -usize, whose words are in capitals with Hydra too.
func (p *hydraParser) universe(v []string) error {
	if v[0] != "SYSTEM" && v[0] != "INFINITE" {
		if _, err := line.Number(v[0], 1, line.MaxRanks); err != nil {
			return fmt.Errorf("%w; SYSTEM and INFINITE are the words", err)
		}
	}
	p.Line.Universe = v[0]
	return nil
}

func (p *hydraParser) genv(v []string) error {
	if err := variable(v); err != nil {
		return err
	}
	p.ForAll = append(p.ForAll, v[0]+"="+v[1])
	return nil
}

func (p *hydraParser) env(v []string) error {
	if err := variable(v); err != nil {
		return err
	}
	p.Ctx.Env = append(p.Ctx.Env, v[0]+"="+v[1])
	return nil
}

// ilp64 is what Intel MPI's mpiexec does for it.
func (p *hydraParser) ilp64([]string) error { return p.genv([]string{"LD_PRELOAD", "libmpi_ilp64.so"}) }

// stdin is -s, whose ranks may be several.
func (p *hydraParser) stdin(v []string) error {
	if v[0] != "all" && v[0] != "none" {
		if set, err := idset.Parse(v[0]); err != nil || set.Empty() {
			return fmt.Errorf("%.40q names no ranks: write 0,2-3, all or none", v[0])
		}
	}
	p.Line.Stdin = v[0]
	return nil
}

func (p *hydraParser) iface(v []string) error {
	return p.genv([]string{"MPIR_CVAR_NEMESIS_TCP_NETWORK_IFACE", v[0]})
}

func variable(v []string) error {
	if v[0] == "" || strings.ContainsAny(v[0], "=\x00") || strings.ContainsRune(v[1], 0) {
		return fmt.Errorf("%.60q is no variable's name, or its value has a zero byte", v[0])
	}
	return line.Fits(v[0] + "=" + v[1])
}

// inheriting is -genvnone and its like; own is those of one program.
func (p *hydraParser) inheriting(in line.Inherit, own bool) func([]string) error {
	return func(_ []string) error { return p.inherit(in, own) }
}

// inherit takes one wish for all programs, or for one; several are an error, as with Hydra.
func (p *hydraParser) inherit(in line.Inherit, own bool) error {
	in.Given = true
	switch {
	case own && p.Ctx.Inherit != nil, !own && p.Line.Inherit.Given:
		return errors.New("what goes along of the environment is said already; say it once")
	case own:
		p.Ctx.Inherit = &in
	default:
		p.Line.Inherit = in
	}
	return nil
}

// inheritNames is -genvlist and its like: a list of what goes along, or of what does not.
func (p *hydraParser) inheritNames(except, own bool) func([]string) error {
	return func(v []string) error {
		var names []string
		for n := range strings.SplitSeq(v[0], ",") {
			if n = strings.TrimSpace(n); n != "" {
				names = append(names, n)
			}
		}
		switch {
		case len(names) == 0:
			return errors.New("the list is empty")
		case except:
			return p.inherit(line.Inherit{Except: names}, own)
		}
		return p.inherit(line.Inherit{Only: names}, own)
	}
}

// variables are those of Hydra and Intel MPI that mean something here.
func (p *hydraParser) variables() error {
	if v, ok := p.Out.Lookup("HYDRA_ENV"); ok && !p.Line.Inherit.Given {
		p.Line.Inherit.None = v != "all"
	}
	return cmp.Or(p.Variable("HYDRA_IFACE", "iface", p.iface), p.Variable("I_MPI_HYDRA_IFACE", "iface", p.iface),
		p.Variable("I_MPI_GTOOL", "gtool gtoolfile", p.tools), p.Variable("I_MPI_PERHOST", "ppn rr", p.perHost))
}

// perHost is I_MPI_PERHOST, of which all and allcores are so anyway.
func (p *hydraParser) perHost(v []string) error {
	if v[0] == "all" || v[0] == "allcores" {
		return nil
	}
	return line.Count(&p.Line.PerHost, line.MaxRanks)(v)
}

// programs reads -configfile: the lines as if ":" stood between them. A line that ends in a "\" of its own goes on,
// and "#" begins a comment.
func (p *hydraParser) programs(file, text string) error {
	if err := p.Programs(configured(text)); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

// configured is the words of Hydra's configuration file.
func configured(text string) (words []string) {
	for l := range strings.Lines(text) {
		l, _, _ = strings.Cut(l, "#")
		more := line.Words(l)
		last := len(words) - 1
		switch {
		case len(more) == 0:
			continue
		case last >= 0 && words[last] == "\\":
			words = words[:last]
		case last >= 0 && words[last] != ":":
			words = append(words, ":")
		}
		words = append(words, more...)
	}
	return words
}

// file is -f: hosts come from a list or from a file.
func (p *hydraParser) file(v []string) error {
	if p.Listed != nil || p.Ctx.Listed != nil {
		return errors.New("the hosts are listed already; give a list or a file")
	}
	return p.File(v)
}

// once takes a list of hosts, where none and no file was given.
func (p *hydraParser) once(to *[]string, set func([]string) error) func([]string) error {
	return func(v []string) error {
		if *to != nil || p.Hostfile != "" {
			return errors.New("the hosts are named already")
		}
		return set(v)
	}
}

// bindTo is -bind-to; it is read with -map-by, when both are known.
func (p *hydraParser) bindTo(v []string) error {
	p.bind = v[0]
	_, err := layout.ParseHydra(v[0], "")
	return err
}

// mapBy is -map-by, which concerns a host's objects alone, and nothing where ranks are not
// bound.
func (p *hydraParser) mapBy(v []string) error {
	p.objects = v[0]
	word, _, _ := strings.Cut(strings.ToLower(v[0]), ":")
	if slices.Contains([]string{"slot", "node", "rr", "none", "user"}, word) {
		return nil
	}
	_, err := layout.ParseHydra(v[0], "")
	return err
}

func (p *hydraParser) binds() (err error) {
	p.masked()
	if p.Line.Binding.Hydra, err = layout.ParseHydra(p.bind, p.objects); err != nil {
		return fmt.Errorf("-bind-to %.60s -map-by %.60s: %w", p.bind, p.objects, err)
	}
	return nil
}

// pattern is one of Hydra's patterns, of a file or of what stands before lines.
func (p *hydraParser) pattern(to *string, text string, file bool) error {
	switch {
	case text == "":
		return errors.New("the pattern is empty")
	case *to != "" || !file && p.Line.TagOutput:
		return errors.New("what stands there is said already; say it once")
	}
	for rest := text; ; {
		_, after, found := strings.Cut(rest, "%")
		if !found {
			break
		}
		known := "rghp%"
		if !file {
			known += "t"
		}
		if after == "" || !strings.Contains(known, after[:1]) {
			return fmt.Errorf("%%%.1s stands for nothing here; use %%r, %%h, %%p, %%g and %%%%", after)
		}
		rest = after[1:]
	}
	*to = text
	if file && !filepath.IsAbs(text) {
		*to = filepath.Join(strings.ReplaceAll(p.Out.Dir, "%", "%%"), text)
	}
	return nil
}
