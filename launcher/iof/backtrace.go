package iof

import (
	"bytes"
	"path"
	"slices"
	"strings"

	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/pattern"
	"github.com/mpiup/mpiup/internal/visible"
)

// Where back-traces of crashes begin.
var crashes = []string{
	"*** Process received signal ***", // Open MPI: opal/util/stacktrace.c
	"==== backtrace (tid",             // UCX: src/ucs/debug/debug.c
	"Backtrace for this error:",       // gfortran's library: libgfortran/runtime/compile_options.c
	"most recent call first):",        // Python's faulthandler: Python/traceback.c
}

const (
	maxFrames   = 6
	maxStranger = 8 // lines of a back-trace that are no frames, as signal codes and empty ones
)

// crashReader has the innermost frames of the last back-trace that a process wrote when it crashed. The zero value has heard nothing. It is bounded,
// whatever it hears.
//
//	lines ──Hear──▶ a handler's first line ─▶ frames ─▶ its end, or too many lines that are none
type crashReader struct {
	frames    []string // the innermost first
	strangers int      // lines that may still be none before it ends; 0: it has ended
	bare      bool     // the last line was a frame that lacks its place, which may be in the next
}

// Frames as handlers write them, each with a function or a file.
var (
	frameNative = pattern.Of(`^(?:\[[^]]+\] )?(?:\[ ?\d+\]|#?\d+:?) +([^\s([]*/[^\s([]+)(?:\(([^)+]*)(\+0x[0-9a-f]+)?\))? ?\[0x`) // backtrace_symbols(3)
	frameUCX    = pattern.Of(`^\d+ +0x[0-9a-f]+ ([^\s(]+)\(\)? +(\S+)`)
	frameGNU    = pattern.Of(`^#\d+ +0x[0-9a-f]+ in (\S+)`)
	frameAt     = pattern.Of(`^at (\S+):(\d+)$`) // the line after GNU's
	framePython = pattern.Of(`^File "([^"]+)", line (\d+) in (\S+)`)
)

// handlers are functions that a signal calls, what calls them, and what calls main.
var handlers = []string{"__restore_rt", "__sigaction", "sigaction", "ucs_handle_error", "ucs_debug_print_backtrace",
	"ucs_error_signal_handler", "killpg", "opal_show_stackframe", "show_stackframe",
	"__libc_start_main", "__libc_start_call_main", "_start", "gsignal", "raise", "abort", "__pthread_kill", "pthread_kill", "__GI_raise", "__GI_abort",
	"???", "__assert_fail"}

// silent are libraries whose frames without a function are a handler's or the C library's own.
var silent = []string{"libc.so", "libpthread.so", "libucs.so"}

// Hear takes a line.
func (c *crashReader) Hear(line string) {
	line = strings.TrimSpace(line)
	for _, begin := range crashes {
		if strings.Contains(line, begin) && !strings.HasPrefix(line, "Thread ") { // another thread than the one that crashed
			*c = crashReader{strangers: maxStranger}
			return
		}
	}
	if c.strangers == 0 {
		return
	}
	if at := frameAt().FindStringSubmatch(line); at != nil && c.bare {
		c.frames[len(c.frames)-1] += " (" + path.Base(at[1]) + ":" + at[2] + ")"
	}
	c.bare = false
	name, ok := frameOf(line)
	switch {
	case !ok:
		c.strangers--
	case name != "" && len(c.frames) < maxFrames:
		c.frames = append(c.frames, name)
		c.bare = !strings.Contains(name, " (")
	}
}

// lined is a frame with file and line.
var lined = pattern.Of(`:\d+\)$`)

// Where is where a process crashed: what its handler wrote, with the places that its host has found of frames, in their order. Where no line is
// known so it is by its core file, if there is one.
func Where(wrote []string, at job.Crash) (frames []string) {
	placed := at.Placed
	for _, f := range wrote {
		f = visible.Line(f) // as a host's frames are when they have come in
		if i := slices.IndexFunc(placed, func(p job.Placed) bool { return p.Frame == f }); i >= 0 {
			f, placed = placed[i].Place, placed[i+1:]
		}
		frames = append(frames, f)
		if strings.HasPrefix(f, "main (") { // what is around it begins any program
			break
		}
	}
	switch {
	case len(at.Frames) > 0 && !slices.ContainsFunc(frames, func(f string) bool { return lined().MatchString(f) }):
		return at.Frames
	case len(frames) == 0: // by a handler of the program's own
		for _, p := range placed[:min(len(placed), maxFrames)] {
			frames = append(frames, p.Place)
		}
	}
	return frames
}

// frameOf is the function of a line of a back-trace, and where it is; "" for a signal's own.
func frameOf(line string) (name string, ok bool) {
	if m := framePython().FindStringSubmatch(line); m != nil {
		return m[3] + " (" + path.Base(m[1]) + ":" + m[2] + ")", true
	}
	if m := frameNative().FindStringSubmatch(line); m != nil {
		file := path.Base(m[1])
		switch {
		case isHandler(m[2]), m[2] == "" && slices.Contains(silent, strings.SplitAfter(file, ".so")[0]):
			return "", true
		case m[2] == "":
			return file + m[3], true
		}
		return m[2] + " (" + file + ")", true
	}
	if m := frameUCX().FindStringSubmatch(line); m != nil {
		if isHandler(m[1]) {
			return "", true
		}
		if file := path.Base(m[2]); file != "???:0" {
			return m[1] + " (" + file + ")", true
		}
		return m[1], true
	}
	if m := frameGNU().FindStringSubmatch(line); m != nil {
		if isHandler(m[1]) {
			return "", true
		}
		return m[1], true
	}
	return "", false
}

func isHandler(name string) bool {
	name, _, _ = strings.Cut(name, "@") // the symbol's version
	return slices.Contains(handlers, name)
}

// begins is where in data a back-trace begins; -1: nowhere.
func begins(data []byte) int {
	first := -1
	for _, begin := range crashes {
		if at := bytes.Index(data, []byte(begin)); at >= 0 && (first < 0 || at < first) {
			first = at
		}
	}
	return first
}
