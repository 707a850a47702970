package mpirun

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/mpiup/mpiup/internal/hostlist"
)

func (f Family) dialect() hostlist.Dialect {
	if f == Hydra {
		return hostlist.Hydra
	}
	return hostlist.OpenMPI
}

// hosts joins lists and file. With Open MPI a list chooses from a file. The operator's hostfile,
// where there is one, completes the names of a list: a worker has no name but its full one.
func (p *parser) hosts() error {
	d := p.line.Family.dialect()
	var named []hostlist.Entry
	if p.listed != nil {
		var err error
		if named, err = hostlist.ParseListAs(strings.Join(p.listed, ","), d); err != nil {
			return fmt.Errorf("the host list: %w", err)
		}
	}
	var err error
	switch {
	case p.hostfile == "":
		p.line.Entries, err = p.complete(named)
	case named == nil:
		p.line.Entries, err = p.out.Hostfile(p.hostfile, d)
	default:
		var all []hostlist.Entry
		if all, err = p.out.Hostfile(p.hostfile, d); err == nil {
			p.line.Entries, err = choose(named, all, p.hostfile)
		}
	}
	if err != nil {
		return err
	}
	for i := range p.line.Entries {
		if e := &p.line.Entries[i]; !e.Given && p.slots > 0 && p.line.Family == OpenMPI {
			e.Slots, e.Given = p.slots, true
		}
	}
	return nil
}

// choose takes the hosts of a file that a list names, with the slots of the list, which may be more
// than the file's. ":*" is those of the file.
func choose(named, all []hostlist.Entry, file string) (chosen []hostlist.Entry, err error) {
	for _, e := range named {
		i, err := find(all, e.Name)
		switch {
		case err != nil:
			return nil, fmt.Errorf("%s: %w", file, err)
		case i < 0:
			return nil, fmt.Errorf("host %s is not in hostfile %s: name hosts of the file, or leave the file out", e.Name, file)
		}
		c := all[i]
		if e.Given {
			c.Slots, c.Given = e.Slots, true
		}
		chosen = append(chosen, c)
	}
	return chosen, hostlist.CheckDistinct(chosen)
}

// complete gives the hosts of a list the names that the operator's hostfile has for them.
func (p *parser) complete(named []hostlist.Entry) ([]hostlist.Entry, error) {
	if named == nil || p.out.Operators == nil {
		return named, nil
	}
	all, err := p.out.Operators()
	if err != nil || len(all) == 0 { // a file that is not needed may be missing
		return named, nil
	}
	for i := range named {
		e := &named[i]
		_, notIP := netip.ParseAddr(e.Name)
		at, err := find(all, e.Name)
		switch {
		case err != nil:
			return nil, err
		case at >= 0:
			e.Name = all[at].Name
		case notIP != nil && !strings.EqualFold(e.Name, "localhost") && short(e.Name) != short(p.out.Host):
			return nil, fmt.Errorf("host %s is not one of the job's %d hosts, %s and so on (the operator's hostfile); name one of those",
				e.Name, len(all), all[0].Name)
		}
	}
	return named, hostlist.CheckDistinct(named)
}

// find is the host of that name, or whose first label is the name's; -1: there is none.
func find(all []hostlist.Entry, name string) (int, error) {
	name = strings.TrimSuffix(name, ".")
	same := func(e hostlist.Entry) bool { return strings.EqualFold(strings.TrimSuffix(e.Name, "."), name) }
	if i := slices.IndexFunc(all, same); i >= 0 {
		return i, nil
	}
	if _, err := netip.ParseAddr(name); err == nil {
		return -1, nil
	}
	found := -1
	for i, e := range all {
		if _, err := netip.ParseAddr(e.Name); err == nil || short(e.Name) != short(name) {
			continue
		}
		if found >= 0 {
			return -1, fmt.Errorf("host %s may be %s or %s; write the whole name", name, all[found].Name, e.Name)
		}
		found = i
	}
	return found, nil
}

func short(name string) string {
	s, _, _ := strings.Cut(strings.ToLower(name), ".")
	return s
}
