package iof

import (
	"bytes"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/pattern"
)

// traceReader has the exceptions at the ends of the last Python tracebacks that a process wrote, and how they came of each other. It reads what
// Python writes (Lib/traceback.py), what libraries quote in a message, and rich's boxes. It is bounded, whatever it hears.
//
//	              ┌──────────────────────────── "The above exception was", "+---- 2 ----" ─────────────────────┐
//	              ▼                                                                                            │
//	outside ─▶ linked ─"Traceback (most recent call last):"─▶ frames ─a line that is not indented─▶ message ───┤
//	   └──────────────────────────────────────────────────────▲ │                                    ▲        └─▶ outside
//	                                     "╭── Traceback" ─▶ box ┘ ─"╰──"─▶ linked ─────────────────────┘
type traceReader struct {
	raised []Raised
	count  int // exceptions so far
	state  traceState
	link   job.Link // of the exception that comes next
	frame  frame    // of the traceback so far
	group  bool     // a traceback of an exception group goes on
	ranked bool     // each line of it begins with torch's "[rank3]: "
	boxed  bool     // rich wrote it, whose lines end where the box would
	broken string   // the first part of a path that rich has broken
	prior  string   // the last line that was not empty
	words  message  // of the last exception, while it goes on
	surely bool     // the last line was surely of a traceback
}

// traceState is where in a traceback a line is.
type traceState uint8

const (
	traceOutside traceState = iota
	traceLinked             // an exception comes, with a traceback or without
	traceFrames
	traceBox
	traceMessage
)

const (
	maxRaised  = 6    // exceptions that are kept: of a longer chain the first and the last ones
	maxMessage = 12   // lines of an exception's message
	maxTold    = 1500 // bytes of them
	// shortMessage is how many lines are taken for a message's that a line of others ends: NCCL's last error is the fourth (torch/csrc/distributed/c10d/NCCLUtils.cpp).
	shortMessage = 6
	maxAfter     = 2 // lines after an exception's first that are its own where nothing tells
)

// linkOf is how the exception below a line came of the one above it, where the line says so (Lib/traceback.py, _cause_message and _context_message).
func linkOf(line string) job.Link {
	switch line {
	case "The above exception was the direct cause of the following exception:":
		return job.FromCause
	case "During handling of the above exception, another exception occurred:":
		return job.WhileHandling
	}
	return job.Unlinked
}

// Where tracebacks begin, and what stands between two exceptions.
var (
	headOfTrace  = []byte("Traceback (most recent call last)")
	headOfSyntax = []byte(`  File "`)
	betweenTwo   = []byte("above exception")
)

// beginsTrace is where in data something of a traceback is first written; -1: nowhere.
func beginsTrace(data []byte) int {
	first := -1
	for _, words := range [][]byte{headOfTrace, betweenTwo, headOfSyntax} {
		if at := bytes.Index(data, words); at >= 0 {
			first, data = at, data[:at]
		}
	}
	return first
}

// quiet says that no line is awaited that only what came before it explains.
func (t *traceReader) quiet() bool { return t.state == traceOutside && !t.group }

// hear takes a whole line.
func (t *traceReader) hear(line string) {
	t.surely = false
	text, ranked := unranked(line)
	text, ok := t.ungrouped(text)
	if ok {
		t.traced(text, ranked)
	}
	if text != "" {
		t.prior = text
	}
}

// skip notes the last line of several that are of no traceback.
func (t *traceReader) skip(lines []byte) {
	for _, line := range bytes.Split(lines[max(0, len(lines)-2*maxWord):], []byte{'\n'}) {
		if text, _ := unranked(cleanLine(string(line))); text != "" {
			t.prior = text[:min(len(text), maxWord)]
		}
	}
}

// cleanLine is what a terminal shows of a line.
func cleanLine(line string) string {
	line = strings.TrimRight(line, "\r")
	line = line[strings.LastIndexByte(line, '\r')+1:]
	return strings.TrimRight(strings.ToValidUTF8(line, "\uFFFD"), "\r ")
}

