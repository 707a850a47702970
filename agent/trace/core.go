// Package trace reads where processes are, and where one crashed.
//
//	texts of eu-stack, gdb, py-spy, faulthandler, the kernel ─read.go──▶ functions and lines, the innermost first
//	core file ────────────────────────────────────core.go, notes.go──▶ those of a crash
//	"./a.out(+0x11a9)", as crash handlers write ───────────resolve.go──▶ "step (solver.c:41)", by symbols (elf.go) and lines (lines.go)
//
// All of these are a rank's texts and files: what is read of them is bounded. Functions may be called from any goroutine and keep nothing. Nothing here
// needs a right that the process itself has not. Not done: functions beyond the innermost of a core without tools, programs of 32 bits, symbols in files
// of their own.
package trace

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/mpiup/mpiup/internal/awake"
	"github.com/mpiup/mpiup/internal/bounded"
	"github.com/mpiup/mpiup/internal/pattern"
)

// ErrNoProgram is RunTool's error where a program is not there.
var ErrNoProgram = errors.New("not on PATH")

// RunTool runs a tool as the user of the process, to which it gives core as standard input, for what it prints, of which no more than limit bytes are
// kept. ErrNoProgram: it is not there.
type RunTool func(ctx context.Context, argv []string, core *os.File, limit int) (string, error)

// Process is one that the kernel says has left a core file (WCOREDUMP).
type Process struct {
	PID     int
	UID     uint32       // its user
	Dir     *bounded.Dir // its working directory, held since before its start; nil: it is not known
	Since   time.Time    // its start
	Pattern string       // /proc/sys/kernel/core_pattern
}

// Bounds of a look at a core file.
const (
	maxOutput = 1 << 20 // bytes of a tool
	coreTime  = 5 * time.Second
	maxCore   = 8 << 40 // bytes, holes included: more than machines have in memory
	maxCores  = 4       // files that may be it
	maxBeside = 4096    // names looked at
	topFrames = 6
	// Files have the time of the kernel's last tick (current_time in fs/inode.c), up to 10 ms before the start of what crashes at once.
	coarse = time.Second
)

// theCore is how a tool names the core that it is given: what has that name by now is no other file, and it opens it by its own rights.
const theCore = "/proc/self/fd/0"

// Core is the core file of a crash and the innermost frames in it, by eu-stack or gdb, with lines where the program has a table of them. Where
// neither tool is there it is the innermost alone, by the core's own notes. No file: the pattern hands cores to a program, or none is there.
func Core(ctx context.Context, run RunTool, c Process) (name string, frames []string) {
	ctx, cancel := awake.Within(ctx, coreTime)
	defer cancel()
	files := c.files(ctx)
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	for _, f := range files {
		n, ok := notesOf(f)
		if ok && n.pid != c.PID || !ok && len(files) > 1 {
			continue // another process's, or who knows
		}
		out, err := run(ctx, []string{"eu-stack", "-s", "-n", "16", "--core", theCore}, f, maxOutput)
		if err == ErrNoProgram {
			out = c.byGDB(ctx, run, f)
		}
		frames = Sourced(out)
		if i := slices.IndexFunc(frames, func(f string) bool { return strings.HasPrefix(f, "__restore_rt") }); i >= 0 { // what a handler called
			frames = frames[i+1:]
		}
		if !slices.ContainsFunc(frames, func(f string) bool { return f != "??" }) {
			frames = n.crashed(ctx)
		}
		return f.Name(), frames[:min(len(frames), topFrames)]
	}
	return "", nil
}

// byGDB is what gdb says of a core. It finds no functions without the program, and does not look for it by itself: the kernel has
// written into the core what was executed (AT_EXECFN, getauxval(3)). gdb opens that by its own rights, which are the process's.
func (c Process) byGDB(ctx context.Context, run RunTool, core *os.File) string {
	gdb := func(more ...string) string {
		argv := []string{"gdb", "-nx", "-batch", "-iex", "set auto-load off", "-iex", "set debuginfod enabled off", "-c", theCore}
		out, _ := run(ctx, append(argv, more...), core, maxOutput) // what it cannot read it has written
		return out
	}
	program := executed().FindStringSubmatch(gdb("-ex", "info auxv"))
	if program == nil {
		return ""
	}
	path := program[1]
	if !filepath.IsAbs(path) {
		if c.Dir == nil {
			return ""
		}
		path = filepath.Join(c.Dir.Name(), path)
	}
	if fi, err := os.Stat(path); err != nil || !fi.Mode().IsRegular() { // else it would wait for a pipe
		return ""
	}
	// It shows the innermost frame by itself, before the list that has it again.
	_, frames, _ := strings.Cut(gdb("-ex", `echo frames:\n`, "-ex", "bt 16", path), "frames:\n")
	return frames
}

// executed is the program in gdb's list of the auxiliary vector.
var executed = pattern.Of(`AT_EXECFN [^"\n]*"([^"\\\n]+)"`)

// files may be the core, the newest first, which are open then.
func (c Process) files(ctx context.Context) (list []*os.File) {
	dir, begin := c.place()
	if dir == nil {
		return nil
	}
	defer dir.Close()

	var names []string
	times := map[string]time.Time{}
	for _, name := range dir.Names(maxBeside) {
		if !strings.HasPrefix(name, begin) || ctx.Err() != nil {
			continue
		}
		if fi, err := dir.Lstat(name); err == nil && c.mayBe(fi) {
			times[name] = fi.ModTime()
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int { return times[b].Compare(times[a]) })
	for _, name := range names[:min(len(names), maxCores)] {
		f, err := dir.Open(name)
		if err != nil {
			continue
		}
		if fi, err := f.Stat(); err != nil || !c.mayBe(fi) { // it is another one by now
			f.Close()
			continue
		}
		list = append(list, f)
	}
	return list
}

// place is the directory in which the pattern puts cores, and how their names begin. In the working directory and below it no link is followed. nil: there
// is none, or it cannot be known.
func (c Process) place() (dir *bounded.Dir, begin string) {
	text := strings.TrimSpace(c.Pattern)
	at, name := filepath.Split(text)
	begin, _, _ = strings.Cut(name, "%")
	var err error
	switch {
	case text == "" || text[0] == '|' || strings.Contains(at, "%"):
		return nil, ""
	case filepath.IsAbs(text): // where whoever may write there can put something: it is judged as what a rank can
		dir, err = bounded.HoldDir(at)
	case c.Dir == nil:
		return nil, ""
	default:
		dir, err = c.Dir.Dir(filepath.Clean("./" + at))
	}
	if err != nil {
		return nil, ""
	}
	return dir, begin
}

// mayBe says that a file may be the core: written since the process started, of its user, of one name, to which nobody else may write.
func (c Process) mayBe(fi fs.FileInfo) bool {
	st, ok := fi.Sys().(*syscall.Stat_t)
	return ok && fi.Mode().IsRegular() && fi.Mode().Perm()&0o022 == 0 && st.Uid == c.UID && st.Nlink == 1 &&
		fi.Size() <= maxCore && !fi.ModTime().Before(c.Since.Add(-coarse))
}
