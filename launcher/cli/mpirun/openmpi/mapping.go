package openmpi

import (
	"errors"
	"fmt"

	"github.com/mpiup/mpiup/internal/binding"
	"github.com/mpiup/mpiup/internal/layout"
	"github.com/mpiup/mpiup/launcher/cli/mpirun/line"
)

// mapBy is Open MPI's --map-by; what concerns hosts goes into the line's own fields.
func (p *parser) mapBy(v []string) error {
	l := &p.Line
	m, err := binding.ParseMapBy(v[0])
	if err != nil {
		return err
	}
	if m.Policy == "" { // only modifiers: the mapping stays
		was := l.Binding.Map
		m.Policy, m.Object, m.N = was.Policy, was.Object, was.N
	} else {
		l.MapBy, l.PerHost = "", 0
	}
	switch {
	case m.Policy == "slot", m.Policy == "node":
		l.MapBy = m.Policy
	case m.Policy == "ppr" && m.Object == layout.None:
		l.PerHost = m.N
	}
	if m.Slots != binding.Unsaid {
		l.Oversubscribe = m.Slots == binding.Allowed
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
	m.Slots, m.NoLocal = binding.Unsaid, false
	l.Binding.Map = m
	if m.CPUs != nil {
		l.Binding.CPUs, l.Binding.Ordered = m.CPUs, m.Ordered
	}
	return nil
}

// perNode is -N, which is ppr:N:node.
func (p *parser) perNode(v []string) error {
	if err := p.PerHost(v); err != nil {
		return err
	}
	p.Line.MapBy = ""
	p.Line.Binding.Map = binding.Mapping{Policy: "ppr", N: p.Line.PerHost, PE: p.Line.Binding.Map.PE}
	return nil
}

// perSocket is --npersocket, which is ppr:N:socket.
func (p *parser) perSocket(v []string) error { return p.mapBy([]string{"ppr:" + v[0] + ":socket"}) }

// cpusPerRank is --cpus-per-proc, which is PE=N.
func (p *parser) cpusPerRank(v []string) (err error) {
	p.Line.Binding.Map.PE, err = line.Number(v[0], 1, layout.MaxThreads)
	return err
}

// rankBy is Open MPI's --rank-by.
func (p *parser) rankBy(v []string) error {
	r, err := binding.ParseRankBy(v[0])
	if err != nil {
		return err
	}
	p.Line.Binding.Rank = r
	if p.Line.RankBy = r.By; r.By == "fill" || r.By == "object" {
		p.Line.RankBy = "slot"
	}
	return nil
}

// bindTo is --bind-to.
func (p *parser) bindTo(v []string) (err error) {
	p.Line.Binding.Bind, err = binding.ParseBindTo(v[0], p.Line.Binding.Bind)
	return err
}

// cpuSet is --cpu-set.
func (p *parser) cpuSet(v []string) (err error) {
	p.Line.Binding.CPUs, err = binding.ParseCPUs(v[0])
	return err
}

func (p *parser) rankFile(v []string) error {
	if v[0] == "" {
		return errors.New("a file has a name")
	}
	text, err := p.Out.ReadFile(v[0])
	if err == nil {
		p.Line.Binding.Lines, err = binding.ParseRankfile(string(text))
	}
	return err // the option that is named before it has the file's name
}

// binds joins what was said about CPUs in several places.
func (p *parser) binds() (err error) {
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
