package phases

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mpiup/mpiup/internal/visible"
)

// A Need and a Set say whether the hosts that were found one by one are those that a command line
// needs. Where files or variables name all hosts, nobody asks it.
//
//	what says how many          the run begins
//	--size, PET_NNODES, -n/-N   when there are so many
//	-n alone                    when their agents have so many slots
//	nothing                     when the set has been the same for Settled
//
// With --oversubscribe slots are no limit, and ranks that go round the hosts (--map-by node) are for all
// of them: there a set must have settled.
//

// Settled is how long a set must be the same where nothing says how many hosts there are. Pods of one
// set start within seconds of each other; what takes longer has to be said.
const Settled = 5 * time.Second

// Need is what a command line needs of hosts. The zero value needs one, and takes all there are.
type Need struct {
	Hosts  int    // 0: nothing says how many
	Why    string // what says it: "--size 3"
	Ranks  int    // that must find slots; 0: as many as there are
	All    bool   // ranks are for all hosts, even if fewer have the slots
	Beyond bool   // ranks may be more than slots
	Spares int    // of the hosts, which get no ranks
	Least  int    // hosts there must be, where Hosts does not say how many; Why says it
}

// NeedOf is the need of so many ranks (0: not given), perNode on each host (0: by slots). told is what says
// how many hosts there are, and why; 0 where nothing does.
func NeedOf(told int, why string, ranks, perNode int) Need {
	n := Need{Hosts: told, Why: why, Ranks: ranks}
	if perNode > 0 {
		n.Ranks = 0
		if told == 0 && ranks > 0 {
			n.Hosts, n.Why = (ranks+perNode-1)/perNode, fmt.Sprintf("-n %d with -N %d", ranks, perNode)
		}
	}
	return n
}

// Candidate is one that was found.
type Candidate struct {
	Name  string // as its agent says, else its address
	Slots int    // of its agent; 0: it has not answered
}

// Set is the hosts found so far. The zero value is empty and was never looked at.
type Set struct {
	hosts []Candidate
	since time.Time // they have been these
}

// See takes what was found at a time.
func (s *Set) See(now time.Time, hosts []Candidate) {
	if s.since.IsZero() || !slices.Equal(s.hosts, hosts) {
		s.hosts, s.since = slices.Clone(hosts), now
	}
}

// Settled says that the set has been the same for long enough.
func (s *Set) Settled(now time.Time) bool { return !s.since.IsZero() && now.Sub(s.since) >= Settled }

// slots are those of all hosts but the last ones that answered, which are spares.
func (s *Set) slots(spares int) (sum int) {
	for _, h := range slices.Backward(s.hosts) {
		if h.Slots > 0 && spares > 0 {
			spares--
			continue
		}
		sum += h.Slots
	}
	return sum
}

// answered is how many of the hosts have an agent that answers: a service has the records of other pods, too.
func (s *Set) answered() (sum int) {
	for _, h := range s.hosts {
		if h.Slots > 0 {
			sum++
		}
	}
	return sum
}

// Enough says whether the set would suffice if all of it answered, as far as that is known.
func (n Need) Enough(s *Set, now time.Time) bool {
	return len(s.hosts) > 0 && len(s.hosts) >= n.Hosts && s.Settled(now)
}

// Suffices says whether a run may begin with the set.
func (n Need) Suffices(s *Set, now time.Time) bool {
	switch {
	case len(s.hosts) == 0, s.answered() < n.Least:
		return false
	case n.Hosts > 0:
		return s.answered() >= n.Hosts
	case n.Ranks > 0 && !n.Beyond && s.slots(n.Spares) < n.Ranks:
		return false
	case n.Ranks > 0 && !n.Beyond && !n.All:
		return true
	}
	return s.Settled(now)
}

// Lacks is what the set lacks, for a line: "2 of the 3 hosts of --size 3 (w0, w2; w1 is missing)".
func (n Need) Lacks(s *Set) string {
	have := visible.Count(len(s.hosts), "host")
	switch {
	case n.Hosts > 0 && len(s.hosts) == 0:
		return fmt.Sprintf("none of the %d hosts of %s", n.Hosts, n.Why)
	case s.answered() < n.Least:
		return fmt.Sprintf("%d of the hosts of %s, %d at least (%s)", s.answered(), n.Why, n.Least, s.named(n.Least))
	case len(s.hosts) == 0:
		return "no host with an agent of this job"
	case n.Hosts > 0:
		return fmt.Sprintf("%d of the %d hosts of %s (%s)", s.answered(), n.Hosts, n.Why, s.named(n.Hosts))
	case n.Ranks > 0 && !n.Beyond && s.slots(n.Spares) < n.Ranks:
		beside := ""
		if n.Spares > 0 {
			beside = " beside " + visible.Count(n.Spares, "spare")
		}
		return fmt.Sprintf("%s with %s%s, and -n %d needs %d (%s)", have, visible.Count(s.slots(n.Spares), "slot"), beside, n.Ranks, n.Ranks, s.named(0))
	}
	return fmt.Sprintf("%s (%s), and nothing says how many there will be", have, s.named(0))
}

// most is how many names a line has.
const most = 5

// named lists the hosts, and where their names are numbered and there should be so many, those that
// are missing.
func (s *Set) named(of int) string {
	var names, silent []string
	for _, h := range s.hosts {
		if h.Slots == 0 {
			silent = append(silent, h.Name)
		} else {
			names = append(names, h.Name)
		}
	}
	text := visible.Few(names, most, ", ")
	if len(names) == 0 {
		text = "none answers"
	}
	if missing := missing(names, of); len(missing) == 1 {
		text += "; " + missing[0] + " is missing"
	} else if len(missing) > 1 {
		text += "; missing: " + visible.Few(missing, most, ", ")
	}
	if len(silent) > 0 {
		text += "; without an answer: " + visible.Few(silent, most, ", ")
	}
	return text
}

// missing are those that names lacks of NAME-0, NAME-1 and so on, as the pods of a StatefulSet or an Indexed Job are
// called, below NAME-of. There are none if a name has another form.
func missing(names []string, of int) (out []string) {
	have := map[int]bool{}
	prefix := ""
	for _, name := range names {
		at := strings.LastIndexByte(name, '-')
		i, err := strconv.Atoi(name[at+1:])
		if at < 0 || err != nil || i >= of || prefix != "" && prefix != name[:at+1] {
			return nil
		}
		prefix, have[i] = name[:at+1], true
	}
	for i := range of {
		if !have[i] && prefix != "" {
			out = append(out, prefix+strconv.Itoa(i))
		}
	}
	return out
}
