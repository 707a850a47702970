package mpirun

import (
	"errors"
	"fmt"

	"github.com/mpiup/mpiup/internal/layout"
	"github.com/mpiup/mpiup/launcher/cli/mpirun/line"
)

// placing is the options that say which rank is where and on which CPUs.
type placing struct{ *openMPIParser }

func (p placing) rows() []line.Row {
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
		{Names: "oversubscribe", Level: line.Done, Means: "slots are no limit", Set: line.True(&p.Line.Oversubscribe)},
		{Names: "nooversubscribe", Level: line.Done, Means: "slots are a limit (so anyway)", Set: p.On(func(l *line.Line) { l.Oversubscribe = false })},
		{Names: "nolocal", Level: line.Done, Means: "no rank on the launcher's own host", Set: line.True(&p.Line.NoLocal)},
		{Names: "bynode", Level: line.Done, Means: "as `--map-by node`", Set: line.As(p.mapBy, "node")},
		{Names: "byslot", Level: line.Done, Means: "as `--map-by slot`", Set: line.As(p.mapBy, "slot")},
		{Names: "bycore", Level: line.Done, Means: "as `--map-by core`", Set: line.As(p.mapBy, "core")},
		{Names: "bysocket", Level: line.Done, Means: "as `--map-by socket`", Set: line.As(p.mapBy, "socket")},
		{Names: "npersocket", Args: 1, Level: line.Done, Means: "as `--map-by ppr:N:socket`", Set: p.perSocket},
		{Names: "cpus-per-proc cpus-per-rank", Args: 1, Level: line.Done, Means: "as `--map-by :PE=N`", Set: line.Count(&p.Line.Binding.Map.PE, layout.MaxThreads)},
		{Names: "bind-to binding", Args: 1, Level: line.Done, Set: p.bindTo,
			Means: "`none`, `hwthread`, `core`, `l1cache` to `l3cache`, `numa`, `socket` (`package`), `cpu-list[:ordered]`; `:overload-allowed`. By default nothing is bound that others may use ([binding.md](binding.md))"},
		{Names: "bind-to-core", Level: line.Done, Means: "as `--bind-to core`", Set: line.As(p.bindTo, "core")},
		{Names: "bind-to-socket", Level: line.Done, Means: "as `--bind-to socket`", Set: line.As(p.bindTo, "socket")},
		{Names: "use-hwthread-cpus", Level: line.Done, Means: "hardware threads count as CPUs, not cores", Set: line.True(&p.Line.Binding.HWThreads)},
		{Names: "rankfile rf", Args: 1, Level: line.Done,
			Means: "file with the host and CPUs of each rank; its hosts are the job's where nothing else names any", Set: p.rankFile},
		{Names: "cpu-set cpu-list", Args: 1, Level: line.Done, Set: p.cpuSet,
			Means: "ranks get only these CPUs of each host: logical numbers of cores, `1:0-3` of a socket's, `p0-3` the kernel's"},
		{Names: "app", Args: 1, Level: line.Done, Means: "file with a program and its options a line, without quotes", Set: p.ProgramFile},
	}
}

// mapBy is Open MPI's --map-by; what concerns hosts goes into the line's own fields.
func (p placing) mapBy(v []string) error {
	l := &p.Line
	m, err := layout.ParseMapBy(v[0])
	if err != nil {
		return err
	}
	if m.Policy == "" { // only modifiers: the mapping stays
		was := l.Binding.Map
		m.Policy, m.Object, m.N = was.Policy, was.Object, was.N
	} else {
		l.PerHost = 0
	}
	if m.Policy == "ppr" && m.Object == layout.None {
		l.PerHost = m.N
	}
	if m.Slots != layout.Unsaid {
		l.Oversubscribe = m.Slots == layout.Allowed
	}
	if m.NoLocal {
		l.NoLocal = true
	}
	switch {
	case m.File == "":
	case m.Policy == "seq":
		p.seqFile = p.Absolute(m.File)
	default:
		if err := p.rankFile([]string{m.File}); err != nil {
			return err
		}
	}
	if m.HWThreads {
		l.Binding.HWThreads = true
	}
	m.Slots, m.NoLocal = layout.Unsaid, false
	l.Binding.Map = m
	if m.CPUs != nil {
		l.Binding.CPUs, l.Binding.Ordered = m.CPUs, m.Ordered
	}
	return nil
}

// perNode is -N, which is ppr:N:node.
func (p placing) perNode(v []string) error {
	if err := line.Count(&p.Line.PerHost, line.MaxRanks)(v); err != nil {
		return err
	}
	p.Line.Binding.Map = layout.Mapping{Policy: "ppr", N: p.Line.PerHost, PE: p.Line.Binding.Map.PE}
	return nil
}

// perSocket is --npersocket, which is ppr:N:socket.
func (p placing) perSocket(v []string) error {
	return p.mapBy([]string{"ppr:" + v[0] + ":socket"})
}

func (p placing) rankBy(v []string) (err error) {
	p.Line.Binding.Rank, err = layout.ParseRankBy(v[0])
	return err
}

func (p placing) bindTo(v []string) (err error) {
	p.Line.Binding.Bind, err = layout.ParseBindTo(v[0], p.Line.Binding.Bind)
	return err
}

func (p placing) cpuSet(v []string) (err error) {
	p.Line.Binding.CPUs, err = layout.ParseCPUs(v[0])
	return err
}

func (p placing) rankFile(v []string) error {
	if v[0] == "" {
		return errors.New("a file has a name")
	}
	text, err := p.Out.ReadFile(v[0])
	if err == nil {
		p.Line.Binding.Lines, err = layout.ParseRankfile(string(text))
	}
	return err // the option that is named before it has the file's name
}

// binds joins what was said about CPUs in several places.
func (p placing) binds() (err error) {
	l := &p.Line
	b := &l.Binding
	switch {
	case b.Map.Policy == "rankfile" && b.Lines == nil:
		return errors.New("--map-by rankfile: the file is missing; write --rankfile FILE or --map-by rankfile:FILE=PATH")
	case b.Bind.List && b.CPUs == nil:
		return errors.New("--bind-to cpu-list: no CPUs are listed; write --cpu-list LIST")
	case b.Map.Ordered && b.CPUs == nil:
		return errors.New("--map-by ...:ordered: no CPUs are listed; write PE-LIST=LIST")
	}
	if b.Lines != nil && l.Entries == nil && !p.sequential() {
		if l.Otherwise, err = RankfileHosts(b.Lines); err != nil {
			return fmt.Errorf("the rankfile: %w", err)
		}
	}
	if p.kernelNumbers {
		for i := range b.Lines {
			b.Lines[i].CPUs = b.Lines[i].CPUs.Kernel()
		}
	}
	return nil
}
