package iof

import (
	"bytes"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mpiup/mpiup/internal/job"
)

// Words is what of a process's standard error tells why it failed, apart from its last lines. Where no traceback is there, those at the end of
// standard output count: a shell may have joined both (2>&1). All of it is bounded.
type Words struct {
	First  []string // the first distinct lines; none where the process has outlived them by far
	Gone   bool     // it has outlived these: they tell of it, and not why it ends
	Began  bool     // it went on for a while after these
	Past   bool     // it has outlived all that it said, its last lines too
	Early  bool     // it went on for a while after its last line
	Raised []Raised // the ends of the last Python tracebacks, the latest last
	Mute   bool     // it has said nothing since the last of these
	After  bool     // these stood on standard output, and lines of its own after them
	Last   string   // its last line that is not empty
	Fatal  string   // the last line of a log that says why the process aborts; "": none
	Frames []string // the innermost of the last back-trace of a crash
	Above  int      // lines that all processes wrote after the first ones of this
}

// Raised is the end of one traceback.
type Raised struct {
	Text    string    // the exception's line, and those that follow it of its message, as far as it is known to go
	Where   string    // the innermost line of the program's own in its traceback, "train.py:33", else a library's; "": none is told
	Own     bool      // that is the program's own
	Call    string    // the call of torch.distributed in it, "all_reduce"; "": there is none
	Deep    bool      // it came from a function of the program's own that another one of these called
	Piped   bool      // it came from where Python talks to the process's own workers (multiprocessing)
	At      time.Time // when it came here
	Link    job.Link  // how it came of the one before
	Old     bool      // the process went on for long after it
	Printed bool      // on standard output, where programs print those that they caught
}

const (
	maxFirst = 10
	maxWord  = 800 // bytes of a line
	maxMute  = 600 // bytes that may follow the last exception where a process has said nothing since
	// maxSince is how much a process writes after an exception that ends it. One that wrote more went on.
	maxSince = 64 << 10
	// maxOutlived is the same for a line alone: a program that ends writes what its streams still hold, 4 KiB (glibc) or 8 (Python) each.
	maxOutlived = 16 << 10
	// maxPrinted is how much of standard output may end with a traceback, and maxPlain how many lines may come after one that ended the program:
	// torch says three more of a CUDA error.
	maxPrinted = 16 << 10
	maxPlain   = 4
	maxLines   = 60 // of standard error, which programs do not hold back; frames of a crash are fewer
	// maxAge is likewise: torch's watchdog waits a minute for dumps before it ends its process.
	maxAge = 90 * time.Second
	soon   = 5 * time.Second
)

// words gathers Words of all processes.
type words struct {
	mu    sync.Mutex
	of    map[int]*hearing // guarded by mu
	out   map[int]*hearing // tracebacks on standard output alone, guarded by mu
	lines int              // of all, guarded by mu
}

// hearing is one process's standard error as it comes.
type hearing struct {
	words Words
	line  []byte // begun, at most maxWord of it
	trace traceReader
	since int // bytes that came after the last exception, of both streams
	first int // and after the last of the first lines
	lines int // likewise, whole lines of standard error
	plain int // lines after the last exception's first two that may be of a program which went on
	above int // lines of all processes up to the last of the first lines

	firstAt, lastAt, endAt time.Time // of the first lines and of standard error the last, and the end of both streams
	said                   int       // and on standard output after standard error
	crash                  crashReader
}

