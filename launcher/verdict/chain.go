package verdict

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/pattern"
)

// chain is exceptions that came of each other, in the order of cause and effect: what a group has, or a message quotes, stands before the
// group and the message. The last one is what the program ended with.
//
//	root ─▶ ... ─▶ what it led to
type chain []Exception

// chains takes exceptions apart, in the order in which they were written, into those that came of each other.
func chains(raised []Exception) (all []chain) {
	wrapper := 0 // where in the last chain the one stands that has, or quotes, what comes next
	for _, e := range raised {
		if e.Link == job.Unlinked || len(all) == 0 {
			all, wrapper = append(all, chain{e}), 0
			continue
		}
		c := &all[len(all)-1]
		switch e.Link {
		case job.Quoted, job.Member:
			*c = slices.Insert(*c, wrapper, e)
			wrapper++
		default:
			*c = append(*c, e)
			wrapper = len(*c) - 1
		}
	}
	return all
}

// line is an exception's first line.
func (e Exception) line() string { return firstLine(e.Text) }

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// lookUp is an exception of a look-up that may fail: who looks there first does something else then.
var lookUp = pattern.Of(`^(?:[\w.]+\.)?(?:(?:Key|Index|Lookup|Attribute|Import|ModuleNotFound|FileNotFound|EntryNotFound|LocalEntryNotFound|NotImplemented)Error|Stop(?:Async)?Iteration|_?Empty|DoesNotExist)\b`)

// mute is an exception that says nothing but its class, and group one that only says how many it has.
var (
	mute  = pattern.Of(`^[A-Za-z_][\w.]*:?\s*(?:"""|''')?$`)
	group = pattern.Of(`^(?:[\w.]+\.)?\w*(?:Group|MultiError): .*\(\d+ sub-exceptions?\)$`)
	wraps = pattern.Of(`^(?:[\w.]+\.)?\w+: Caught \w+ in |^(?:[\w.]+\.)?_?RemoteTraceback\b|^torch\.distributed\.checkpoint\.api\.CheckpointException: `)
)

// saysNothing says that another one of the chain tells more of the reason.
func (e Exception) saysNothing() bool {
	line := e.line()
	return mute().MatchString(line) || group().MatchString(line) || wraps().MatchString(line) || Relayed(line) || e.lostWorker()
}

// broken is an exception of a pipe or socket whose other side is gone.
var broken = pattern.Of(`^(?:Connection(?:Reset|Refused|Aborted)Error|BrokenPipeError|EOFError)\b|^FileNotFoundError: \[Errno 2\] No such file or directory$`)

// lostWorker says that the process lost one of its own workers, and no rank.
func (e Exception) lostWorker() bool { return e.Piped && broken().MatchString(e.Text) }

// tried says that an exception is of a look-up which the function that did it was prepared for. One that came from deeper is what another
// function failed of.
func (e Exception) tried() bool { return !e.Deep && lookUp().MatchString(e.Text) }

// root is which of a chain is the reason. A direct cause always is; what came while another one was handled is of that, unless that one was a
// look-up that may fail. What ranks say of others that they lost gives way to what else a group has, and to the end of their own worker.
func (c chain) root() int {
	at := len(c) - 1
	for at > 0 && !(c.follows(at) == job.WhileHandling && c[at-1].tried()) {
		at--
	}
	first := at

	for at < len(c)-1 && c[at].saysNothing() {
		at++
	}
	if c[at].saysNothing() { // nor does any other
		return first
	}
	if f, ok := look(c[at].Text); ok && f.Echo {
		for i := at + 1; i < len(c); i++ {
			if c[i].ofWorker() || c[at].Link == job.Member && c[i].Link == job.Member && !c[i].echoes() {
				return i
			}
		}
	}
	return at
}

// follows is how the exception at i came of the one before it.
func (c chain) follows(i int) job.Link {
	if c[i-1].Link == job.Quoted || c[i-1].Link == job.Member {
		return job.FromCause
	}
	return c[i].Link
}

func (e Exception) echoes() bool {
	f, ok := look(e.Text)
	return ok && f.Echo
}

// workers are words of a process's own workers that ended: what it lost then was no rank (torch/utils/data/_utils/signal_handling.py).
var workers = []string{"DataLoader worker (pid", "A process in the process pool was terminated", "worker process failed", "DataLoader worker process"}

func (e Exception) ofWorker() bool {
	line := e.line()
	return !Relayed(line) && slices.ContainsFunc(workers, func(w string) bool { return strings.Contains(line, w) })
}

