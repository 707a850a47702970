package placement

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/layout"
	"github.com/mpiup/mpiup/internal/visible"
)

// placeLines gives every rank the host of its line in a rankfile, or in the order of the hosts. Every rank
// has one.
func placeLines(hosts []job.Host, apps []job.App, p Policy) (*job.Plan, error) {
	sizes, total := sizesOf(apps)
	if total == 0 {
		total, sizes[0] = len(p.Binding.Lines), len(p.Binding.Lines)
	}
	if total > MaxRanks {
		return nil, errTooMany
	}
	hostOf, counts := make([]int, total), make([]int, len(hosts))
	for rank := range hostOf {
		hostOf[rank] = -1
	}
	byName := namesOf(hosts)
	for _, l := range p.Binding.Lines {
		if l.Rank >= total {
			continue // a file may be for a larger job
		}
		h, err := hostOfLine(hosts, byName, l)
		if err != nil {
			return nil, err
		}
		hostOf[l.Rank] = h
		counts[h]++
	}
	for rank, h := range hostOf {
		if h < 0 {
			return nil, fmt.Errorf("rank %d of %d has no line in the file of ranks; write one, or ask for fewer ranks", rank, total)
		}
	}
	if err := p.within(hosts, nil, counts); err != nil {
		return nil, err
	}
	return number(hosts, sizes, hostOf), nil
}

// namesOf is the first host of each name, and of each name up to the first dot.
func namesOf(hosts []job.Host) map[string]int {
	byName := make(map[string]int, 2*len(hosts))
	for h, host := range slices.Backward(hosts) {
		short, _, _ := strings.Cut(strings.ToLower(host.Name), ".")
		byName[short] = h
	}
	for h, host := range slices.Backward(hosts) {
		byName[strings.ToLower(host.Name)] = h
	}
	return byName
}

// hostOfLine finds a line's host, by its name or that up to the first dot.
func hostOfLine(hosts []job.Host, byName map[string]int, l layout.Line) (int, error) {
	from := "the host list"
	if l.At > 0 {
		from = fmt.Sprintf("line %d of the file of ranks", l.At)
	}
	if l.Host == "" {
		if l.Relative >= len(hosts) {
			return 0, fmt.Errorf("%s has rank %d on host +n%d, counted from 0, and the job has %s", from, l.Rank, l.Relative, visible.Count(len(hosts), "host"))
		}
		return l.Relative, nil
	}
	h, found := byName[strings.ToLower(l.Host)]
	if !found {
		return 0, fmt.Errorf("%s has rank %d on host %s, which is not one of the job's", from, l.Rank, l.Host)
	}
	return h, nil
}

// bindLines binds ranks to the CPUs of their lines.
func bindLines(plan *job.Plan, req layout.Request) error {
	for _, l := range req.Lines {
		if l.Rank >= len(plan.Placements) || l.CPUs == nil {
			continue
		}
		pl := &plan.Placements[l.Rank]
		host := plan.Hosts[pl.Host]
		if host.Layout == nil {
			return fmt.Errorf("host %s does not tell where its CPUs are, so no rank can be bound there", host.Name)
		}
		sets, err := l.CPUs.On(host.Layout, req.HWThreads)
		if err != nil {
			return fmt.Errorf("line %d of the file of ranks, rank %d, host %s: %w", l.At, l.Rank, host.Name, err)
		}
		if cpus := idset.Union(sets...); !cpus.Equal(host.Layout.CPUs()) {
			pl.CPUs = cpus
		}
	}
	return nil
}
