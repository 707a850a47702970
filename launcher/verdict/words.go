package verdict

import (
	"slices"
	"strings"
	"time"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
)

// Said is what is known of a rank's standard error, each list in the order in which it was written.
type Said struct {
	First  []string    // its first lines, which it has not outlived
	Began  bool        // it went on for a while after these
	Gone   bool        // or said so much after them that none is here
	Raised []Exception // ends of Python tracebacks
	Mute   bool        // it has said nothing since the last of these
	After  bool        // these stood on standard output, and lines of its own after them
	Last   []string    // its last lines
	Early  bool        // it went on for a while after the last of these
	Code   int         // that it exited with; 0: it is not known, or a signal ended it
}

// Exception is the end of a traceback.
type Exception struct {
	Text    string   // the exception's line, and after a line feed what follows it of its message
	Where   string   // a line of its traceback, "train.py:33"; "": none is told
	Call    string   // the call of torch.distributed in it, "all_reduce"; "": there is none
	Own     bool     // that is the program's own, and no library's
	Deep    bool     // it came from a function of the program's own that another one of these called
	Piped   bool     // it came from where Python talks to the process\'s own workers (multiprocessing)
	Link    job.Link // how it came of the one before
	Old     bool     // the process went on for long after it
	Printed bool     // on standard output
	At      time.Time
}

// Finding is what a rank's own words say of its end. The zero value is nothing.
type Finding struct {
	Kind   Kind
	Line   string    // that says so, as the rank wrote it; of a message of several all
	Led    string    // the exception that it led to; "": it is the last one
	Beside []string  // sentences of exceptions that came with it, or that it came of and that are not the reason
	Text   string    // all of it that was looked at
	Where  string    // in the program it is, "train.py:33"; "": not known
	Call   string    // of torch.distributed in which it was raised; "": in none
	Of     idset.Set // ranks whose failure it is, by a checkpoint's own words, which all ranks write; empty: nobody says
	Echo   bool      // ranks say so that lost another one, or waited for it
	Vain   bool      // it waited for another one, which did not come: an Echo
	Likely bool      // it may be another kind
	Loose  bool      // a line among others says so, which the rank may have outlived
	Late   bool      // and it had run for a while, so that it could be executed
}

// Read finds the reason in what a rank said: the root of the last exceptions of Python's that came of each other (chain), else the last line
// that a row knows. Those that only tell of a child's end (torchrun's) are passed over for the child's own.
func Read(s Said) (Finding, bool) {
	var relay, worker Finding // the last ones that were passed over
	raised := slices.DeleteFunc(slices.Clone(s.Raised), s.caught)
	for _, c := range slices.Backward(chains(raised)) {
		f := c.read()
		if worker.Kind != "" { // its own words, of a worker's end that another exception only noticed
			f.Led = worker.Line + Exception{Where: worker.Where}.place(f.Where)
			f.Likely = true
			return f, true
		}
		if c[c.root()].lostWorker() {
			worker = f
			continue
		}
		if Relayed(c[c.root()].line()) {
			if f.Kind != Python && relay.Kind == "" {
				relay = f
			}
			continue
		}
		f.Likely = f.Likely || c[len(c)-1].Old || s.After
		if strings.HasSuffix(c[c.root()].line(), workerGone) {
			f = s.endOfWorker(f)
		}
		return f, true
	}
	if worker.Kind != "" {
		worker.Beside = append(worker.Beside, "it lost a worker process of its own, and no other rank")
		return s.endOfWorker(worker), true
	}
	if f, ok := s.line(s.Last, s.Early); ok {
		return f, true
	}
	if f, ok := s.line(s.First, s.Began); ok {
		return f, true
	}
	return relay, relay.Kind != ""
}

// workerGone ends torch's line of a data loader's worker that ended before it could say why (torch/utils/data/dataloader.py, _try_get_data).
const workerGone = " exited unexpectedly"

// endOfWorker is what lines tell of a worker's end, of which an exception only says that it has come.
func (s Said) endOfWorker(gone Finding) Finding {
	for _, lines := range [][]string{s.Last, s.First} {
		own, ok := s.line(lines, false)
		if ok && !own.Echo && Of(own.Kind).Weight == Cause && !slices.Contains(notExecuted, own.Kind) {
			own.Where, own.Led = gone.Where, gone.Line
			own.Loose = false
			return own
		}
	}
	return gone
}

