package layout

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/mpiup/mpiup/internal/idset"
)

// Hydra is -bind-to and -map-by of Hydra (tools/topo/hwloc of MPICH 4.0): a host's ranks take their
// CPUs from a list of sets, one after the other, and begin anew at its end.
type Hydra struct {
	To, By Step        // the sets, where User is nil
	User   []idset.Set // the kernel's numbers; ranks beyond are not bound

	RoundRobin bool // one CPU after the other in the kernel's order, instead of To and By
}

// Step is so many objects of a kind one after the other.
type Step struct {
	Kind Kind // None: the whole host
	N    int
}

// ParseHydra reads -bind-to and -map-by; nil: not bound. Without a binding a mapping has no effect.
func ParseHydra(bind, by string) (*Hydra, error) {
	bind, by = strings.ToLower(bind), strings.ToLower(by)
	if bind == "" || bind == "none" {
		return nil, nil
	}
	if list, ok := strings.CutPrefix(bind, "user:"); ok {
		return parseUser(list)
	}
	if bind == "rr" {
		return &Hydra{RoundRobin: true}, nil
	}
	to, err := parseStep(bind)
	if err != nil {
		return nil, err
	}
	h := &Hydra{To: to, By: to}
	if by != "" {
		if h.By, err = parseStep(by); err != nil {
			return nil, err
		}
	}
	return h, nil
}

// hydraKind are Hydra's words; instruction and data caches are not told apart in a Layout.
func hydraKind(word string) (k Kind, ok bool) {
	switch word {
	case "machine", "board":
		return None, true
	case "l1", "l2", "l3", "hwt": // Open MPI's short forms, which Hydra refuses
		return 0, false
	}
	k, ok = kinds[strings.NewReplacer("dcache", "cache", "ucache", "cache").Replace(word)]
	return k, ok
}

func parseStep(text string) (s Step, err error) {
	word, count, counted := strings.Cut(text, ":")
	s.N = 1
	var ok bool
	if s.Kind, ok = hydraKind(word); !ok {
		switch {
		case strings.HasPrefix(word, "pci") || strings.HasPrefix(word, "gpu") || strings.HasPrefix(word, "ib") ||
			strings.HasPrefix(word, "en") || strings.HasPrefix(word, "eth") || strings.HasPrefix(word, "hfi"):
			return s, fmt.Errorf("ranks are not bound near devices (%.40q): use numa, socket or user:LIST", word)
		}
		return s, fmt.Errorf("%.40q is not known; use none, machine, numa, socket, l3cache, core, hwthread, rr or user:LIST", word)
	}
	if counted {
		if s.N, err = number(count); err != nil || s.N > MaxThreads {
			return s, fmt.Errorf("%.40q: %.40q is no number from 1 to %d", text, count, MaxThreads)
		}
	}
	return s, nil
}

// parseUser reads "0+2,3": the CPUs of the first rank of each host, of the second.
func parseUser(list string) (*Hydra, error) {
	if len(list) > maxList {
		return nil, fmt.Errorf("a list of CPUs of %d bytes; %d are possible", len(list), maxList)
	}
	h := &Hydra{}
	for item := range strings.SplitSeq(list, ",") {
		var set idset.Set
		for cpu := range strings.SplitSeq(item, "+") {
			n, err := strconv.ParseUint(cpu, 10, 16)
			if err != nil || n >= MaxThreads {
				return nil, fmt.Errorf("user:%.60s: %.40q is no CPU's number; write user:0+1,2+3", list, cpu)
			}
			set.Add(int(n))
		}
		h.User = append(h.User, set)
	}
	return h, nil
}
