package logs

import (
	"slices"
	"strings"

	"github.com/mpiup/mpiup/launcher/verdict"
)

// What takes a finding back: the program caught it, what was awaited came, or the job went on.
const (
	outlives = 3  // lines of progress after which a program has outlived what it wrote
	together = 10 // and after which all ranks have, whoever wrote those lines
	calms    = 5  // lines that complain of nothing, after which nothing ended
	handles  = 3  // lines in which it says that it handled something

	maxRecent = 12
)

// remember keeps a line as one of the latest.
func (h *heard) remember(text string) {
	h.before = text
	h.recent = append(h.recent[max(len(h.recent)-maxRecent+1, 0):], cut(text))
}

// reason is what the program itself said before it ended: its last line that sounds like one.
func (h *heard) reason() []string {
	if h == nil {
		return nil
	}
	for _, text := range slices.Backward(h.recent) {
		if reasons().MatchString(text) && !has(text, "boiler") {
			return []string{text}
		}
	}
	return nil
}

// shrugged says that a line tells of an error which ended nothing.
func shrugged(text string) bool {
	return shrugs().Match(text) && !has(text, "lastTries")
}

// settle takes back what a line shows to be over. f is what the line itself says of a failure, if anything.
func (r *Reader) settle(l line, h *heard, f *finding) {
	if !r.found.stands() {
		r.ended = r.ended || f == nil && h.trace != frames && good(l.text)
		return
	}
	lower := strings.ToLower(l.text)
	if has(lower, "caught") {
		for _, g := range h.open {
			if r.number-g.number <= handles && g.weight != verdict.Ending {
				g.over = true
			}
		}
	}
	if has(l.text, "came") {
		r.found.takeBack(func(g *finding) bool { return g.kind == verdict.HostsMissing })
	}
	if has(l.text, "restarts") {
		for _, g := range slices.Concat(r.found[:]...) {
			if len(h.open) < maxOpen && !slices.Contains(h.open, g) {
				h.open = append(h.open, g)
			}
			g.final = false
		}
		h.steps = 0
	}
	if f != nil || h.trace == frames {
		return
	}
	r.well(l.text)
	if has(l.text, "summary") || !progress().MatchString(l.text) || bar().ReplaceAllString(l.text, "$1") == h.step {
		return
	}
	h.step = cut(bar().ReplaceAllString(l.text, "$1"))
	r.outlived()
	if h.steps++; h.steps != outlives {
		return
	}
	for _, g := range h.open {
		g.over = g.over || !g.final
	}
	h.open = nil
	r.found.takeBack(func(g *finding) bool {
		return (is(g.kind, "starts") || g.kind == verdict.LockedMemory) && g.file == r.file
	})
}

// well takes back what a line shows to have done no harm: ranks have met, NCCL is up, the job ended well.
func (r *Reader) well(text string) {
	here := func(g *finding) bool { return g.file == r.file && !g.final }
	switch {
	case met().Match(text) && !alone().Match(text):
		r.found.takeBack(func(g *finding) bool { return here(g) && is(g.kind, "meets") })
	case passed().Match(text):
		r.ended = true
	case good(text):
		r.ended = true
		r.found.takeBack(here)
	}
}

// good says that a line tells of a good end.
func good(text string) bool {
	return passed().Match(text) || ended().Match(text) && !isBad().MatchString(text)
}

// outlived takes back what all ranks have outlived together: nobody goes on for long without a rank that it lost.
func (r *Reader) outlived() {
	r.steps++
	r.found.takeBack(func(g *finding) bool {
		return g.file == r.file && r.steps-g.steps >= together && !g.final && g.weight <= verdict.Wait
	})
}