// caught says that a program printed an exception and went on: it said more and ended otherwise than Python does after one (with 1), or
// ended long after it.
func (s Said) caught(e Exception) bool {
	return e.Printed && s.Code != 1 && (s.After || e.Old && s.Code != 0)
}

// follows says that what came after an exception tells how its process ended, as mpi4py's MPI_Abort, and not the exception.
func follows(f Finding, line string) bool {
	own, ok := look(line)
	return Of(f.Kind).Weight == Ending && (!ok || own.Kind != f.Kind)
}

// line is what the last line says that a row knows. What a process said early, and not with its last words, is probably why it ends; that
// it lost another one then is not: it has done without.
func (s Said) line(lines []string, early bool) (Finding, bool) {
	for i := len(lines) - 1; i >= 0; i-- {
		f, ok := look(lines[i])
		if !ok || !f.Kind.endsWith(s.Code, lines[i]) {
			continue
		}
		f.Line = strings.TrimSpace(lines[i])
		if own, ok := headOf(lines[:i]); ok && (f.Echo && f.Likely || strings.HasSuffix(f.Line, ".:")) { // ".:" ends a function of the stack that says no more
			f = own
		}
		if own, ok := errorAbove(lines[:i], lines[i]); ok {
			f = own
		}
		if early && f.Echo {
			continue
		}
		without := slices.Contains(notExecuted, f.Kind) && !unexecuted(s.Code, lines[i]) // it may have done
		f.Loose, f.Late, f.Likely = true, early || s.Began || s.Gone, f.Likely || early || without
		return f, true
	}
	return Finding{}, false
}

// belowErrors are lines that Open MPI writes below each error that ends a job, whichever it was (ompi/errhandler/errhandler_predefined.c,
// ompi/runtime/ompi_mpi_abort.c).
var belowErrors = []string{"MPI_ERRORS_ARE_FATAL", "Local abort before MPI_INIT completed"}

// errorAbove is what Open MPI's own line of an error says, of one that stands below it.
func errorAbove(above []string, below string) (Finding, bool) {
	if !slices.ContainsFunc(belowErrors, func(b string) bool { return strings.Contains(below, b) }) {
		return Finding{}, false
	}
	for _, line := range slices.Backward(above) {
		if strings.Contains(line, "An error occurred in ") {
			f, ok := look(line)
			f.Line = strings.TrimSpace(line)
			return f, ok
		}
	}
	return Finding{}, false
}

// headOf is what the head of an error stack of MPICH's says, where that is more than "other error". The stack may end where a
// collective only passes on that there was an error.
func headOf(above []string) (Finding, bool) {
	for _, line := range slices.Backward(above) {
		if strings.Contains(line, "error stack:") {
			s, ok := Recognise(line)
			if !ok || s.Weight() < Program {
				return Finding{}, false
			}
			f, ok := look(line)
			f.Line = strings.TrimSpace(line)
			return f, ok
		}
	}
	return Finding{}, false
}

// endsWith says whether a process may end with a code for this reason, as far as a line says it: a shell and the loader end with 126
// or 127 where a program cannot be executed (POSIX, 2.8.2; glibc's elf/rtld.c), Python and dash with 2 where there is no script, and
// Python with 1 where -m finds no module (CPython's Modules/main.c). With another code somebody went on.
func (k Kind) endsWith(code int, line string) bool {
	return code == 0 || unexecuted(code, line) || k == MissingLibrary || !slices.Contains(notExecuted, k) // a library may be loaded later
}

var notExecuted = []Kind{ProgramNotFound, NotAllowed, MissingLibrary, WrongArchitecture}

func unexecuted(code int, line string) bool {
	return shellSays(code) || code == 2 && strings.Contains(line, "open ") || code == 1 && strings.Contains(line, ": No module named ")
}

// shellSays says that a code is a shell's or the loader's, of a program that cannot be executed.
func shellSays(code int) bool { return code == 126 || code == 127 }

// Relayed says that an exception tells only that a child process has failed.
func Relayed(line string) bool {
	return strings.HasPrefix(line, "torch.distributed.elastic.multiprocessing.errors.ChildFailedError") ||
		strings.HasPrefix(line, "subprocess.CalledProcessError") || strings.HasPrefix(line, "torch.multiprocessing.spawn.Process")
}

// look is what the first sign that knows a text says, unless its words are general.
func look(text string) (Finding, bool) {
	s, ok := Recognise(text)
	if !ok || s.General {
		return Finding{}, false
	}
	return Finding{Kind: s.Kind, Text: text, Echo: s.Weight() <= Wait, Vain: s.vain(), Likely: s.Likely}, true
}
