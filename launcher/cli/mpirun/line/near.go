package line

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mpiup/mpiup/docs"
)

// unknown is the error for an option that no row has: what it may mean, in this command or in another's. The first letter is seldom mistyped.
func unknown(word, name string, table map[string]*Row) error {
	elsewhere := docs.Elsewhere(word)
	var alike []string
	for _, k := range slices.Sorted(maps.Keys(table)) {
		if k = strings.TrimLeft(k, "-"); k != "" && strings.HasPrefix(strings.TrimLeft(name, "-"), k[:1]) {
			alike = append(alike, k)
		}
	}
	if near := Nearest(strings.TrimLeft(name, "-"), alike); near != "" && elsewhere == "" {
		return fmt.Errorf("unknown option %.60s; did you mean %s%s?", word, Hyphens(near), near)
	}
	return fmt.Errorf("unknown option %.60s%s; --help lists them", word, elsewhere)
}

// Nearest is the known word fewest edits away from a word, if that is near enough to be meant; two letters that changed places are one edit.
func Nearest(word string, known []string) (found string) {
	best := min(len(word)/3, 3) + 1
	for _, k := range known {
		if swapped(word, k) {
			return k
		}
		if d := distance(word, k, best); d < best {
			best, found = d, k
		}
	}
	return found
}

// swapped says that two neighbours have changed places between a and b, and nothing else has.
func swapped(a, b string) bool {
	for i := 1; i < len(a) && len(a) == len(b); i++ {
		if a[:i-1]+a[i:i+1]+a[i-1:i]+a[i+1:] == b {
			return true
		}
	}
	return false
}

// distance is the number of single-character edits between a and b (Levenshtein), or limit
// where it is no less.
func distance(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(diagonal+cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