// add takes what a process wrote. A process that has said its first lines and is in no traceback costs a few searches.
func (w *words) add(id int, s job.Stream, data []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines += bytes.Count(data, []byte{'\n'})
	h := w.of[id]
	if h != nil && len(h.trace.raised) > 0 {
		if h.since += len(data); h.since > maxSince {
			h.trace.raised = nil
		}
	}
	if h != nil {
		h.first += len(data)
		h.said += len(data)
	}
	if s != job.Stderr {
		w.print(id, data)
		return
	}
	if h == nil {
		h = &hearing{}
		w.of[id] = h
	}
	h.said, h.lastAt = 0, time.Now()
	h.lines += bytes.Count(data, []byte{'\n'})
	if len(h.words.First) == maxFirst && h.trace.quiet() && len(h.line) == 0 && h.crash.strangers == 0 {
		at := telling(data)
		if at < 0 {
			at = len(data)
		}
		begun := bytes.LastIndexByte(data[:at], '\n') + 1
		h.trace.skip(data[:begun])
		if data = data[begun:]; at == begun+len(data) {
			h.keep(data)
			return
		}
	}
	for {
		end := bytes.IndexByte(data, '\n')
		if end < 0 {
			h.keep(data)
			return
		}
		h.keep(data[:end])
		had, raised := len(h.words.First), h.trace.count
		h.heard(string(h.line))
		if h.trace.count > raised {
			h.since = len(data) - end - 1
		}
		if h.line, data = h.line[:0], data[end+1:]; len(h.words.First) > had {
			h.first, h.lines = len(data), bytes.Count(data, []byte{'\n'})
			h.above = w.lines - h.lines
		}
	}
}

// print takes what a process wrote on standard output: only what may be its end is searched.
func (w *words) print(id int, data []byte) {
	h := w.out[id]
	if h == nil {
		h = &hearing{}
		w.out[id] = h
	}
	if len(data) > maxPrinted {
		*h = hearing{line: h.line[:0]}
		data = data[len(data)-maxPrinted:]
	}
	for {
		if h.trace.quiet() && len(h.trace.raised) == 0 && len(h.line) == 0 {
			at := beginsTrace(data)
			if at < 0 {
				at = len(data)
			}
			begun := bytes.LastIndexByte(data[:at], '\n') + 1
			h.trace.skip(data[:begun])
			if data = data[begun:]; at == begun+len(data) {
				h.keep(data)
				return
			}
		}
		end := bytes.IndexByte(data, '\n')
		if end < 0 {
			h.keep(data)
			return
		}
		h.keep(data[:end])
		h.printed(string(h.line))
		h.line, data = h.line[:0], data[end+1:]
	}
}

// printed takes a whole line of standard output.
func (h *hearing) printed(line string) {
	line = strings.TrimRight(strings.ToValidUTF8(line, "\uFFFD"), "\r ")
	raised := h.trace.count
	h.trace.hear(line)
	h.since += len(line) + 1
	switch {
	case h.trace.count > raised:
		h.since, h.plain = 0, 0
	case h.trace.surely, h.trace.group, !goesOn(line):
	default:
		h.plain++
	}
	if h.plain > maxPlain || h.since > maxPrinted {
		h.trace.raised, h.plain = nil, 0
	}
}

// ends are the beginnings of lines that interpreters and libraries write as a program ends.
var ends = []string{"Abort(", "MPI_", "with errorcode", "NOTE: ", "You may ", "exiting. ", "application called MPI_Abort", "frame #", "Exception ", "terminate called",
	"Fatal Python error", "During handling of", "The above exception"}

// goesOn says that a line after an exception may be of a program that caught it.
func goesOn(line string) bool {
	return line != "" && strings.IndexByte(" \t[(-*+|^", line[0]) < 0 && !slices.ContainsFunc(ends, func(end string) bool { return strings.HasPrefix(line, end) })
}

// keep adds to the line that has begun. What a terminal would write over is forgotten: a progress bar
// may come before a traceback's first line, and be long.
func (h *hearing) keep(data []byte) {
	if n := len(h.line); len(data) > 0 && n > 0 && h.line[n-1] == '\r' {
		h.line = h.line[:0]
	}
	if at := bytes.LastIndexByte(data[:max(len(data)-1, 0)], '\r'); at >= 0 {
		h.line, data = h.line[:0], data[at+1:]
	}
	h.line = append(h.line, data[:min(len(data), maxWord-len(h.line))]...)
}