// ungrouped is a line without the margin that Python draws before those of an exception group, "  | " or deeper; one of its frame alone is none.
func (t *traceReader) ungrouped(line string) (text string, ok bool) {
	rest := strings.TrimLeft(line, " ")
	switch {
	case strings.HasPrefix(rest, "+ Exception Group "+string(headOfTrace)):
		t.group = true
	case !t.group:
	case strings.HasPrefix(rest, "+-"):
		t.endMessage(true)
		t.state = traceOutside
		if strings.Trim(rest, "+-") != "" { // "+---------------- 2 ----------------"
			t.state, t.link = traceLinked, job.Member
		}
		t.surely = true
		return "", false
	case strings.HasPrefix(rest, "| "), rest == "|":
		return strings.TrimPrefix(rest[1:], " "), true
	case line != "" && linkOf(line) == job.Unlinked: // between two of a chain, the second of which may be a group, too
		t.group = false
	}
	return line, true
}

// syntaxHead is the line with which an error of syntax says where it is; it is the first where the script itself has it.
var syntaxHead = pattern.Of(`^  File "[^"]+", line \d+$`)

// bare is an exception without a traceback: its class, and its message.
var bare = pattern.Of(`^[A-Za-z_][\w.]*(?:: |:?$)`)

// traced takes a line that may be of a traceback. ranked says that it began as torch begins each line of one.
func (t *traceReader) traced(line string, ranked bool) {
	indented := strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t")
	head, _, isHead := strings.Cut(line, string(headOfTrace))
	switch link := linkOf(line); {
	case link != job.Unlinked:
		t.joinNext(link)
	case isHead && headed(line):
		t.begin(head, line, ranked)
	case t.state == traceBox:
		t.hearBox(line)
	case t.state == traceFrames && indented:
		t.frame.hear(line)
		t.surely = true
	case indented && (t.state == traceOutside || t.state == traceLinked) && syntaxHead().MatchString(line):
		t.endMessage(true)
		t.state, t.frame, t.ranked, t.boxed = traceFrames, frame{}, ranked, false
		t.frame.hear(line)
	case t.state == traceFrames && line != "":
		t.raise(line, ranked)
	case t.state == traceLinked && line != "":
		if !bare().MatchString(line) {
			t.state, t.link = traceOutside, job.Unlinked
			return
		}
		t.raise(line, ranked)
	case t.state == traceMessage:
		t.hearMessage(line, ranked)
	}
}

// headed says that a line which has the words of a traceback's head is one: Paddle's of C++ ends in no exception.
func headed(line string) bool {
	head, rest, _ := strings.Cut(line, string(headOfTrace))
	switch {
	case strings.HasSuffix(head, "C++ "):
		return false
	case rest == ":", strings.HasPrefix(rest, ": (RANK "): // torch/distributed/checkpoint/api.py, CheckpointException
		return true
	}
	return inBox(line) // rich/traceback.py
}

// inBox says that a line is drawn as rich draws the head of its box.
func inBox(line string) bool {
	return strings.HasPrefix(line, "╭") || strings.HasPrefix(line, "┌") || strings.HasPrefix(line, "+-")
}

// begin takes the first line of a traceback; head is what stands before its words, as a progress bar and torch's "[rank3]: ".
func (t *traceReader) begin(head, line string, ranked bool) {
	if t.state == traceMessage && t.link == job.Unlinked && t.quotes(line) {
		t.link = job.Quoted
		if n := len(t.words.lines); n > 1 && t.words.lines[n-1] == t.prior { // which introduces it
			t.words.lines = t.words.lines[:n-1]
			t.tellMessage(n - 1)
		}
	}
	t.endMessage(t.link != job.Unlinked)
	t.state, t.frame, t.surely = traceFrames, frame{}, true
	t.boxed = inBox(line)
	if t.boxed {
		t.state = traceBox
	}
	t.ranked = ranked || strings.HasSuffix(head, "]: ") && strings.Contains(head, "[rank")
}

