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

	"golang.org/x/sys/unix"

	"github.com/mpiup/mpiup/internal/awake"
	"github.com/mpiup/mpiup/internal/bounded"
	"github.com/mpiup/mpiup/internal/pattern"
)

// ErrNoProgram is RunTool's error where a program is not there.
var ErrNoProgram = errors.New("not on PATH")

// RunTool runs a tool for what it prints, of which no more than limit bytes are kept. ErrNoProgram: it is not there.
type RunTool func(ctx context.Context, argv []string, limit int) (string, error)

// Process is one that the kernel says has left a core file (WCOREDUMP).
type Process struct {
	PID     int
	Dir     string    // its working directory
	Since   time.Time // its start
	Pattern string    // /proc/sys/kernel/core_pattern
}

// Bounds of a look at a core file.
const (
	maxOutput = 1 << 20 // bytes of a tool
	coreTime  = 5 * time.Second
	maxCores  = 4    // files that may be it
	maxBeside = 4096 // names looked at
	topFrames = 6
	// Files have the time of the kernel's last tick (current_time in fs/inode.c), up to 10 ms before the start of what crashes at once.
	coarse = time.Second
)

// Core is the core file of a crash and the innermost frames in it, by eu-stack or gdb, with lines where the program has a table of them. Where
// neither tool is there it is the innermost alone, by the core's own notes. No file: the pattern hands cores to a program, or none is there.
func Core(ctx context.Context, run RunTool, c Process) (file string, frames []string) {
	ctx, cancel := awake.Within(ctx, coreTime)
	defer cancel()
	files := c.files()
	for _, file := range files {
		n, ok := notesIn(file)
		if ok && n.pid != c.PID || !ok && len(files) > 1 {
			continue // another process's, or who knows
		}
		out, err := run(ctx, []string{"eu-stack", "-s", "-n", "16", "--core", file}, maxOutput)
		if err == ErrNoProgram {
			out = c.byGDB(ctx, run, file)
		}
		frames = Sourced(out)
		if i := slices.IndexFunc(frames, func(f string) bool { return strings.HasPrefix(f, "__restore_rt") }); i >= 0 { // what a handler called
			frames = frames[i+1:]
		}
		if !slices.ContainsFunc(frames, func(f string) bool { return f != "??" }) {
			frames = n.crashed(ctx)
		}
		return file, frames[:min(len(frames), topFrames)]
	}
	return "", nil
}

// notesIn are those of a core file; false: it has none that are read here.
func notesIn(file string) (notes, bool) {
	f, err := os.OpenFile(file, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return notes{}, false
	}
	defer f.Close()
	return notesOf(f)
}

// byGDB is what gdb says of a core. It finds no functions without the program, and does not look for it by itself: the kernel has
// written into the core what was executed (AT_EXECFN, getauxval(3)).
func (c Process) byGDB(ctx context.Context, run RunTool, file string) string {
	gdb := func(more ...string) string {
		argv := []string{"gdb", "-nx", "-batch", "-iex", "set auto-load off", "-iex", "set debuginfod enabled off", "-c", file}
		out, _ := run(ctx, append(argv, more...), maxOutput) // what it cannot read it has written
		return out
	}
	program := executed().FindStringSubmatch(gdb("-ex", "info auxv"))
	if program == nil {
		return ""
	}
	path := program[1]
	if !filepath.IsAbs(path) {
		path = filepath.Join(c.Dir, path)
	}
	if fi, err := os.Stat(path); err != nil || !fi.Mode().IsRegular() {
		return ""
	}
	// It shows the innermost frame by itself, before the list that has it again.
	_, frames, _ := strings.Cut(gdb("-ex", `echo frames:\n`, "-ex", "bt 16", path), "frames:\n")
	return frames
}

// executed is the program in gdb's list of the auxiliary vector.
var executed = pattern.Of(`AT_EXECFN [^"\n]*"([^"\\\n]+)"`)

// files may be the core, the newest first: regular files of the agent's user, of one name, that the pattern can name, written since the process started.
func (c Process) files() (list []string) {
	pattern := strings.TrimSpace(c.Pattern)
	if pattern == "" || pattern[0] == '|' || !filepath.IsAbs(pattern) && c.Dir == "" {
		return nil
	}
	dir, name := filepath.Split(pattern)
	if !filepath.IsAbs(pattern) {
		dir = filepath.Join(c.Dir, dir)
	}
	begin, _, _ := strings.Cut(name, "%")
	if strings.Contains(dir, "%") {
		return nil
	}
	names := bounded.Names(dir, maxBeside)
	times := map[string]time.Time{}
	for _, n := range names {
		fi, err := os.Lstat(filepath.Join(dir, n))
		if err != nil || !strings.HasPrefix(n, begin) || !fi.Mode().IsRegular() || fi.ModTime().Before(c.Since.Add(-coarse)) || !ours(fi) {
			continue
		}
		path := filepath.Join(dir, n)
		times[path] = fi.ModTime()
		list = append(list, path)
	}
	slices.SortFunc(list, func(a, b string) int { return times[b].Compare(times[a]) })
	return list[:min(len(list), maxCores)]
}

func ours(fi fs.FileInfo) bool {
	st, ok := fi.Sys().(*syscall.Stat_t)
	return ok && int64(st.Uid) == int64(os.Geteuid()) && st.Nlink == 1
}
