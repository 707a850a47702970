package logs

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/launcher/verdict"
)

// findings are those of a log by weight, at most maxFound of each, in the order in which they were read.
type findings [verdict.Cause + 1][]*finding

// finding is one line that tells of a failure.
type finding struct {
	kind    verdict.Kind
	weight  verdict.Weight
	likely  bool
	general bool     // by words so general that all else is believed first
	weak    bool     // a warning, or of a start that may have been tried again
	warns   bool     // it calls itself a warning
	over    bool     // the program went on after it, or a later line takes it back
	near    *finding // of an end: what sounded like its reason
	final   bool     // it is an end, or its process ended right after it, and no launcher started the ranks again
	why     []string // the program's own words before it
	line    string
	who     ending
	among   idset.Set // the ranks of which its line tells, or lines after it alike, where those are several
	told    told      // whose it is
	lane    lane
	file    int
	number  int
	order   int
	steps   int // lines of progress before it
	time    time.Time
}

// told is what told whose a finding is: the line after it, with its number, or its own.
type told struct {
	by  string
	at  int
	own bool // it names the process by itself, as no launcher's does
}

// of is the findings of a weight that fit and are not over.
func (all *findings) of(w verdict.Weight, fits func(*finding) bool) (list []*finding) {
	for _, f := range all[w] {
		if !f.over && fits(f) {
			list = append(list, f)
		}
	}
	return list
}

// firm is those of them that are no warnings, nor of a start that may have been tried again.
func (all *findings) firm(w verdict.Weight, fits func(*finding) bool) []*finding {
	return all.of(w, func(g *finding) bool { return !g.weak && !g.warns && fits(g) })
}

// stands says that a finding is not over.
func (all *findings) stands() bool {
	return slices.ContainsFunc(all[:], func(list []*finding) bool {
		return slices.ContainsFunc(list, func(f *finding) bool { return !f.over })
	})
}

// takeBack says of findings that they are over.
func (all *findings) takeBack(fits func(*finding) bool) {
	for _, list := range all {
		for _, g := range list {
			if fits(g) {
				g.over = true
			}
		}
	}
}

// compare is the order of findings of one weight: what is sure and no warning first, then by time where that is known of both and they are
// of different files, then as they were read.
func compare(a, b *finding) int {
	word := strconv.FormatBool // "false" comes first
	if c := cmp.Or(cmp.Compare(word(a.weak), word(b.weak)), cmp.Compare(word(a.likely), word(b.likely))); c != 0 {
		return c
	}
	if a.file != b.file && !a.time.IsZero() && !b.time.IsZero() {
		return a.time.Compare(b.time)
	}
	return cmp.Compare(a.order, b.order)
}

// precedes says that a finding surely came before another one.
func precedes(a, b *finding) bool {
	if a.file != b.file {
		return !a.time.IsZero() && !b.time.IsZero() && a.time.Before(b.time)
	}
	return a.order < b.order
}

// leads says that a finding stands at most n lines before another one.
func (g *finding) leads(f *finding, n int) bool { return g.upTo(f, 0) && f.number-g.number <= n }

// upTo says that a finding stands before another one, or at most n lines after it.
func (g *finding) upTo(f *finding, n int) bool { return g.file == f.file && g.number-f.number <= n }
