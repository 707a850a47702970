package hostlist

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mpiup/mpiup/internal/visible"
)

// Dialect says by whose rules a hostfile or list is read. The rules differ in what a second mention of a host
// means, and in what may stand beside a host.
type Dialect int

const (
	// Own refuses a repeated host, and everything but slots.
	Own Dialect = iota
	// OpenMPI counts each bare mention of a host as a slot; slots that are written a second time
	// are an error (orte/util/hostfile). A user is left out: agents run everything as their own.
	OpenMPI
	// Hydra adds up a host's numbers if its mentions follow each other. Mentions that stand apart would mean
	// two turns of ranks, which mpiup does not do: they are an error. A user is left out.
	Hydra
)

// meaning of a word before "=" in a hostfile.
type meaning int

const (
	unknown meaning = iota
	asSlots
	asLimit
	asUser
)

// meaning reads Open MPI's spellings (orte/util/hostfile/hostfile_lex.l) and Hydra's "user".
func (d Dialect) meaning(key string) meaning {
	switch key = strings.ToLower(strings.ReplaceAll(key, "-", "_")); key {
	case "slots":
		return asSlots
	case "max_slots", "slots_max":
		return asLimit
	}
	if d == Own {
		return unknown
	}
	switch key {
	case "cpu", "count":
		return asSlots
	case "cpu_max", "max_cpu", "count_max", "max_count":
		return asLimit
	case "username", "user_name", "user":
		return asUser
	}
	return unknown
}

// bare is a host without the user before it.
func (d Dialect) bare(host string) string {
	if i := strings.LastIndexByte(host, '@'); i >= 0 && d != Own {
		return host[i+1:]
	}
	return host
}

// ParseListAs is ParseList by the rules of a dialect. By Open MPI's rules a bare mention is one slot, and
// ":*" or ":auto" means the host's own number (orte/util/dash_host).
func ParseListAs(list string, d Dialect) (entries []Entry, err error) {
	if len(list) > MaxFile {
		return nil, fmt.Errorf("host list of %d bytes is longer than %d", len(list), MaxFile)
	}
	if d == Own && strings.TrimSpace(list) == "" {
		return nil, errors.New("the host list is empty; write host[:slots],host[:slots]")
	}
	seen, left := map[string]int{}, maxRanges
	for _, item := range items(list) {
		item = d.bare(strings.TrimSpace(item))
		auto := false
		for _, own := range []string{":*", ":auto"} {
			if bare, ok := strings.CutSuffix(item, own); ok && d == OpenMPI {
				item, auto = bare, true
			}
		}
		if item == "" {
			return nil, fmt.Errorf("host list %s: a name is missing beside a comma", visible.Clip(list))
		}
		names, err := left.expand(item)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			e, err := parseHost(name, d)
			if err != nil {
				return nil, err
			}
			if d == OpenMPI && !e.Given && !auto {
				e.Slots, e.Given = 1, true
			}
			if entries, err = d.add(entries, seen, e); err != nil {
				return nil, err
			}
			if len(entries) > MaxHosts {
				return nil, fmt.Errorf("more than %d hosts", MaxHosts)
			}
		}
	}
	return entries, nil
}

// On leaves out hosts that are switched off, "slots=0" by Open MPI's rules. Where no other is left that is an error.
func On(entries []Entry) ([]Entry, error) {
	off := func(e Entry) bool { return e.Given && e.Slots == 0 }
	i := slices.IndexFunc(entries, off)
	if i < 0 {
		return entries, nil
	}
	on := slices.DeleteFunc(slices.Clone(entries), off)
	if len(on) == 0 {
		return nil, fmt.Errorf("%shost %s has 0 slots, and no other host has any; give one slots", entries[i].where(), entries[i].Name)
	}
	return on, nil
}

// key is a name by which two mentions of a host are known to be one.
func key(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }

// add puts e behind entries, or adds it to the entry of its host. seen has the entries' indices.
func (d Dialect) add(entries []Entry, seen map[string]int, e Entry) ([]Entry, error) {
	i, again := seen[key(e.Name)]
	if !again {
		seen[key(e.Name)] = len(entries)
		return append(entries, e), nil
	}
	first := &entries[i]
	inFile := e.File != ""
	switch {
	case d == OpenMPI && (!e.Given || !inFile), d == Hydra && i == len(entries)-1:
		first.Slots, first.Given = slotsOf(*first)+slotsOf(e), true
	case d == Hydra:
		return nil, fmt.Errorf("%shost %s is named again after another host: ranks that go back to it before all hosts had "+
			"theirs are not done; write it once with its number, %s",
			e.where(), e.Name, inList(e.Name, slotsOf(*first)+slotsOf(e)))
	case inFile:
		return nil, fmt.Errorf("%shost %s is on line %d already; write it once with its slots, \"%s slots=%d\"",
			e.where(), e.Name, first.Line, e.Name, slotsOf(*first)+slotsOf(e))
	default:
		return nil, fmt.Errorf("host %s is named twice; write it once with its slots, %s",
			e.Name, inList(e.Name, slotsOf(*first)+slotsOf(e)))
	}
	if first.Slots > MaxSlots {
		return nil, fmt.Errorf("%shost %s: %d slots are more than %d", e.where(), e.Name, first.Slots, MaxSlots)
	}
	return entries, nil
}

// where is the beginning of an error about an entry.
func (e Entry) where() string {
	if e.File == "" {
		return ""
	}
	return fmt.Sprintf("hostfile %s line %d: ", e.File, e.Line)
}
