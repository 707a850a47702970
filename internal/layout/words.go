package layout

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// most bounds what is counted.
const most = 1 << 20

// kinds are the kinds of objects by the words of Open MPI's and hwloc's for them.
var kinds = map[string]Kind{
	"hwthread": HWThread, "hwt": HWThread, "core": Core,
	"l1cache": L1, "l1": L1, "l2cache": L2, "l2": L2, "l3cache": L3, "l3": L3,
	"numa": NUMA, "socket": Package, "package": Package,
}

// ParseMapBy reads POLICY[:modifier[,modifier...]]..., in any case but for file names.
func ParseMapBy(text string) (m Mapping, err error) {
	policy, rest, _ := strings.Cut(text, ":")
	switch policy = strings.ToLower(policy); policy {
	case "":
		if rest == "" {
			return m, errors.New("nothing is said; use slot, node, ppr:N:node or an object such as socket")
		}
	case "slot", "node", "rankfile", "seq":
		m.Policy = policy
	case "ppr":
		m.Policy = policy
		var n, object string
		n, rest, _ = strings.Cut(rest, ":")
		object, rest, _ = strings.Cut(rest, ":")
		object = strings.ToLower(object)
		if m.Object = kinds[object]; m.Object == None && object != "node" {
			return m, fmt.Errorf("ranks are counted per node or object, and %.40q is none: write ppr:N:node or ppr:N:numa", object)
		}
		if m.N, err = number(n); err != nil {
			return m, err
		}
	case "dist", "mindist":
		return m, errors.New("a device that ranks are to be near is named nowhere but in Open MPI 4's parameters, and Open MPI 5 has it no more. " +
			"Leave it out: ranks of hosts with GPUs are near their GPUs anyway; or write numa, or --rankfile FILE")
	case "likwid", "lsf":
		return m, fmt.Errorf("mapping by %s is not done: name the hosts in their order, --map-by seq, or the CPUs too, --rankfile FILE", policy)
	default:
		if name, list, joined := strings.Cut(policy, "="); name == "pe-list" {
			if !joined { // pe-list:0-3
				list, rest, _ = strings.Cut(strings.TrimPrefix(rest, "="), ":")
			}
			if m.CPUs, err = ParseCPUs(list); err != nil {
				return m, err
			}
			break
		}
		if m.Object = kinds[policy]; m.Object == None {
			return m, fmt.Errorf("%.40q is not known; use slot, node, ppr:N:node or an object such as socket", policy)
		}
		m.Policy = "object"
	}
	return m, m.modifiers(rest)
}

// modifiers stand between ":" or ","; the list of PE-LIST has commas of its own and goes up to ":".
func (m *Mapping) modifiers(text string) error {
	for text != "" {
		var word string
		if strings.HasPrefix(strings.ToLower(text), "pe-list=") || strings.HasPrefix(strings.ToLower(text), "file=") {
			word, text, _ = strings.Cut(text, ":")
		} else if i := strings.IndexAny(text, ":,"); i >= 0 {
			word, text = text[:i], text[i+1:]
		} else {
			word, text = text, ""
		}
		if word == "" {
			continue
		}
		if err := m.modifier(word); err != nil {
			return err
		}
	}
	return nil
}

func (m *Mapping) modifier(word string) (err error) {
	name, value, _ := strings.Cut(word, "=")
	switch strings.ToLower(name) {
	case "oversubscribe":
		m.Slots = Allowed
	case "nooversubscribe":
		m.Slots = Forbidden
	case "nolocal":
		m.NoLocal = true
	case "pe":
		if m.PE, err = number(value); err != nil {
			return fmt.Errorf("modifier %.40s: %w", word, err)
		}
	case "span":
		m.Span = true
	case "hwtcpus":
		m.HWThreads = true
	case "corecpus", "inherit", "noinherit": // cores count anyway; spawned jobs are mapped by themselves
	case "pe-list":
		m.CPUs, err = ParseCPUs(value)
	case "ordered":
		m.Ordered = true
	case "file":
		m.File = value
	default:
		return fmt.Errorf("modifier %.40q is not known", word)
	}
	return err
}

// ParseRankBy reads slot, node, fill, span or an object, with ":span" or ":fill".
func ParseRankBy(text string) (r Ranking, err error) {
	by, modifier, _ := strings.Cut(strings.ToLower(text), ":")
	switch by {
	case "slot", "node", "fill":
		r.By = by
	case "span":
		r.By, r.Span = "object", true
	default:
		if r.Object = kinds[by]; r.Object == None {
			return r, fmt.Errorf("%.40q is not known; use slot, node or an object such as socket", by)
		}
		r.By = "object"
	}
	switch {
	case modifier == "":
	case modifier == "span" && r.By == "object":
		r.Span = true
	case modifier == "fill" && r.By == "object":
		r.By = "fill"
	default:
		return r, fmt.Errorf("modifier %.40q is not known, or not of %s", modifier, by)
	}
	return r, nil
}

// ParseBindTo reads OBJECT[:modifier[,modifier...]]. Without an object only the
// modifiers change t.
func ParseBindTo(text string, t Target) (Target, error) {
	object, rest, _ := strings.Cut(strings.ToLower(text), ":")
	switch object {
	case "":
		if rest == "" {
			return t, errors.New("nothing is said; use none, hwthread, core, l3cache, numa or socket")
		}
	case "none", "board": // Open MPI 4.1 does nothing for a board
		t = Target{Said: true}
	case "cpu-list", "cpulist", "cpuset":
		t = Target{Said: true, List: true}
	default:
		t = Target{Said: true, To: kinds[object]}
		if t.To == None {
			return t, fmt.Errorf("%.40q is not known; use none, hwthread, core, l3cache, numa or socket", object)
		}
	}
	for m := range strings.FieldsFuncSeq(rest, func(r rune) bool { return r == ':' || r == ',' }) {
		switch {
		case m == "overload-allowed":
			t.Overload = true
		case m == "no-overload":
			t.Overload = false
		case m == "if-supported": // Linux supports it
		case m == "ordered" && t.List:
			t.Ordered = true
		default:
			return t, fmt.Errorf("modifier %.40q is not known", m)
		}
	}
	return t, nil
}

func number(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > most {
		return 0, fmt.Errorf("%.40q is no number from 1 to %d", text, most)
	}
	return n, nil
}
