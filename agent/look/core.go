package look

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/mpiup/mpiup/internal/awake"
	"github.com/mpiup/mpiup/internal/pattern"
)

// RunTool runs a tool for what it prints, of which no more than limit bytes are kept. ErrNoProgram: it is not there.
type RunTool func(ctx context.Context, argv []string, limit int) (string, error)

// Crash is a process that the kernel says has left a core file (WCOREDUMP).
type Crash struct {
	PID     int
	Dir     string    // its working directory
	Since   time.Time // its start
	Pattern string    // /proc/sys/kernel/core_pattern
}

// Bounds of a look at a core file.
const (
	coreTime  = 5 * time.Second
	maxCores  = 4    // files that may be it
	maxBeside = 4096 // names looked at
	topFrames = 6
)

// Core is the core file of a crash and the innermost frames in it, by eu-stack or gdb. No file: the pattern hands cores to a
// program, or none is there. No frames: neither tool is there, or it tells nothing.
func Core(ctx context.Context, run RunTool, c Crash) (file string, frames []string) {
	ctx, cancel := awake.Within(ctx, coreTime)
	defer cancel()
	files := c.files()
	for _, file := range files {
		out, err := run(ctx, []string{"eu-stack", "-n", "16", "--core", file}, maxOutput)
		owner, _, told := strings.Cut(out, " - core\n")
		if told && owner != "PID "+strconv.Itoa(c.PID) {
			continue // another process's
		}
		if err == ErrNoProgram {
			out = c.byGDB(ctx, run, file)
			told = len(files) == 1 // gdb does not say whose
		}
		if !told {
			continue
		}
		frames = native(out)
		if i := slices.Index(frames, "__restore_rt"); i >= 0 { // what a handler called
			frames = frames[i+1:]
		}
		return file, frames[:min(len(frames), topFrames)]
	}
	if len(files) == 1 {
		return files[0], nil
	}
	return "", nil
}

// byGDB is what gdb says of a core. It finds no functions without the program, and does not look for it by itself: the kernel has
// written into the core what was executed (AT_EXECFN, getauxval(3)).
func (c Crash) byGDB(ctx context.Context, run RunTool, file string) string {
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
func (c Crash) files() (list []string) {
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
	d, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer d.Close()
	names, _ := d.Readdirnames(maxBeside) // those that can be read
	times := map[string]time.Time{}
	for _, n := range names {
		fi, err := os.Lstat(filepath.Join(dir, n))
		if err != nil || !strings.HasPrefix(n, begin) || !fi.Mode().IsRegular() || fi.ModTime().Before(c.Since) || !ours(fi) {
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