// quotes says that a traceback which begins in a message is one that the message quotes: of a data loader's worker (torch/_utils.py), a
// process of a pool (multiprocessing/pool.py), one of spawn (torch/multiprocessing/spawn.py), or a rank that saves a checkpoint.
func (t *traceReader) quotes(line string) bool {
	switch {
	case strings.HasPrefix(line, "Original "), strings.HasSuffix(line, ")"):
		return true
	}
	return t.prior == `"""` || t.prior == "'''" || strings.HasSuffix(t.prior, " terminated with the following error:")
}

// joinNext takes the line that joins the exception above it with the one below.
func (t *traceReader) joinNext(link job.Link) {
	alone := t.state == traceOutside && bare().MatchString(t.prior)
	t.endMessage(true)
	if alone { // without a traceback, as where a library wraps what another one raised
		t.state, t.link = traceLinked, job.Unlinked
		t.raise(t.prior, false)
		t.endMessage(true)
	}
	t.state, t.link, t.surely = traceLinked, link, true
}

// raise takes an exception's first line.
func (t *traceReader) raise(line string, ranked bool) {
	if len(t.raised) == maxRaised { // of a chain its root is kept
		at := 0
		if t.link != job.Unlinked && t.raised[1].Link != job.Unlinked {
			at = 1
		}
		t.raised = slices.Delete(t.raised, at, at+1)
	}
	t.raised = append(t.raised, Raised{Text: line, Where: t.frame.where, Call: t.frame.call, Own: t.frame.rank >= ownString, Deep: t.frame.own > 1, Piped: t.frame.piped, At: time.Now(), Link: t.link})
	t.count++
	t.words = message{lines: []string{line}, sure: 1}
	t.state, t.link, t.surely = traceMessage, job.Unlinked, true
	t.frame = frame{}
}

// message is what an exception says, as it comes.
type message struct {
	lines []string // the first ones, and the last two
	left  int      // lines between these
	sure  int      // of the lines, that are surely of it
	blank bool     // an empty line came
}

// afterMessages are beginnings of lines that come after an exception's message, of others or of how the process ends.
var afterMessages = []string{"frame #", "Exception raised from ", "Exception ignored in", "Exception in thread", "Fatal Python error", "terminate called", "*** ", "Abort(", "MPI_ABORT",
	"application called MPI_Abort", "-----", "=====", "srun: ", "wandb: ", "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL", "NOTE: ", "[W", "[E", "[I"}

// notOfMessages are lines of others: of a log with time or level, a warning, or a progress bar.
var notOfMessages = pattern.Of(`^\[?\d{4}[-/]\d\d[-/]\d\d[ T]|^\[?\d\d:\d\d:\d\d|^[^ ]+:\d+: \w*Warning: |\d%\|`)

// hearMessage takes a line that may go on with the last exception's message.
func (t *traceReader) hearMessage(line string, ranked bool) {
	m := &t.words
	foreign := logged(line) || notOfMessages().MatchString(line) || slices.ContainsFunc(afterMessages, func(begin string) bool { return strings.HasPrefix(line, begin) })
	switch {
	case t.ranked && !ranked: // another thread's, or another library's
		return
	case foreign:
		t.endMessage(t.ranked || !m.blank && len(m.lines) <= shortMessage)
		return
	case line == "":
		m.blank = true
		return
	}

	indented := strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t")
	m.add(line)
	if t.ranked || indented && !m.blank || !m.blank && len(m.lines) <= 1+maxAfter && m.left == 0 {
		m.sure, t.surely = len(m.lines), true
	}
	if m.left > 0 && m.sure < len(m.lines) { // nothing has told for so long that it is of the message
		t.endMessage(false)
	}
	t.tellMessage(len(t.words.lines))
}

// add takes a line of the message. Of a long one its last two are kept.
func (m *message) add(line string) {
	const last = 2
	if len(m.lines) < maxMessage {
		m.lines = append(m.lines, line)
		return
	}
	copy(m.lines[maxMessage-last:], m.lines[maxMessage-last+1:])
	m.lines[maxMessage-1] = line
	m.left++
}

// endMessage ends the last exception's message. whole says that all of it is the exception's.
func (t *traceReader) endMessage(whole bool) {
	if t.state != traceMessage {
		return
	}
	if !whole && t.words.sure < len(t.words.lines) {
		t.words.left = 0
		t.tellMessage(t.words.sure)
	}
	t.state, t.words = traceOutside, message{}
}

