package layout

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/mpiup/mpiup/internal/idset"
)

// CPUs is a list of CPUs as it was written. Which those are depends on the host.
//
//	list  = group { ";" group }       "0-3,8"      cores 0 to 3 and 8
//	group = [ "p" ] range { "," range }   "p0-3"   the kernel's CPUs 0 to 3
//	      | socket ":" range { "," range } "1:0-2" cores 0 to 2 of package 1
//	range = number [ "-" number ] | "*"
type CPUs []cpuRange

// cpuRange is CPUs first to last.
type cpuRange struct {
	socket      int // they are counted within it; -1: within the host
	first, last int // last -1: all from first on
	kernel      bool
}

// maxList bounds a list, in bytes and so in ranges.
const maxList = 64 << 10

// ParseCPUs reads a list.
func ParseCPUs(text string) (CPUs, error) {
	text = strings.Trim(text, " \t\"")
	switch {
	case text == "":
		return nil, errors.New("the list of CPUs is empty")
	case len(text) > maxList:
		return nil, fmt.Errorf("a list of CPUs of %d bytes; %d are possible", len(text), maxList)
	}
	var out CPUs
	for group := range strings.SplitSeq(text, ";") {
		r := cpuRange{socket: -1}
		list := group
		if socket, cores, ok := strings.Cut(group, ":"); ok {
			n, err := cpuNumber(strings.TrimLeft(socket, "sS"))
			if err != nil {
				return nil, fmt.Errorf("CPUs %.60q: socket %w", text, err)
			}
			r.socket, list = n, cores
		}
		for item := range strings.SplitSeq(list, ",") {
			one, err := parseRange(strings.TrimSpace(item), r)
			if err != nil {
				return nil, fmt.Errorf("CPUs %.60q: %w", text, err)
			}
			r.kernel = one.kernel
			out = append(out, one)
		}
	}
	return out, nil
}

func parseRange(item string, r cpuRange) (cpuRange, error) {
	if rest, ok := strings.CutPrefix(strings.ToLower(item), "p"); ok {
		r.kernel, item = true, rest
	}
	if r.kernel && r.socket >= 0 {
		return r, errors.New("the kernel's numbers are not counted within a socket: leave the socket out")
	}
	if item == "*" {
		r.first, r.last = 0, -1
		return r, nil
	}
	first, last, isRange := strings.Cut(item, "-")
	var err error
	if r.first, err = cpuNumber(first); err != nil {
		return r, err
	}
	if r.last = r.first; isRange {
		if r.last, err = cpuNumber(last); err != nil {
			return r, err
		}
	}
	if r.last < r.first {
		return r, fmt.Errorf("%.40q runs backwards", item)
	}
	return r, nil
}

func cpuNumber(text string) (int, error) {
	n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 16)
	if err != nil || n >= MaxThreads {
		return 0, fmt.Errorf("%.40q is no number from 0 to %d", text, MaxThreads-1)
	}
	return int(n), nil
}

// Kernel is the list with all its numbers the kernel's.
func (c CPUs) Kernel() CPUs {
	out := make(CPUs, len(c))
	for i, r := range c {
		if r.socket < 0 {
			r.kernel = true
		}
		out[i] = r
	}
	return out
}

// On finds the CPUs of a list on a host: one set for each that is listed, in the order of the list.
func (c CPUs) On(l *Layout, hwthreads bool) ([]idset.Set, error) {
	var out []idset.Set
	for _, r := range c {
		sets, err := r.on(l, hwthreads)
		if err != nil {
			return nil, err
		}
		if out = append(out, sets...); len(out) > maxList {
			return nil, errors.New("a list of too many CPUs")
		}
	}
	return out, nil
}

func (r cpuRange) on(l *Layout, hwthreads bool) ([]idset.Set, error) {
	kind, what := Core, "core"
	if hwthreads || r.kernel {
		kind, what = HWThread, "hardware thread"
	}
	have := l.Objects(kind)
	if r.socket >= 0 {
		packages := l.Objects(Package)
		if r.socket >= len(packages) {
			return nil, fmt.Errorf("there is no socket %d among the %d", r.socket, len(packages))
		}
		have = slices.DeleteFunc(slices.Clone(have), func(s idset.Set) bool { return !s.Overlaps(packages[r.socket]) })
	}
	if r.kernel {
		return r.ofKernel(l)
	}
	last := r.last
	if last < 0 {
		last = len(have) - 1
	}
	if last >= len(have) {
		return nil, fmt.Errorf("there is no %s %d: %d can be used, counted from 0", what, last, len(have))
	}
	return have[r.first : last+1], nil
}

func (r cpuRange) ofKernel(l *Layout) (sets []idset.Set, err error) {
	if r.last < 0 {
		return l.Objects(HWThread), nil
	}
	for cpu := r.first; cpu <= r.last; cpu++ {
		if !l.CPUs().Contains(cpu) {
			return nil, fmt.Errorf("CPU %d cannot be used: those that can are %s", cpu, l.CPUs())
		}
		sets = append(sets, idset.Of(cpu))
	}
	return sets, nil
}
