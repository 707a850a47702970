package mpirun

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mpiup/mpiup/internal/hostlist"
	"github.com/mpiup/mpiup/internal/layout"
	"github.com/mpiup/mpiup/launcher/cli/mpirun/line"
)

// places reads a hostfile whose lines stand for ranks.
func (p placing) places(file string) ([]hostlist.Place, []hostlist.Entry, error) {
	text, err := p.Out.ReadFile(file)
	if err != nil {
		return nil, nil, fmt.Errorf("hostfile %s: %w", file, err)
	}
	return hostlist.ParsePlaces(string(text), file)
}

// hosts are the hosts of a file. The sequential mapper knows more in it than other readers do.
func (p placing) hosts(file string) ([]hostlist.Entry, error) {
	if p.sequential() {
		_, entries, err := p.places(file)
		return entries, err
	}
	return p.Out.Hostfile(file, hostlist.OpenMPI)
}

// sequential says that ranks go to hosts in the order in which those are named.
func (p placing) sequential() bool {
	return p.seqMapper || p.Line.Binding.Map.Policy == "seq"
}

// sequence gives each rank its host for --map-by seq: the next one of its program's list, if it has one. Else it is
// the host of the next line of seq:FILE=, of the hostfile, of the operator's or of the installation's default hostfile, in
// which programs follow each other (orte/mca/rmaps/seq).
func (p placing) sequence() error {
	l := &p.Line
	switch {
	case !p.sequential():
		return nil
	case l.Binding.Lines != nil:
		return errors.New("--map-by seq and a rankfile both say where each rank goes; give one")
	}
	l.PerHost = 0
	m := &l.Binding.Map
	m.Policy, m.Object, m.N, m.Span = "seq", layout.None, 0, false
	common, where, err := p.commonPlaces()
	if err != nil {
		return err
	}
	for i := range l.Contexts {
		c := &l.Contexts[i]
		own, from := common, where
		if c.Listed != nil && p.seqFile == "" {
			if own, err = p.listedPlaces(c.Listed); err != nil {
				return err
			}
			from = "its list of hosts"
		}
		if l.NoLocal {
			own = slices.DeleteFunc(own, func(pl hostlist.Place) bool { return line.Short(pl.Name) == line.Short(p.Out.Host) })
		}
		c.N = cmp.Or(c.N, len(own))
		if c.N > len(own) || len(own) == 0 {
			return fmt.Errorf("--map-by seq: %d ranks of %s and %d hosts for them, one for each, in %s; name more, or ask for fewer ranks",
				c.N, c.Argv[0], len(own), from)
		}
		if err := p.seat(own[:c.N]); err != nil {
			return fmt.Errorf("%s %w", from, err)
		}
		if c.On = nil; c.Listed == nil || p.seqFile != "" {
			common = own[c.N:]
		}
	}
	return nil
}

func (p placing) seat(places []hostlist.Place) error {
	lines := &p.Line.Binding.Lines
	for _, pl := range places {
		l := layout.Line{Rank: len(*lines), Host: pl.Name, At: pl.Line}
		if pl.CPUs != "" {
			var err error
			if l.CPUs, err = layout.ParseCPUs(pl.CPUs); err != nil {
				return fmt.Errorf("line %d: %w", pl.Line, err)
			}
		}
		if *lines = append(*lines, l); len(*lines) > line.MaxRanks {
			return fmt.Errorf("has more than %d ranks", line.MaxRanks)
		}
	}
	return nil
}

// commonPlaces are those of programs without a list, and where they stand.
func (p placing) commonPlaces() (places []hostlist.Place, where string, err error) {
	switch {
	case p.seqFile != "":
		places, hosts, err := p.places(p.seqFile)
		if p.Line.Entries == nil {
			p.Line.Otherwise = hosts
		}
		return places, "hostfile " + p.seqFile, err
	case p.Hostfile != "":
		places, _, err = p.places(p.Hostfile)
		return places, "hostfile " + p.Hostfile, err
	}
	where = "no file; write --hostfile FILE"
	if p.Out.Operators != nil {
		where = "the operator's hostfile"
		all, err := p.Out.Operators()
		for _, e := range all {
			places = append(places, hostlist.Place{Name: e.Name, Line: e.Line})
		}
		if err != nil || len(places) > 0 {
			return places, where, err
		}
	}
	file, text := p.installedHostfile()
	if file == "" {
		return nil, where, nil
	}
	places, hosts, err := hostlist.ParsePlaces(text, file)
	if err != nil {
		return nil, "", &line.ElsewhereError{Err: err}
	}
	if p.Line.Entries == nil {
		p.Line.Otherwise, p.Line.OtherwiseFrom = hosts, file
	}
	return places, "hostfile " + file, nil
}

// listedPlaces are the mentions of hosts in a program's lists, by their whole names.
func (p placing) listedPlaces(lists []string) (places []hostlist.Place, err error) {
	whole := map[string]string{}
	for _, e := range p.Line.Entries {
		whole[strings.ToLower(e.Name)] = e.Name
	}
	for item := range strings.SplitSeq(strings.Join(lists, ","), ",") {
		one, err := hostlist.ParseListAs(item, hostlist.OpenMPI)
		if err != nil {
			return nil, fmt.Errorf("the host list: %w", err)
		}
		name, known := whole[strings.ToLower(one[0].Name)]
		if !known {
			at, err := line.FindHost(p.Line.Entries, one[0].Name)
			if err != nil {
				return nil, err
			}
			if at < 0 {
				return nil, fmt.Errorf("host %s is not one of the job's", one[0].Name)
			}
			name = p.Line.Entries[at].Name
			whole[strings.ToLower(one[0].Name)] = name
		}
		places = append(places, hostlist.Place{Name: name})
	}
	return places, nil
}

// RankfileHosts are the hosts of a rankfile, a slot for each rank. They are the job's where nothing else
// names any, as with Open MPI 4.1.
func RankfileHosts(lines []layout.Line) ([]hostlist.Entry, error) {
	names := make([]string, len(lines))
	for i, l := range lines {
		if l.Host == "" { // one of other hosts
			return nil, nil
		}
		names[i] = l.Host
		if strings.Contains(l.Host, ":") {
			names[i] = "[" + l.Host + "]"
		}
	}
	return hostlist.ParseListAs(strings.Join(names, ","), hostlist.OpenMPI)
}