// tellMessage makes the first n lines the last exception's text.
func (t *traceReader) tellMessage(n int) {
	if len(t.raised) == 0 || n == 0 {
		return
	}
	m := t.words
	lines := slices.Clone(m.lines[:n])
	if m.left > 0 && n == maxMessage {
		lines = slices.Insert(lines, maxMessage-2, fmt.Sprintf("(%d lines more)", m.left))
	}
	between := "\n"
	if t.boxed { // which breaks lines as wide as the box
		between = " "
	}
	text := strings.Join(lines, between)
	if len(text) > maxTold {
		text = text[:maxTold/2] + "\n...\n" + text[len(text)-maxTold/2:]
	}
	t.raised[len(t.raised)-1].Text = strings.ToValidUTF8(text, "")
}

// inside is the file, and the line in it, of a frame in rich's box: "│ /app/train.py:33 in step    │".
var inside = pattern.Of(`^[│|] (\S.*):(\d+)(?: in \S+)?\s*[│|]?$`)

// hearBox takes a line of rich's box.
func (t *traceReader) hearBox(line string) {
	t.surely = true
	if strings.HasPrefix(line, "╰") || strings.HasPrefix(line, "└") || strings.HasPrefix(line, "+-") {
		t.state = traceFrames // what stands below it is the exception
		return
	}
	if m := inside().FindStringSubmatch(line); m != nil {
		file := m[1]
		if t.broken != "" && !strings.HasPrefix(file, "/") {
			file = t.broken + file
		}
		t.frame.add(file, m[2])
	}
	t.broken = ""
	if part := strings.Trim(line, "│| "); strings.HasPrefix(part, "/") && !strings.Contains(part, " ") && len(line) > len(part)+2 {
		t.broken = part
	}
}

// frame is the innermost of a traceback's frames, of the highest rank that there is.
type frame struct {
	where string
	rank  frameRank
	own   int    // frames of the program's own files
	piped bool   // the innermost one is of multiprocessing, with which a process talks to its own workers
	call  string // of torch.distributed, the outermost
}

// collectives is the file of torch that has its collectives (since torch 1.0, up to 2.15).
const collectives = "/torch/distributed/distributed_c10d.py"

// frameRank says how much a frame tells the program's author.
type frameRank uint8

const (
	frozen    frameRank = iota // code of the interpreter itself: <frozen os>
	library                    // a file that was installed
	ownString                  // python -c
	ownFile
	mistyped // where an error of syntax is
)

// hear takes a line between the head of a traceback and its exception: `  File "/work/train.py", line 33, in step`.
func (f *frame) hear(line string) {
	rest, ok := strings.CutPrefix(line, `  File "`)
	file, rest, told := strings.Cut(rest, `", line `)
	number, function, in := strings.Cut(rest, ", in ")
	if !ok || !told || number == "" || strings.Trim(number, "0123456789") != "" {
		return
	}
	if f.call == "" && strings.HasSuffix(file, collectives) {
		f.call = function
	}
	if !in {
		f.where, f.rank = path.Base(file)+":"+number, mistyped
		return
	}
	f.add(file, number)
}

// add takes a frame by its file and line.
func (f *frame) add(file, number string) {
	rank := rankOf(file)
	f.piped = strings.Contains(file, "/multiprocessing/")
	if rank == ownFile {
		f.own++
	}
	if rank >= f.rank || f.where == "" {
		f.where, f.rank = path.Base(file)+":"+number, rank
	}
}

// installed are parts of the paths of files that the program's author did not write.
var installed = []string{"-packages/", "/lib/python", "/lib64/python", "/bin/"}

func rankOf(file string) frameRank {
	switch {
	case file == "<string>", file == "<stdin>":
		return ownString
	case strings.HasPrefix(file, "<"):
		return frozen
	case slices.ContainsFunc(installed, func(part string) bool { return strings.Contains(file, part) }):
		return library
	}
	return ownFile
}
