package slow

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mpiup/mpiup/internal/job"
)

// lasting is how long all of some ranks have been in a call that is told of: less is no news of a program that goes on.
const lasting = 2 * time.Second

// maxParts bounds the calls that are told of.
const maxParts = 3

// Underway says in which calls of MPI ranks are that have not come out of them for a while, and who is in none: "" where no call lasts. It is
// what ranks show now, and blames nobody.
func (w *Watch) Underway(now time.Duration, names Names) string {
	in := map[string][]int{}
	least := map[string]time.Duration{}
	for id, t := range w.ranks {
		if t.State != job.Measured && t.State != job.Finalized || t.State == job.Finalized && t.Call == "" || now-t.heard > max(w.Window, shortest) {
			continue
		}
		in[t.Call] = append(in[t.Call], id)
		since := max(t.at-t.Called, 0)
		if had, known := least[t.Call]; !known || since < had {
			least[t.Call] = since
		}
	}
	none := in[""]
	delete(in, "")
	order := slices.SortedFunc(maps.Keys(in), func(a, b string) int { return cmp.Or(cmp.Compare(len(in[b]), len(in[a])), cmp.Compare(a, b)) })
	if len(order) == 0 || least[order[0]] < lasting {
		return ""
	}
	var parts []string
	for i, call := range order[:min(len(order), maxParts)] {
		have := ""
		if i == 0 {
			have = "have been "
			if len(in[call]) == 1 {
				have = "has been "
			}
		}
		parts = append(parts, fmt.Sprintf("%s %sin %s for %s", told(in[call], names), have, call, long(least[call])))
	}
	if len(none) > 0 {
		are := "are"
		if len(none) == 1 {
			are = "is"
		}
		parts = append(parts, fmt.Sprintf("%s %s in none", told(none, names), are))
	}
	text := parts[0]
	if n := len(parts) - 1; n > 0 {
		text = strings.Join(parts[:n], ", ") + ", and " + parts[n]
	}
	return text + ", as one look at their calls shows"
}

func told(ranks []int, names Names) string {
	slices.Sort(ranks)
	who, _ := names.of(ranks)
	return who
}
