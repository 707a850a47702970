package line

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/mpiup/mpiup/internal/hostlist"
)

// Hosts joins lists and file. With Open MPI a list chooses from a file. The operator's hostfile,
// where there is one, completes the names of a list: a worker has no name but its full one.
// A line that names no program is an error.
func (p *Parser) Hosts() error {
	all, err := p.named(p.Listed)
	if err != nil {
		return err
	}
	for i := range p.Line.Contexts {
		c := &p.Line.Contexts[i]
		if c.On, err = p.named(c.Listed); err != nil {
			return err
		}
		all = union(all, c.On)
	}
	for i := range p.Line.Contexts { // one program's may be all there are
		if c := &p.Line.Contexts[i]; slices.Equal(c.On, all) {
			c.On = nil
		}
	}
	if all == nil && p.Hostfile != "" {
		all, err = p.Rules.Hosts(p.Hostfile)
	}
	for i := range all {
		if e := &all[i]; !e.Given && p.Slots > 0 {
			e.Slots, e.Given = p.Slots, true
		}
	}
	p.Line.Entries = all
	if err == nil && len(p.Line.Contexts) == 0 {
		err = errors.New("which program? write mpirun -n 4 ./a.out")
	}
	return err
}

// named are the hosts of one program's or of all programs' lists, by their whole names; nil: there
// are none.
func (p *Parser) named(lists []string) ([]hostlist.Entry, error) {
	if lists == nil {
		return nil, nil
	}
	named, err := hostlist.ParseListAs(strings.Join(lists, ","), p.Rules.Dialect)
	switch {
	case err != nil:
		return nil, fmt.Errorf("the host list: %w", err)
	case p.Hostfile == "":
		return p.complete(named)
	}
	all, err := p.Rules.Hosts(p.Hostfile)
	if err != nil {
		return nil, err
	}
	return choose(named, all, p.Hostfile)
}

// union adds hosts that are not among all yet; one that is gets the larger number of slots.
func union(all, more []hostlist.Entry) []hostlist.Entry {
	if all == nil {
		return slices.Clone(more)
	}
	at := make(map[string]int, len(all))
	for i, e := range all {
		at[strings.ToLower(e.Name)] = i
	}
	for _, e := range more {
		i, there := at[strings.ToLower(e.Name)]
		if !there {
			at[strings.ToLower(e.Name)] = len(all)
			all = append(all, e)
		} else if a := &all[i]; a.Given && e.Given {
			a.Slots = max(a.Slots, e.Slots)
		}
	}
	return all
}

// choose takes the hosts of a file that a list names, with the slots of the list, which may be more
// than the file's. ":*" is those of the file.
func choose(named, all []hostlist.Entry, file string) (chosen []hostlist.Entry, err error) {
	for _, e := range named {
		i, err := FindHost(all, e.Name)
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
func (p *Parser) complete(named []hostlist.Entry) ([]hostlist.Entry, error) {
	if named == nil || p.Out.Operators == nil {
		return named, nil
	}
	all, err := p.Out.Operators()
	if err != nil || len(all) == 0 { // a file that is not needed may be missing
		return named, nil
	}
	for i := range named {
		e := &named[i]
		_, notIP := netip.ParseAddr(e.Name)
		at, err := FindHost(all, e.Name)
		switch {
		case err != nil:
			return nil, err
		case at >= 0:
			e.Name = all[at].Name
		case notIP != nil && !strings.EqualFold(e.Name, "localhost") && Short(e.Name) != Short(p.Out.Host):
			return nil, fmt.Errorf("host %s is not one of the job's %d hosts, %s and so on (the operator's hostfile); name one of those",
				e.Name, len(all), all[0].Name)
		}
	}
	return named, hostlist.CheckDistinct(named)
}

// FindHost is the host of that name, or whose first label is the name's; -1: there is none.
func FindHost(all []hostlist.Entry, name string) (int, error) {
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
		if _, err := netip.ParseAddr(e.Name); err == nil || Short(e.Name) != Short(name) {
			continue
		}
		if found >= 0 {
			return -1, fmt.Errorf("host %s may be %s or %s; write the whole name", name, all[found].Name, e.Name)
		}
		found = i
	}
	return found, nil
}

// Short is the first label of a name, in lower case.
func Short(name string) string {
	s, _, _ := strings.Cut(strings.ToLower(name), ".")
	return s
}
