package logs

import (
	"strings"

	"github.com/mpiup/mpiup/launcher/verdict"
)

// trace is where in a Python traceback a lane is.
type trace uint8

const (
	outside trace = iota
	frames
)

// part is what a line is of a traceback.
type part uint8

const (
	apart  part = iota
	within      // or of an exception that ended nothing
	raised      // the exception in which it ends
)

// python takes a line for what it is of a traceback, without what stands before each of its lines. root says that it is torch's table that quotes one.
func (h *heard) python(text, indent string, root bool) (string, part) {
	if rest, ok := strings.CutPrefix(text, h.head); ok && h.trace == frames && h.head != "" { // as before the traceback's first line
		text = strings.TrimLeft(rest, " \t")
		indent = rest[:len(rest)-len(text)]
	}
	switch {
	case strings.HasPrefix(text, "Exception ignored in"):
		h.ignored = min(h.ignored+1, maxOpen)
		return text, within
	case begins(text):
		h.trace = frames
		h.head, _, _ = strings.Cut(text, "Traceback (")
		h.margin = len(indent)
		h.shrugged()
		return text, within
	case h.trace == frames && (len(indent) > h.margin && !(root && looksRaised(text)) || strings.HasPrefix(text, `File "`)),
		h.trace == frames && (strings.Trim(text, "^~ .[]()") == "" || between(text) || code(h.before, text)):
		return text, within
	case h.trace == frames:
		h.trace = outside
		if s, ok := verdict.Recognise(text); h.shrug && (!ok || s.Weight() < verdict.Cause || s.General) {
			h.ignore = cut(text)
			return text, within
		}
		if h.ignored > 0 {
			h.ignored, h.ignore = h.ignored-1, cut(text)
			return text, within
		}
		return text, raised
	case looksRaised(text):
		if h.ignored > 0 && cut(text) == h.ignore { // another thread's, whose traceback is mixed with the one before
			h.ignored--
			return text, within
		}
		return text, raised
	}
	return text, apart
}

// begins says that a line is a traceback's first, which a bar of progress may have been written over. Paddle's of C++ end in no exception.
func begins(text string) bool {
	head, rest, ok := strings.Cut(text, "Traceback (most recent call last):")
	return ok && !strings.HasSuffix(head, "C++ ") && (rest == "" || rest[0] >= '0' && rest[0] <= '9' && strings.HasSuffix(rest, "]"))
}

// between says that a line in a traceback is another thread's or process's: a logger wrote it, or it heads another.
func between(text string) bool {
	level, ok := stated(text)
	return (ok && level <= Warn || has(text, "heads")) && !looksRaised(text)
}

// code says that a line in a traceback is the program's code, where blanks before it are lost.
func code(before, text string) bool {
	if !strings.HasPrefix(before, `File "`) || looksRaised(text) || relayed(text) {
		return false
	}
	_, ok := verdict.Recognise(text)
	return !ok
}

// shrugged notes whether the lines above a traceback tell that its exception ended nothing: it is tried again, or nobody waits for it, or the
// work was done.
func (h *heard) shrugged() {
	chained := strings.HasPrefix(h.before, "The above exception was the direct cause") || strings.HasPrefix(h.before, "During handling of the above exception")
	h.shrug = h.shrug && chained || shrugged(h.before)
}

// exception is the end of a traceback.
func (r *Reader) exception(text string, h *heard) *finding {
	f := &finding{kind: verdict.Python, weight: verdict.Program, who: ending{rank: -1}}
	s, known := verdict.Recognise(text)
	if strings.HasPrefix(text, "KeyboardInterrupt") { // whoever hit Ctrl-C had a reason, which another line may tell
		f.kind, f.weight = verdict.Interrupted, verdict.Ending
		return f
	}
	if s != nil && s.Kind == "" { // what looks like a failure and is none
		return nil
	}
	known = known && !s.General
	if relayed(text) {
		if end, ok := status(text); ok && (!known || s.Kind == verdict.ExitCode) {
			return &end
		}
		if !known {
			return &finding{kind: verdict.ExitCode, likely: true, general: true, weak: true, who: ending{rank: -1}}
		}
		f.weight = verdict.Ending
	}
	known = known && (s.Kind != verdict.Crash || f.weight == verdict.Ending) // an assertion that became an exception has ended nothing by itself
	if known && s.Weight() != verdict.Ending {
		f.kind, f.likely, f.weak = s.Kind, s.Likely, is(s.Kind, "starts")
		if f.weight != verdict.Ending {
			f.weight = s.Weight()
		}
	} else if known && (f.weight == verdict.Ending || s.Kind == verdict.MPIError) {
		f.kind, f.likely = s.Kind, s.Likely
	}
	if !known && strings.HasSuffix(text, ":") && !strings.Contains(text, " ") { // whose words stand below
		f.weight, f.likely = verdict.Ending, true
	}
	if f.kind == verdict.DiskFull && strings.Contains(h.before, "SemLock") { // a semaphore is a file of /dev/shm
		f.kind = verdict.SharedMemory
	}
	if f.kind == verdict.Python && (s == nil || s.General) && !has(text, "programs") {
		f.plainly(text, "raised")
	}
	const survived = 200 // lines after which an exception has ended nothing
	if h.last != nil && h.quiet > survived {
		h.last.weak = true
	}
	h.quiet, h.last = 0, f
	return f
}
