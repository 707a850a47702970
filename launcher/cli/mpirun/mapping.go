package mpirun

import (
	"fmt"
	"slices"
	"strings"
)

// objects of a host, by which ranks are mapped within it: as to hosts all fill one after the other
// (orte/mca/rmaps/round_robin of Open MPI 4.1).
var objects = []string{"hwthread", "core", "l1cache", "l2cache", "l3cache", "socket", "package", "numa", "board",
	"l1", "l2", "l3", "hwt", "none", "user", "machine", "rr", "pci", "device", "network", "nic"}

// mapBy reads POLICY[:modifier[,modifier...]]..., in any case.
func (p *parser) mapBy(v []string) error {
	text := strings.ToLower(v[0])
	policy, rest, _ := strings.Cut(text, ":")
	switch {
	case policy == "ppr":
		var err error
		if rest, err = p.ppr(rest); err != nil {
			return err
		}
	case policy == "slot":
		p.line.MapBy = "slot"
	case policy == "node":
		p.line.MapBy = "node"
	case policy == "":
	case slices.Contains(objects, policy):
		p.line.Without = append(p.line.Without, "mapping by "+policy+" within a host")
	case policy == "seq" || policy == "rankfile" || policy == "dist" || policy == "pe-list":
		return fmt.Errorf("mapping by %s is not done: name the hosts in their order with their slots", policy)
	default:
		return fmt.Errorf("%q is not known; use slot, node, ppr:N:node or an object such as socket", policy)
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
		return "", fmt.Errorf("ppr counts ranks per node here, and %q is none: write ppr:N:node", object)
	}
	p.line.PerHost, err = number(n, 1)
	return modifiers, err
}

func (p *parser) modifier(m string) error {
	name, _, _ := strings.Cut(m, "=")
	switch name {
	case "oversubscribe":
		p.line.Oversubscribe = true
	case "nooversubscribe":
		p.line.Oversubscribe = false
	case "nolocal":
		p.line.NoLocal = true
	case "pe", "span", "hwtcpus", "corecpus", "inherit", "noinherit", "ordered", "overload-allowed", "display", "donotlaunch":
		p.line.Without = append(p.line.Without, "modifier "+m)
	default:
		return fmt.Errorf("modifier %q is not known", m)
	}
	return nil
}

// bindTo reads OBJECT[:modifier...]; ranks are not bound, but a word that nobody knows is an error.
func (p *parser) bindTo(v []string) error {
	object, _, _ := strings.Cut(strings.ToLower(v[0]), ":")
	if !slices.Contains(objects, object) && !strings.HasPrefix(object, "cpu-list") && object != "rr" && object != "map" {
		return fmt.Errorf("%q is not known; use none, hwthread, core, l3cache, numa or socket", object)
	}
	p.line.BindTo = object
	return nil
}
