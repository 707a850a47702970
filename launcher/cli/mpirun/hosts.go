package mpirun

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mpiup/mpiup/internal/hostlist"
)

// mentions reads one list of hosts. For Open MPI every bare mention of a host is one slot and ":N"
// is N (orte/util/dash_host); for Hydra a bare one takes as many as -ppn says.
func (p *parser) mentions(list string) ([]hostlist.Entry, error) {
	var entries []hostlist.Entry
	for item := range strings.SplitSeq(list, ",") {
		item = strings.TrimSpace(item)
		if at := strings.LastIndexByte(item, '@'); at >= 0 {
			item = item[at+1:] // a user: agents run everything as their own
		}
		name, slots, _ := strings.Cut(item, ":")
		counted := slots == "*" || slots == "auto" // the host's own number
		if counted {
			item = name
		}
		e, err := hostlist.ParseList(item)
		if err != nil {
			return nil, err
		}
		if !e[0].Given && !counted && p.line.Family == OpenMPI {
			e[0].Slots, e[0].Given = 1, true
		}
		entries = merge(entries, e[0])
	}
	return entries, nil
}

// merge adds a host; one that is there already gets more slots.
func merge(entries []hostlist.Entry, e hostlist.Entry) []hostlist.Entry {
	for i := range entries {
		if strings.EqualFold(entries[i].Name, e.Name) {
			entries[i].Slots += e.Slots
			entries[i].Given = entries[i].Given && e.Given
			return entries
		}
	}
	return append(entries, e)
}

// hosts joins lists and file: for Open MPI the list then chooses from the file.
func (p *parser) hosts() error {
	var named []hostlist.Entry
	for _, list := range p.listed {
		entries, err := p.mentions(list)
		if err != nil {
			return fmt.Errorf("the host list: %w", err)
		}
		for _, e := range entries {
			named = merge(named, e)
		}
	}
	if p.hostfile == "" {
		p.line.Entries = p.wrap(named)
		return nil
	}
	all, err := p.out.Hostfile(p.hostfile)
	if err != nil {
		return err
	}
	if named == nil {
		p.line.Entries = p.wrap(all)
		return nil
	}
	for _, e := range named {
		i := slices.IndexFunc(all, func(a hostlist.Entry) bool {
			return strings.EqualFold(a.Name, e.Name) || short(a.Name) == short(e.Name)
		})
		if i < 0 {
			return fmt.Errorf("host %s is not in hostfile %s: name hosts of the file, or leave the file out", e.Name, p.hostfile)
		}
		chosen := all[i]
		if e.Given && e.Slots > 1 {
			chosen.Slots, chosen.Given = e.Slots, true
		}
		p.line.Entries = append(p.line.Entries, chosen)
	}
	p.line.Entries = p.wrap(p.line.Entries)
	return nil
}

// wrap is Hydra's way with slots: ":N" says how many ranks go to a host at a time, and more
// ranks than that go round again.
func (p *parser) wrap(entries []hostlist.Entry) []hostlist.Entry {
	if p.line.Family != Hydra {
		return entries
	}
	p.line.Oversubscribe = true
	for i := range entries {
		if !entries[i].Given {
			entries[i].Slots, entries[i].Given = max(p.line.PerHost, 1), true
		}
	}
	return entries
}

func short(name string) string {
	s, _, _ := strings.Cut(strings.ToLower(name), ".")
	return s
}
