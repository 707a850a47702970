package hostlist

import (
	"fmt"
	"slices"
	"strings"
)

// Place is a line of a file that stands for one rank (Open MPI's --map-by seq).
type Place struct {
	Name string
	CPUs string // what else stands there, "1,3"; "": nothing
	Line int
}

// ParsePlaces reads a hostfile as Open MPI's sequential mapper does (orte/mca/rmaps/seq), for which each
// line is a rank, whatever slots stand there. What else follows the name is that rank's CPUs.
// entries are the file's hosts.
//
//	n0
//	n1 1,3      a rank on n1, on its cores 1 and 3
//	n0          another one on n0
func ParsePlaces(text, name string) (places []Place, entries []Entry, err error) {
	seen, left := map[string]int{}, maxRanges
	line := 0
	for raw := range strings.Lines(text) {
		line++
		fields := fieldsOf(raw)
		if len(fields) == 0 {
			continue
		}
		var cpus []string
		words := slices.DeleteFunc(slices.Clone(fields[1:]), func(f string) bool {
			if !strings.Contains(f, "=") {
				cpus = append(cpus, f)
			}
			return !strings.Contains(f, "=")
		})
		some, err := parseLine(append(fields[:1:1], words...), OpenMPI, &left)
		if err != nil {
			return nil, nil, fmt.Errorf("%s line %d: %w", name, line, err)
		}
		for _, e := range some {
			e.Line, e.File = line, name
			if entries, err = OpenMPI.add(entries, seen, e); err != nil {
				return nil, nil, err
			}
			if len(entries) > MaxHosts || len(places) == MaxPlaces {
				return nil, nil, fmt.Errorf("%s line %d: more than %d hosts or %d ranks", name, line, MaxHosts, MaxPlaces)
			}
			places = append(places, Place{Name: e.Name, CPUs: strings.Join(cpus, ""), Line: line})
		}
	}
	if len(places) == 0 {
		return nil, nil, fmt.Errorf("%s names no host", name)
	}
	return places, entries, nil
}
