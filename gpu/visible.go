package gpu

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mpiup/mpiup/internal/idset"
)

// Wish is which units each rank of a host is to see. The zero Wish leaves all of them to all
// ranks, by setting nothing.
type Wish struct {
	PerRank int         // units of a rank; 0: not given
	Closest bool        // those nearest the rank's CPUs
	Sets    []idset.Set // of unit numbers, of local rank 0, 1 ... and from the first again; of map and mask
}

// IsZero says that nothing was wished.
func (w Wish) IsZero() bool { return w.PerRank == 0 && !w.Closest && len(w.Sets) == 0 }

// maxSets bounds what --gpu-bind lists.
const maxSets = 1 << 12

// ParseWish reads the values of --gpus-per-rank (0: not given) and --gpu-bind ("": not given).
func ParseWish(perRank int, bind string) (w Wish, err error) {
	if bind != "" {
		if w, err = ParseBind(bind); err != nil {
			return Wish{}, fmt.Errorf("--gpu-bind: %w", err)
		}
	}
	w.PerRank = perRank
	return w, w.Check()
}

// Check finds what contradicts each other.
func (w Wish) Check() error {
	if w.PerRank < 0 || w.PerRank > maxGPUs {
		return fmt.Errorf("--gpus-per-rank: %d is out of range; use 1 to %d", w.PerRank, maxGPUs)
	}
	if w.PerRank > 0 && len(w.Sets) > 0 {
		return errors.New("--gpu-bind lists each rank's GPUs already; leave out --gpus-per-rank")
	}
	return nil
}

// Bind is the wish as --gpu-bind has it; "": in turn.
func (w Wish) Bind() string {
	switch {
	case w.Closest:
		return "closest"
	case len(w.Sets) == 0:
		return ""
	}
	kind, item := "map:", func(s idset.Set) string { return strconv.Itoa(s.First()) }
	if slices.ContainsFunc(w.Sets, func(s idset.Set) bool { return s.Len() > 1 }) {
		kind, item = "mask:", func(s idset.Set) string {
			var bits uint64
			for n := range s.All() {
				bits |= 1 << n
			}
			return fmt.Sprintf("%#x", bits)
		}
	}
	items := make([]string, len(w.Sets))
	for i, s := range w.Sets {
		items[i] = item(s)
	}
	return kind + strings.Join(items, ",")
}

// ParseBind reads the value of --gpu-bind:
//
//	closest           those nearest the rank's CPUs; with --gpus-per-rank so many of them
//	map:0,1,1,0       one unit for local rank 0, 1 ...
//	mask:0x3,0xc      bits of units for local rank 0, 1 ...
//
// These are Slurm's closest, map_gpu and mask_gpu; like Slurm's, a list that is too short begins
// anew.
func ParseBind(bind string) (w Wish, err error) {
	kind, list, _ := strings.Cut(bind, ":")
	var item func(string) (idset.Set, error)
	switch {
	case bind == "":
		return w, errors.New("the value is empty; use closest, map:0,1 or mask:0x3,0xc")
	case bind == "closest":
		return Wish{Closest: true}, nil
	case kind == "map":
		item = parseNumber
	case kind == "mask":
		item = parseMask
	default:
		return w, fmt.Errorf("%.40q is not known; use closest, map:0,1 or mask:0x3,0xc", bind)
	}
	for text := range strings.SplitSeq(list, ",") {
		set, err := item(strings.TrimSpace(text))
		if err != nil {
			return Wish{}, err
		}
		if len(w.Sets) == maxSets {
			return Wish{}, fmt.Errorf("more than %d ranks are listed", maxSets)
		}
		w.Sets = append(w.Sets, set)
	}
	return w, nil
}

func parseNumber(text string) (idset.Set, error) {
	n := decimal(text, maxGPUs-1)
	if n < 0 {
		return idset.Set{}, fmt.Errorf("%.20q is no GPU's number; write map:0,1,2,3", text)
	}
	return idset.Of(n), nil
}

func parseMask(text string) (idset.Set, error) {
	digits := strings.TrimPrefix(strings.ToLower(text), "0x")
	bits, err := strconv.ParseUint(digits, 16, 64)
	if err != nil || bits == 0 {
		return idset.Set{}, fmt.Errorf("%.20q is no mask of GPUs; write mask:0x3,0xc", text)
	}
	var set idset.Set
	for n := range 64 {
		if bits>>n&1 == 1 {
			set.Add(n)
		}
	}
	return set, nil
}

// Assign is the numbers of the units that each local rank is to see. cpus is each rank's CPUs,
// which Closest asks for; an empty set is all of the host.
func Assign(w Wish, units []Unit, cpus []idset.Set) ([][]int, error) {
	ranks := len(cpus)
	out := make([][]int, ranks)
	if w.IsZero() {
		return out, nil
	}
	if len(units) == 0 {
		return nil, short("this host has no GPU that can be used here; mpiup topo shows what there is")
	}
	if w.PerRank > len(units) {
		return nil, short(fmt.Sprintf("a rank is to have %d GPUs, and this host has %d", w.PerRank, len(units)))
	}
	if !w.Closest && w.PerRank*ranks > len(units) {
		return nil, short(fmt.Sprintf("%d ranks with %d GPUs each need %d, and this host has %d; start fewer ranks here, or share GPUs by --gpu-bind map",
			ranks, w.PerRank, ranks*w.PerRank, len(units)))
	}
	used := make([]int, len(units))
	for i := range out {
		switch {
		case w.Closest:
			out[i] = closest(units, cpus[i], w.PerRank, used)
		case w.PerRank > 0:
			for n := range w.PerRank {
				out[i] = append(out[i], i*w.PerRank+n)
			}
		default:
			out[i] = slices.Collect(w.Sets[i%len(w.Sets)].All())
			if last := out[i][len(out[i])-1]; last >= len(units) {
				return nil, fmt.Errorf("--gpu-bind gives local rank %d GPU %d, and this host has %d, numbered from 0", i, last, len(units))
			}
		}
	}
	return out, nil
}

// closest is the units that are near most of a rank's CPUs. With a count it is so many units: those that the fewest
// ranks have come first, and units further away fill up.
func closest(units []Unit, cpus idset.Set, count int, used []int) (chosen []int) {
	share := func(i int) int { // of the rank's CPUs near the unit
		return units[i].GPU.Near.Intersect(cpus).Len()
	}
	best := 0
	all := make([]int, len(units))
	for i := range units {
		all[i] = i
		best = max(best, share(i))
	}
	if count == 0 {
		chosen = slices.DeleteFunc(all, func(i int) bool { return share(i) < best })
	} else {
		slices.SortStableFunc(all, func(a, b int) int {
			return cmp.Or(share(b)-share(a), used[a]-used[b])
		})
		chosen = all[:count]
		slices.Sort(chosen)
	}
	for _, i := range chosen {
		used[i]++
	}
	return chosen
}

// short is that there are too few GPUs to assign; it is ENODEV, which verdicts go by.
type short string

func (s short) Error() string { return string(s) }

func (short) Unwrap() error { return unix.ENODEV }
