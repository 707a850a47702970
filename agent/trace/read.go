package trace

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/mpiup/mpiup/internal/pattern"
)

// The functions of this file read the stacks of one thread in the texts of tools and of the kernel: text in, frames out.
//
//	py-spy dump     sleep (x.py:4)                                   ─┐
//	faulthandler    File "/x.py", line 4 in sleep                     ├─▶ frames, the innermost first
//	gdb, eu-stack   #0  0x00007fbdce1812ad in sleep () from libc.so   │
//	/proc/PID/stack [<0>] hrtimer_nanosleep+0x7c/0x110               ─┘
//
// What a tool writes comes from a process that it looked into: nothing in it is trusted, and what is kept is bounded.

// Bounds of what is kept.
const (
	MaxFrames = 64
	maxFrame  = 200 // bytes
)

// frames collects lines.
type frames []string

func (f *frames) add(text string) {
	if text = strings.TrimSpace(text); text != "" && len(*f) < MaxFrames {
		*f = append(*f, text[:min(len(text), maxFrame)])
	}
}

// PySpy is the main thread in the output of py-spy dump; without one that is called so, the first.
func PySpy(text string) []string {
	var first, found frames
	threads, main := 0, false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "Thread ") {
			threads++
			main = strings.HasSuffix(strings.TrimSpace(line), `"MainThread"`)
			continue
		}
		if !strings.HasPrefix(line, "    ") || len(line) == 4 || line[4] == ' ' || threads == 0 {
			continue // deeper are arguments and locals; what is read of the output may end anywhere
		}
		if main {
			found.add(line)
		} else if threads == 1 {
			first.add(line)
		}
	}
	if len(found) > 0 {
		return found
	}
	return first
}

// Faulthandler is the thread that got the signal, in what Python's faulthandler writes; of several dumps the last.
func Faulthandler(text string) (found []string) {
	var now frames
	in := false
	for line := range strings.Lines(text) {
		head := strings.TrimSpace(line)
		if strings.HasSuffix(head, "(most recent call first):") {
			if in = strings.HasPrefix(head, "Current thread ") || strings.HasPrefix(head, "Stack "); in {
				now = nil
			}
			continue
		}
		rest, ok := strings.CutPrefix(line, `  File "`)
		if !ok {
			in = false
			continue
		}
		file, rest, ok := strings.Cut(rest, `", line `)
		number, function, named := strings.Cut(rest, " in ")
		if in && ok && named {
			now.add(fmt.Sprintf("%s (%s:%s)", strings.TrimSpace(function), file[strings.LastIndexByte(file, '/')+1:], number))
			found = now
		}
	}
	return found
}

// Native is the first thread in the output of eu-stack, or of gdb's bt.
func Native(text string) []string {
	var found frames
	for line := range strings.Lines(text) {
		number, rest, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok || !strings.HasPrefix(number, "#") {
			continue
		}
		if number == "#0" && len(found) > 0 {
			break // another thread
		}
		rest = strings.TrimSpace(rest)
		if strings.HasPrefix(rest, "0x") {
			if _, rest, ok = strings.Cut(rest, " "); !ok {
				rest = "??" // an address says nothing, and is another one in each process
			}
			rest = strings.TrimPrefix(strings.TrimSpace(rest), "in ")
		}
		if name, _, called := strings.Cut(rest, " ("); called {
			rest = name
		}
		name, _, _ := strings.Cut(rest, "@") // the symbol's version
		if len(found) > 0 && begins(name) {
			break
		}
		found.add(brief(name))
	}
	return found
}

// Sourced is Native with the file and line of each function, where the tools tell them: gdb behind the function, eu-stack -s in the next line.
func Sourced(text string) (list []string) {
	var block strings.Builder // a frame with what belongs to it
	names := Native(text)
	flush := func() {
		if at := source().FindStringSubmatch(block.String()); at != nil && len(list) > 0 && at[1][0] != '.' { // as in a C library, built from "./" and "../"
			list[len(list)-1] += fmt.Sprintf(" (%s:%s)", path.Base(at[1]), at[2])
		}
		block.Reset()
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "#") {
			if flush(); len(list) == len(names) {
				return list
			}
			list = append(list, names[len(list)])
		}
		if block.Len() < maxSymbol {
			block.WriteString(line)
		}
	}
	flush()
	return list
}

// source is a file and a line in what a tool tells of a frame.
var source = pattern.Of(`(?m)(?: at |^ +)([^\s:()]+):(\d+)(?::\d+)?$`)

// maxSymbol is how much of a symbol is looked at: a rank's program may have any, of any length.
const maxSymbol = 2 << 10 // bytes

// brief is a C++ function without what its templates and arguments are.
func brief(name string) string {
	name = name[:min(len(name), maxSymbol)]
	var b strings.Builder
	depth := 0
	for i, c := range []byte(name) {
		operator := strings.HasSuffix(strings.TrimRight(name[:i], "<>-="), "operator")
		switch {
		case c == '<' && !operator:
			depth++
		case c == '>' && !operator && depth > 0:
			depth--
		case c == '(' && depth == 0 && b.Len() > 0 && !operator && !strings.HasPrefix(name[i:], "(anonymous"):
			return b.String()
		case depth == 0:
			b.WriteByte(c)
		}
	}
	if depth > 0 { // it was cut off
		return name
	}
	return b.String()
}

// interpreting are the beginnings of functions by which CPython runs a program: how it is run, and not what it does.
var interpreting = strings.Fields("?? _PyEval_ PyEval_ _PyObject_ PyObject_ _PyFunction_ _PyVectorcall PyVectorcall_ _PyMethodDef_ PyCFunction_ _PyStack_ " +
	"PyRun_ _PyRun_ Py_RunMain pymain_ run_mod run_eval_code_obj cfunction_ method_vectorcall slot_tp_ type_call object_vacall")

// OfPython is the stack of an interpreter with the program's own lines in place of these, where any are known. The outermost stays: by it a
// stack is seen to be whole.
func OfPython(stack, lines []string) []string {
	last := len(stack) - 1
	if last < 0 {
		return lines
	}
	runs := func(f string) bool {
		return slices.ContainsFunc(interpreting, func(p string) bool { return strings.HasPrefix(f, p) })
	}
	at := slices.IndexFunc(stack[:last], func(f string) bool { return f != "??" && runs(f) })
	if at < 0 {
		at = last
	}
	called := slices.DeleteFunc(slices.Clone(stack[:at]), runs)
	around := slices.DeleteFunc(slices.Clone(stack[at:last]), runs)
	if len(called)+len(around)+len(lines) == 0 {
		return stack
	}
	room := max(MaxFrames-2-len(called)-len(around), 0) // as many as there may be are of a stack that may go on
	return slices.Concat(called, lines[:min(len(lines), room)], around, stack[last:])
}

// begins says that a function is what the C library calls a program's or a thread's first function by.
func begins(name string) bool {
	return strings.HasPrefix(name, "__libc_start") || name == "_start" || name == "start_thread" || strings.HasPrefix(name, "clone")
}

// KernelStack is /proc/PID/stack.
func KernelStack(text string) []string {
	var found frames
	for line := range strings.Lines(text) {
		_, name, ok := strings.Cut(strings.TrimSpace(line), "] ")
		if !ok {
			continue
		}
		name, _, _ = strings.Cut(name, "+0x")
		found.add(name)
	}
	return found
}
