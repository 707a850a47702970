package logs

import (
	"slices"
	"strings"

	"github.com/mpiup/mpiup/launcher/verdict"
)

// What takes a finding back: the program caught it, what was awaited came, or the job went on.
var (
	initing = "Init COMPLETE"                        // NCCL
	noCUDA  = "not interested in CUDA-aware support" // Open MPI's help-mpi-common-cuda.txt, after the libraries that it looked for
)

const (
	outlives = 3  // lines of progress after which a program has outlived what it wrote
	together = 10 // and after which all ranks have, whoever wrote those lines
	handles  = 3  // lines in which it says that it handled something
)

// meets says that a failure of a kind is one of meeting: ranks that have met show that there was none.
func meets(k verdict.Kind) bool { return is(k, "meets") }

const maxRecent = 12

// remember keeps a line as one of the latest.
func (h *heard) remember(text string) {
	h.before = text
	if len(h.recent) == maxRecent {
		h.recent = append(h.recent[:0], h.recent[1:]...)
	}
	h.recent = append(h.recent, cut(text))
}

// reason is what the program itself said before it ended: its last line that sounds like one.
func (h *heard) reason() []string {
	if h == nil {
		return nil
	}
	for _, text := range slices.Backward(h.recent) {
		if len(text) > 3 && reasons().MatchString(text) && !has(text, "boiler") {
			return []string{text}
		}
	}
	return nil
}

// What a logger writes above the traceback of an exception that ended nothing: it is tried again, or nobody waits for it, or the work was done.

// shrugged notes whether the lines above a traceback tell that its exception ended nothing.
func (h *heard) shrugged() {
	chained := strings.HasPrefix(h.before, "The above exception was the direct cause") || strings.HasPrefix(h.before, "During handling of the above exception")
	h.shrug = h.shrug && chained || shrugged(h.before)
}

// shrugged says that a line tells of an error which ended nothing.
func shrugged(text string) bool {
	return shrugs().Match(text) && !has(text, "lastTries")
}
