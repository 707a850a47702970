package placement

import (
	"fmt"
	"strings"

	"github.com/mpiup/mpiup/internal/binding"
	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
)

// placeLines gives every rank the host of its line in a rankfile. Every rank has one.
func placeLines(hosts []job.Host, apps []job.App, p Policy) (*job.Plan, error) {
	total, sizes := 0, make([]int, len(apps))
	for i, a := range apps {
		sizes[i] = a.N
		total += a.N
	}
	if total == 0 {
		total, sizes[0] = len(p.Binding.Lines), len(p.Binding.Lines)
	}
	if total > MaxRanks {
		return nil, fmt.Errorf("more than %d ranks are asked for, the largest job", MaxRanks)
	}
	hostOf, counts := make([]int, total), make([]int, len(hosts))
	for rank := range hostOf {
		hostOf[rank] = -1
	}
	for _, l := range p.Binding.Lines {
		if l.Rank >= total {
			continue // a file may be for a larger job
		}
		h, err := hostOfLine(hosts, l)
		if err != nil {
			return nil, err
		}
		hostOf[l.Rank] = h
		counts[h]++
	}
	for rank, h := range hostOf {
		if h < 0 {
			return nil, fmt.Errorf("rank %d of %d has no line in the rankfile; write one, or ask for fewer ranks", rank, total)
		}
	}
	if err := p.within(hosts, counts); err != nil {
		return nil, err
	}
	return number(hosts, sizes, hostOf), nil
}

// hostOfLine finds a line's host, by its name or that up to the first dot.
func hostOfLine(hosts []job.Host, l binding.Line) (int, error) {
	if l.Host == "" {
		if l.Relative >= len(hosts) {
			return 0, fmt.Errorf("the rankfile has rank %d on host +n%d, counted from 0, and the job has %s", l.Rank, l.Relative, plural(len(hosts), "host"))
		}
		return l.Relative, nil
	}
	found := -1
	for h, host := range hosts {
		if strings.EqualFold(host.Name, l.Host) {
			return h, nil
		}
		if short, _, _ := strings.Cut(host.Name, "."); found < 0 && strings.EqualFold(short, l.Host) {
			found = h
		}
	}
	if found < 0 {
		return 0, fmt.Errorf("the rankfile has rank %d on host %s, which is not one of the job's", l.Rank, l.Host)
	}
	return found, nil
}

// bindLines binds ranks to the CPUs of their lines.
func bindLines(plan *job.Plan, req binding.Request) error {
	for _, l := range req.Lines {
		if l.Rank >= len(plan.Placements) {
			continue
		}
		pl := &plan.Placements[l.Rank]
		host := plan.Hosts[pl.Host]
		if host.Layout == nil {
			return fmt.Errorf("host %s does not tell where its CPUs are, so no rank can be bound there", host.Name)
		}
		sets, err := l.CPUs.On(host.Layout, req.HWThreads)
		if err != nil {
			return fmt.Errorf("the rankfile's rank %d, host %s: %w", l.Rank, host.Name, err)
		}
		var cpus idset.Set
		for _, s := range sets {
			cpus = cpus.Union(s)
		}
		if !cpus.Equal(host.Layout.CPUs()) {
			pl.CPUs = cpus
		}
	}
	return nil
}
