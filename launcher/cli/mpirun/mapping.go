package mpirun

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// objects of a host, by which ranks are mapped within it: as to hosts all fill one after the other
// (orte/mca/rmaps/round_robin of Open MPI 4.1).
var objects = []string{"hwthread", "core", "l1cache", "l2cache", "l3cache", "socket", "package", "numa", "board",
	"l1", "l2", "l3", "hwt", "machine"}

// hydraObjects are further words of Hydra's -bind-to and -map-by.
var hydraObjects = []string{"rr", "l1dcache", "l1icache", "l1ucache", "l2dcache", "l2icache", "l2ucache", "l3dcache", "l3icache", "l3ucache",
	"l4cache", "l5cache", "pci", "gpu", "ib", "en", "eth", "hfi", "slot", "node", "user"}

// mapBy reads Open MPI's POLICY[:modifier[,modifier...]]..., in any case.
func (p *parser) mapBy(v []string) error {
	p.line.MapBy, p.line.PerHost = "", 0
	text := strings.ToLower(v[0])
	policy, rest, _ := strings.Cut(text, ":")
	switch {
	case policy == "ppr":
		var err error
		if rest, err = p.ppr(rest); err != nil {
			return err
		}
	case policy == "slot" || policy == "node":
		p.line.MapBy = policy
	case policy == "" && rest != "":
	case slices.Contains(objects, policy):
		p.without("mapping by " + policy + " within a host")
	case slices.Contains([]string{"seq", "sequential", "rankfile", "dist", "distance", "pe-list", "likwid", "lsf"}, policy):
		return fmt.Errorf("mapping by %s is not done: name the hosts in their order with their slots, -H a:2,b:2", policy)
	default:
		return fmt.Errorf("%.40q is not known; use slot, node, ppr:N:node or an object such as socket", policy)
	}
	for m := range strings.FieldsFuncSeq(rest, func(r rune) bool { return r == ':' || r == ',' }) {
		if err := p.modifier(m); err != nil {
			return err
		}
	}
	return nil
}

// ppr reads N:object of "ppr:N:object[:modifiers]" and returns the modifiers.
func (p *parser) ppr(text string) (modifiers string, err error) {
	n, rest, _ := strings.Cut(text, ":")
	object, modifiers, _ := strings.Cut(rest, ":")
	if object != "node" {
		return "", fmt.Errorf("ranks are counted per node here, and %.40q is none: write ppr:N:node", object)
	}
	p.line.PerHost, err = number(n, 1, maxRanks)
	return modifiers, err
}

func (p *parser) modifier(m string) error {
	name, value, _ := strings.Cut(m, "=")
	switch name {
	case "oversubscribe":
		p.line.Oversubscribe = true
	case "nooversubscribe":
		p.line.Oversubscribe = false
	case "nolocal":
		p.line.NoLocal = true
	case "pe":
		if _, err := number(value, 1, maxRanks); err != nil {
			return fmt.Errorf("modifier %.40s: %w", m, err)
		}
		p.without("modifier " + m)
	case "hwtcpus", "corecpus", "inherit", "noinherit", "ordered", "overload-allowed", "if-supported":
		p.without("modifier " + m)
	case "span", "pe-list", "file":
		return fmt.Errorf("modifier %s is not done: map by slot or node", name)
	default:
		return fmt.Errorf("modifier %.40q is not known", m)
	}
	return nil
}

// rankBy reads Open MPI's --rank-by. Objects number the ranks within a host.
func (p *parser) rankBy(v []string) error {
	by, modifier, _ := strings.Cut(strings.ToLower(v[0]), ":")
	switch {
	case by == "span" || modifier == "span":
		return errors.New("numbers that go over the objects of all hosts are not done: use slot or node")
	case modifier != "":
		return fmt.Errorf("modifier %.40q is not known", modifier)
	case by == "slot" || by == "node":
		p.line.RankBy = by
	case by == "fill":
		p.line.RankBy = "slot"
	case slices.Contains(objects, by):
		p.line.RankBy = "slot"
		p.without("ranking by " + by + " within a host")
	default:
		return fmt.Errorf("%.40q is not known; use slot, node or an object such as socket", by)
	}
	return nil
}

// bindTo reads OBJECT[:modifier...]. Ranks are not bound; a word that nobody knows is an error.
func (p *parser) bindTo(v []string) error {
	object, rest, _ := strings.Cut(strings.ToLower(v[0]), ":")
	known := slices.Contains(objects, object) || p.line.Family == Hydra && slices.Contains(hydraObjects, object)
	switch {
	case object == "none":
	case object == "cpu-list", object == "cpulist", object == "user":
		return errors.New("ranks are not bound to CPUs of a list: start them through a script that calls taskset, by OMPI_COMM_WORLD_LOCAL_RANK or MPI_LOCALRANKID")
	case object == "" && rest != "", object == "board", known:
		p.without("--bind-to " + v[0])
	default:
		return fmt.Errorf("%.40q is not known; use none, hwthread, core, l3cache, numa or socket", object)
	}
	p.line.BindTo = object
	return nil
}

// within is Hydra's -map-by, which concerns a host's objects alone.
func (p *parser) within(v []string) error {
	object, _, _ := strings.Cut(strings.ToLower(v[0]), ":")
	if !slices.Contains(objects, object) && !slices.Contains(hydraObjects, object) && object != "none" {
		return fmt.Errorf("%.40q is not known; use an object such as core or socket", object)
	}
	return nil
}
