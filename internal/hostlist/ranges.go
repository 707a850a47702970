package hostlist

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/mpiup/mpiup/internal/visible"
)

// items splits a list at the commas that stand in no brackets.
func items(list string) (out []string) {
	depth, from := 0, 0
	for i := range len(list) {
		switch list[i] {
		case '[':
			depth++
		case ']':
			depth--
		case ',':
			if depth <= 0 {
				out, from = append(out, list[from:i]), i+1
			}
		}
	}
	return append(out, list[from:])
}

// ranges is how many more names a list or file may have by ranges: a host that is named again costs as much.
type ranges int

const maxRanges ranges = 4 * MaxHosts

// expand is the hosts that an item stands for, by the rules of Slurm's host lists: brackets hold numbers and ranges
// of them, which count from as many digits as the first number has.
//
//	w[0-2,7]:4     w0:4 w1:4 w2:4 w7:4
//	n[08-10].rack  n08.rack n09.rack n10.rack
//	r[1-2]n[0-1]   r1n0 r1n1 r2n0 r2n1
//	[fd00::7]:4    the IPv6 address, as it is
func (r *ranges) expand(item string) ([]string, error) {
	if !strings.Contains(item, "[") {
		return []string{item}, nil
	}
	names, err := expanded(item, min(MaxHosts, int(*r)))
	*r -= ranges(len(names))
	return names, err
}

func expanded(item string, most int) ([]string, error) {
	names := []string{""}
	for rest := item; ; {
		before, after, found := strings.Cut(rest, "[")
		inside, behind, closed := strings.Cut(after, "]")
		if !found || strings.Trim(inside, "0123456789,-") != "" && rest == item && before == "" { // an address
			return appended(names, []string{rest}, most, item)
		}
		if !closed || strings.Trim(inside, "0123456789,-") != "" {
			return nil, fmt.Errorf("%s: brackets behind a name hold numbers, w[0-3,7], and alone an IPv6 address, [fd00::7]", visible.Clip(item))
		}
		numbers, err := numbersOf(inside, most, item)
		if err != nil {
			return nil, err
		}
		if names, err = appended(names, []string{before}, most, item); err == nil {
			names, err = appended(names, numbers, most, item)
		}
		if err != nil {
			return nil, err
		}
		rest = behind
	}
}

// appended is each of names with each of tails behind it.
func appended(names, tails []string, most int, item string) ([]string, error) {
	switch {
	case len(names)*len(tails) > most:
		return nil, tooMany(item)
	case len(names[0])+len(tails[0]) > maxName+len("[]:65536"):
		return nil, fmt.Errorf("%s: a name of more than %d characters", visible.Clip(item), maxName)
	}
	out := make([]string, 0, len(names)*len(tails))
	for _, name := range names {
		for _, tail := range tails {
			out = append(out, name+tail)
		}
	}
	return out, nil
}

// numbersOf reads "08-10,12".
func numbersOf(text string, most int, item string) (out []string, err error) {
	for part := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		lo, err1 := strconv.ParseUint(first, 10, 31)
		hi, err2 := strconv.ParseUint(last, 10, 31)
		switch {
		case err1 != nil || err2 != nil || len(first) > maxLabel:
			return nil, fmt.Errorf("%s: %s is no number and no range of them, as in w[0-3,7]", visible.Clip(item), visible.Clip(part))
		case hi < lo:
			return nil, fmt.Errorf("%s: the range %s ends before it begins", visible.Clip(item), visible.Clip(part))
		case hi-lo >= uint64(most) || int(hi-lo) >= most-len(out):
			return nil, tooMany(item)
		}
		for n := lo; n <= hi; n++ {
			out = append(out, fmt.Sprintf("%0*d", len(first), n))
		}
	}
	return out, nil
}

func tooMany(item string) error {
	return fmt.Errorf("%s: more than %d hosts", visible.Clip(item), MaxHosts)
}