// heard takes a whole line, of which the end may be missing.
func (h *hearing) heard(line string) {
	line = strings.TrimRight(strings.ToValidUTF8(line, "\uFFFD"), "\r ")
	if len(h.words.First) < maxFirst && line != "" && !slices.Contains(h.words.First, line) {
		h.words.First, h.firstAt = append(h.words.First, line), h.lastAt
	}
	if logged(line) && line[0] == 'F' {
		h.words.Fatal = line
	}
	text, _ := unranked(line)
	h.crash.Hear(text)
	h.trace.hear(line)
}

// logged says that a line is one of glog's or absl's log (F1123 03:48:54.704812 ...), as JAX and TensorFlow write.
func logged[T string | []byte](line T) bool {
	if len(line) < 6 || line[5] != ' ' {
		return false
	}
	for _, c := range []byte(line[1:5]) {
		if c < '0' || c > '9' {
			return false
		}
	}
	return strings.IndexByte("IWEF", line[0]) >= 0
}

// telling is where in data, which begins with a line, something is said that may be why the process fails; -1: nowhere.
func telling(data []byte) int {
	at := beginsTrace(data)
	if begin := begins(data); begin >= 0 && (at < 0 || begin < at) {
		at = begin
	}
	before := data
	if at >= 0 {
		before = data[:at]
	}
	for line := 0; ; line++ {
		if logged(before[line:]) && before[line] == 'F' {
			return line
		}
		next := bytes.Index(before[line:], []byte("\nF"))
		if next < 0 {
			return at
		}
		line += next
	}
}

// unranked is a line without the "[rank3]: " that torch 2.2 and later put before each line of a traceback; ranked says that it had that.
func unranked(line string) (text string, ranked bool) {
	rest, ok := strings.CutPrefix(line, "[rank")
	if !ok {
		return line, false
	}
	number, rest, ok := strings.Cut(rest, "]:")
	if !ok || strings.Trim(number, "0123456789") != "" {
		return line, false
	}
	return strings.TrimPrefix(rest, " "), true
}

// end notes that both streams of a process are at their end.
func (w *words) end(id int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, h := range []*hearing{w.of[id], w.out[id]} {
		if h != nil {
			h.endAt = time.Now()
		}
	}
}

// words is what was heard of a process, whose output has ended.
func (w *words) words(id int) Words { return w.gather(id, true) }

// soFar is the same of one whose output goes on: a line that has begun is not of it.
func (w *words) soFar(id int) Words { return w.gather(id, false) }

func (w *words) gather(id int, ended bool) (all Words) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if h := w.of[id]; h != nil {
		if ended {
			h.finish(h.heard)
		}
		all = h.sum()
		all.Above = w.lines - h.above
	}
	if h := w.out[id]; h != nil && len(all.Raised) == 0 {
		if ended {
			h.finish(h.printed)
		}
		out := h.sum()
		all.Raised, all.Mute, all.After = out.Raised, out.Mute, len(out.Raised) > 0 && h.plain > 0
		for i := range all.Raised {
			all.Raised[i].Printed = true
		}
	}
	return all
}

// finish takes the last line of a stream, which may have no end.
func (h *hearing) finish(take func(line string)) {
	if len(h.line) > 0 {
		take(string(h.line))
		h.line = h.line[:0]
	}
}

// sum is what was heard on one stream.
func (h *hearing) sum() Words {
	if h.first > maxOutlived {
		h.words.First = nil
	}
	end := h.endAt
	if end.IsZero() {
		end = time.Now()
	}
	raised := slices.Clone(h.trace.raised)
	for i, r := range raised {
		raised[i].Old = end.Sub(r.At) > maxAge
	}
	quiet := end.Sub(h.lastAt)
	return Words{
		First:  slices.Clone(h.words.First),
		Gone:   h.lines > maxLines || end.Sub(h.firstAt) > maxAge,
		Began:  end.Sub(h.firstAt) > soon,
		Past:   h.said > maxOutlived || quiet > maxAge,
		Early:  quiet > soon,
		Raised: raised,
		Mute:   len(raised) > 0 && h.since <= maxMute+len(raised[len(raised)-1].Text),
		Last:   h.trace.prior,
		Fatal:  h.words.Fatal,
		Frames: slices.Clone(h.crash.frames),
	}
}