// read is what a chain says: its root is the reason, and its last exception what that led to.
func (c chain) read() Finding {
	at := c.root()
	f := c[at].read()
	for i := at + 1; f.Kind == Python && i < len(c) && c.follows(i) != job.WhileHandling; i++ { // the same failure, in other words
		if c[i].Link == job.Member {
			continue
		}
		if more := c[i].read(); !more.Echo && Of(more.Kind).Weight == Cause {
			f.Kind, f.Text, f.Likely = more.Kind, more.Text, true
		}
	}

	for i := at; i < len(c) && !c[at].Own; i++ { // a library's line is named where no line of the program's own is
		if c[i].Own {
			f.Where = c[i].Where
			break
		}
	}
	last := len(c) - 1
	if last > at && c[last].line() != c[at].line() && f.Led == "" {
		f.Led = quoted(c[last].Text) + c[last].place(f.Where)
	}
	for i, e := range c {
		switch {
		case i < at && c.follows(i+1) == job.WhileHandling && e.tried():
			f.Beside = append(f.Beside, "it came while this was handled: "+quoted(e.Text)+e.place(""))
		case i != at && e.Link == job.Member && c[at].Link == job.Member && !e.saysNothing():
			f.Beside = append(f.Beside, "beside it: "+quoted(e.Text)+e.place(""))
		}
	}
	for _, e := range c {
		if ids := ranksOf(e.line()); !ids.Empty() {
			f.Of = ids
		}
	}
	const most = 2
	f.Beside = f.Beside[:min(len(f.Beside), most)]
	return f
}

// failedRanks are those that torch's checkpoint says to have failed, on all ranks alike (torch/distributed/checkpoint/api.py, CheckpointException).
var failedRanks = pattern.Of(`CheckpointException ranks:dict_keys\(\[([\d, ]{1,400})\]\)`)

func ranksOf(line string) (ids idset.Set) {
	m := failedRanks().FindStringSubmatch(line)
	if m == nil {
		return ids
	}
	for number := range strings.SplitSeq(m[1], ",") {
		if rank, err := strconv.Atoi(strings.TrimSpace(number)); err == nil && possible(rank) {
			ids.Add(rank)
		}
	}
	return ids
}

// elsewhere says that a failure is of other ranks than the one that tells of it.
func (f Finding) elsewhere(rank int) bool { return !f.Of.Empty() && !f.Of.Contains(rank) }

// place is where an exception came from, in parentheses, where that is known and not said.
func (e Exception) place(said string) string {
	if e.Where == "" || e.Where == said {
		return ""
	}
	return " (" + e.Where + ")"
}

// read is what one exception says. What stands below its first line may be of who comes after: a clean-up, the shell, or how its process ends.
func (e Exception) read() Finding {
	line := e.line()
	said := e.Text
	f, ok := look(said)
	if f.Echo && mistake().MatchString(line) {
		said = line
		f, ok = look(line)
	}
	if ok && follows(f, line) {
		said, ok = line, false
	}
	if f.Kind == Crash && mistake().MatchString(line) { // an assertion of Python's, which no process crashes of
		ok = false
	}
	if !ok {
		f = Finding{Kind: Python}
	}
	if e.lostWorker() {
		f = Finding{Kind: Python, Likely: true}
	}
	f.Line, f.Where, f.Call = quoted(said), e.Where, e.Call
	if reason := lastError(e.Text); reason != "" {
		f.ofNCCL(reason, e.Text)
	}
	return f
}

// lastError is what NCCL says of its reason in an exception of torch's, "NCCL error in: ...\nncclSystemError: ...\nLast error:\nREASON"
// (torch/csrc/distributed/c10d/NCCLUtils.cpp, getNcclErrorDetailStr): NCCL's last warning (NCCL 2.30.7, src/debug.cc, ncclDebugLogV).
func lastError(text string) string {
	if !strings.Contains(strings.ToLower(text), "nccl") {
		return ""
	}
	_, reason, ok := strings.Cut(text, "Last error:")
	if !ok {
		return ""
	}
	return quoted(strings.TrimSpace(reason))
}

// ofNCCL makes NCCL's last error the reason, probably: another warning may have come after the one that tells.
func (f *Finding) ofNCCL(reason, text string) {
	own, ok := look(reason)
	if !ok {
		own, ok = look("NCCL WARN " + reason)
	}
	if ok {
		f.Kind, f.Echo = own.Kind, own.Echo
	}
	line, _, _ := strings.Cut(text, "\n")
	f.Line, f.Led, f.Text, f.Likely = "NCCL's last error: "+reason, line, text, true
}

const (
	maxQuoted = 900 // bytes of a message that is quoted
	tailOf    = 300 // of them, where it is longer, from its end
)

// quoted is a message of one line or several as part of a sentence, to its end.
func quoted(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && strings.Trim(line, `"'`) != "" {
			lines = append(lines, line)
		}
	}
	text = strings.Join(lines, " | ")
	if len(text) > maxQuoted {
		text = fmt.Sprintf("%s ... %s", strings.ToValidUTF8(text[:maxQuoted-tailOf], ""), strings.ToValidUTF8(text[len(text)-tailOf:], ""))
	}
	return text
}

// story is what is said beside the reason: what it led to, and what came with it.
func (f Finding) story() (lines []string) {
	if f.Led != "" {
		lines = append(lines, "it led to: "+f.Led)
	}
	return append(lines, f.Beside...)
}
