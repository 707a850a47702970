package line

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
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
	several := p.Rules.Family == OpenMPI && len(p.Line.Contexts) > 1 // each has its own share of a host
	for i := range p.Line.Contexts {                                 // one program's may be all there are
		if c := &p.Line.Contexts[i]; slices.Equal(c.On, all) && !several {
			c.On = nil
		}
	}
	if all == nil && p.Hostfile != "" {
		all, err = p.Rules.Hosts(p.Hostfile)
	}
	if err == nil {
		all, err = p.switchedOn(all)
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

// switchedOn leaves out hosts that have 0 slots, of all programs.
func (p *Parser) switchedOn(all []hostlist.Entry) (_ []hostlist.Entry, err error) {
	for i := range p.Line.Contexts {
		c := &p.Line.Contexts[i]
		if c.On, err = hostlist.On(c.On); err != nil {
			return nil, err
		}
	}
	return hostlist.On(all)
}

// AddUp gives each host the sum of the slots that the programs' lists give it, as Open MPI 5 does; else it has the
// largest of them.
func (l *Line) AddUp() {
	for i := range l.Entries {
		e := &l.Entries[i]
		sum := 0
		for _, c := range l.Contexts {
			for _, on := range c.On {
				if strings.EqualFold(on.Name, e.Name) {
					sum += on.Slots
				}
			}
		}
		if e.Given && sum > e.Slots {
			e.Slots = min(sum, hostlist.MaxSlots)
		}
	}
}

// named are the hosts of one program's or of all programs' lists, by their whole names; nil: there
// are none.
func (p *Parser) named(lists []string) ([]hostlist.Entry, error) {
	if lists == nil {
		return nil, nil
	}
	list := strings.Join(lists, ",")
	relative, list, err := p.relative(list)
	if err != nil {
		return nil, err
	}
	var named []hostlist.Entry
	if list != "" || relative == nil {
		named, err = hostlist.ParseListAs(list, p.Rules.Dialect)
	}
	if err == nil && p.Hostfile == "" {
		named, err = p.complete(named)
	}
	if err == nil && p.Hostfile == "" {
		return beside(named, relative), nil
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("the host list: %w", err)
	}
	all, err := p.Rules.Hosts(p.Hostfile)
	if err != nil {
		return nil, err
	}
	chosen, err := choose(named, all, p.Hostfile)
	return beside(chosen, relative), err
}

// relative takes Open MPI 4.1's relative hosts out of a list: "+n1" is the second host of the hostfile, or of the
// operator's, and "+e" each host there, all of which are empty before the run (orte/util/dash_host). They have the slots
// that they have there. Where no file names hosts there is this one.
func (p *Parser) relative(list string) (found []hostlist.Entry, rest string, err error) {
	if p.Rules.Family != OpenMPI || !strings.Contains(list, "+") {
		return nil, list, nil
	}
	all := []hostlist.Entry{{Name: "localhost"}}
	switch {
	case p.Hostfile != "":
		all, err = p.Rules.Hosts(p.Hostfile)
	case p.Out.Operators != nil:
		if known, e := p.Out.Operators(); e == nil && len(known) > 0 {
			all = known
		}
	}
	if err != nil {
		return nil, "", err
	}

	var others []string
	for item := range strings.SplitSeq(list, ",") {
		item = strings.TrimSpace(item)
		if !strings.HasPrefix(item, "+") {
			others = append(others, item)
			continue
		}
		which, slots, _ := strings.Cut(strings.ToLower(item), ":")
		index, numbered := strings.CutPrefix(which, "+n")
		n, err := strconv.Atoi(index)
		switch {
		case which == "+e" && slots == "":
			found = beside(found, all)
		case which == "+e":
			return nil, "", fmt.Errorf("host %.40s: so many empty hosts are not chosen, nor does Open MPI 4.1 find them; name the hosts, or write +e for all", item)
		case !numbered || err != nil || n < 0:
			return nil, "", fmt.Errorf("host %.40s: a relative host is +n0, +n1 and so on, or +e", item)
		case n >= len(all):
			return nil, "", fmt.Errorf("host %.40s: hosts are counted from 0, and there are %d", item, len(all))
		default:
			found = beside(found, all[n:n+1])
		}
	}
	return found, strings.Join(others, ","), nil
}

// beside is a list of hosts with those of another that it does not have.
func beside(list, more []hostlist.Entry) []hostlist.Entry {
	for _, e := range more {
		if !slices.ContainsFunc(list, func(have hostlist.Entry) bool { return strings.EqualFold(have.Name, e.Name) }) {
			list = append(list, e)
		}
	}
	return list
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
