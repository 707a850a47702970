package trace

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mpiup/mpiup/internal/bounded"
	"github.com/mpiup/mpiup/test/need"
)

func TestCore(t *testing.T) {
	const told = "PID 4711 - core\nTID 4711:\n#0  0x00007f raise\n#1  0x00007f __restore_rt\n#2  0x000055 apply_flux\n    /home/me/flux.c:3:5\n#3  0x000055 main\n    flux.c:9:2\n#4  0x00007f __libc_start_call_main\n"
	for _, tt := range []struct {
		name    string
		pattern string
		files   []string
		eu, gdb string // what they write; "": not there
		file    string
		frames  []string
	}{
		{"in the working directory", "core\n", []string{"core"}, told, "", "core", []string{"apply_flux (flux.c:3)", "main (flux.c:9)"}},
		{"with its number", "core.%e.%p", []string{"core.solver.4711"}, told, "", "core.solver.4711", []string{"apply_flux (flux.c:3)", "main (flux.c:9)"}},
		{"to a program", "|/usr/lib/systemd/systemd-coredump %P", []string{"core"}, told, "", "", nil},
		{"to a directory by name", "/var/%h/core", []string{"core"}, told, "", "", nil},
		{"of another process", "core.%p", []string{"core.1"}, "PID 1 - core\nTID 1:\n#0  0x1 f\n", "", "", nil},
		{"by gdb", "core", []string{"core", "solver"}, "", "#0  0x000055 in apply_flux (p=0x0) at f.c:3\nframes:\n#0  0x000055 in apply_flux (p=0x0) at f.c:3\n#1  0x000055 in main () at f.c:9\n", "core", []string{"apply_flux (f.c:3)", "main (f.c:9)"}},
		{"by gdb without the program", "core", []string{"core"}, "", "#0  0x000055 in ?? ()\n", "core", nil},
		{"no tool", "core", []string{"core"}, "", "", "core", nil},
		{"none", "core", []string{"score", "cor"}, told, "", "", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			for _, f := range tt.files {
				pid := 4711
				if f == "core.1" {
					pid = 1
				}
				if err := os.WriteFile(filepath.Join(dir, f), coreFile(pid, 0x1000), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			held := hold(t, dir)
			run := func(_ context.Context, argv []string, core *os.File, _ int) (string, error) {
				if !slices.Contains(argv, theCore) || core.Name() != filepath.Join(dir, tt.file) {
					t.Errorf("%q looks at %s", argv, core.Name())
				}
				out := map[string]string{"eu-stack": tt.eu, "gdb": tt.gdb}[argv[0]]
				if argv[0] == "gdb" && slices.Contains(argv, "info auxv") {
					return "31   AT_EXECFN            File name of executable        0x7ffd \"./solver\"\n", nil
				}
				if argv[0] == "gdb" && out != "" && argv[len(argv)-1] != filepath.Join(dir, "solver") {
					return "#0  0x000055 in ?? ()\n", nil
				}
				if out == "" {
					return "", ErrNoProgram
				}
				return out, nil
			}
			file, frames := Core(t.Context(), run, Process{PID: 4711, UID: uint32(os.Getuid()), Dir: held, Since: time.Now().Add(10 * time.Millisecond), Pattern: tt.pattern}) // of a tick ago, as the kernel dates it
			if file != "" {
				file = filepath.Base(file)
			}
			if file != tt.file || !slices.Equal(frames, tt.frames) {
				t.Errorf("%q %q, want %q %q", file, frames, tt.file, tt.frames)
			}
		})
	}
}

// hold holds a directory for as long as the test lasts.
func hold(t testing.TB, path string) *bounded.Dir {
	t.Helper()
	dir, err := bounded.HoldDir(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dir.Close() })
	return dir
}

// What was there before the process, links, pipes, others' files and what others may have written are no core of its. Nor is what is where the path
// of its working directory leads by now.
func TestCoreIsNoOtherFile(t *testing.T) {
	top := t.TempDir()
	dir, process := filepath.Join(top, "work"), fmt.Sprintf("/proc/%d", os.Getpid())
	in := func(name string) string { return filepath.Join(dir, name) }
	for _, err := range []error{
		os.Mkdir(dir, 0o700),
		os.WriteFile(in("core.old"), []byte("x"), 0o600),
		os.Chtimes(in("core.old"), time.Time{}, time.Now().Add(-time.Hour)),
		os.Symlink("/etc/passwd", in("core.link")),
		os.Symlink(process+"/mem", in("core.mem")),
		unix.Mkfifo(in("core.fifo"), 0o600),
		os.Mkdir(in("core.dir"), 0o700),
		os.WriteFile(in("core.linked"), []byte("x"), 0o600),
		os.Link(in("core.linked"), in("core.hard")),
		os.WriteFile(in("core.open"), []byte("x"), 0o600),
		os.Chmod(in("core.open"), 0o622),
		os.WriteFile(in("core.huge"), nil, 0o600),
		os.Truncate(in("core.huge"), maxCore+1),
		os.Symlink(process, in("link")),
		os.Mkdir(in("cores"), 0o700),
		os.WriteFile(in("cores/core"), []byte("x"), 0o600),
	} {
		if err != nil && !errors.Is(err, unix.EFBIG) { // a file system of smaller files has no such
			t.Fatal(err)
		}
	}
	held := hold(t, dir)
	look := func(pattern string, uid int) (names []string) {
		c := Process{PID: 1, UID: uint32(uid), Dir: held, Since: time.Now().Add(-time.Minute), Pattern: pattern}
		for _, f := range c.files(t.Context()) {
			names = append(names, f.Name())
			f.Close()
		}
		return names
	}
	for _, pattern := range []string{"core.%p", "link/coredump_filter", "link/%p", "../work/core", "core.fifo/core", ""} {
		if got := look(pattern, os.Getuid()); len(got) > 0 {
			t.Errorf("of %q: %q", pattern, got)
		}
	}
	if got := look("cores/core", os.Getuid()+1); len(got) > 0 {
		t.Errorf("another user's: %q", got)
	}

	if err := errors.Join(os.Rename(dir, filepath.Join(top, "moved")), os.Symlink(process, dir)); err != nil {
		t.Fatal(err)
	}
	if got := look("cores/core", os.Getuid()); len(got) != 1 {
		t.Errorf("in the directory that was held: %q", got)
	}
	if got := look("core", os.Getuid()); slices.ContainsFunc(got, func(name string) bool { return strings.HasSuffix(name, "filter") }) {
		t.Errorf("where the working directory's path leads by now: %q", got)
	}
}

// gdb itself, with a core that a program really left.
func TestCoreByGDB(t *testing.T) {
	need.Core(t)
	need.Program(t, "gdb", "gdb")
	need.Program(t, "gcc", "gcc")
	dir := t.TempDir()
	const source = "void apply_flux(int *p) { *p = 1; }\nint main(int c, char **v) { apply_flux((int *)(long)(c - 1)); return 0; }\n"
	if err := os.WriteFile(filepath.Join(dir, "solver.c"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	began := time.Now().Add(-time.Second)
	crash := exec.Command("sh", "-c", "gcc -g -O0 -o solver solver.c && ulimit -c $(ulimit -H -c) && exec ./solver")
	crash.Dir = dir
	if out, err := crash.CombinedOutput(); err == nil || crash.ProcessState.Pid() == 0 {
		t.Fatalf("%v: %s", err, out)
	}
	pattern, err := os.ReadFile("/proc/sys/kernel/core_pattern")
	if err != nil {
		t.Fatal(err)
	}
	run := func(ctx context.Context, argv []string, core *os.File, _ int) (string, error) {
		if argv[0] != "gdb" {
			return "", ErrNoProgram
		}
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
		cmd.Stdin = core
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	file, frames := Core(t.Context(), run, Process{PID: crash.ProcessState.Pid(), UID: uint32(os.Getuid()), Dir: hold(t, dir), Since: began, Pattern: string(pattern)})
	if file == "" || !slices.Equal(frames, []string{"apply_flux (solver.c:1)", "main (solver.c:2)"}) {
		t.Errorf("%q %q", file, frames)
	}
	none := func(context.Context, []string, *os.File, int) (string, error) { return "", ErrNoProgram }
	file, frames = Core(t.Context(), none, Process{PID: crash.ProcessState.Pid(), UID: uint32(os.Getuid()), Dir: hold(t, dir), Since: began, Pattern: string(pattern)})
	if file == "" || !slices.Equal(frames, []string{"apply_flux (solver.c:1)"}) {
		t.Errorf("without tools: %q %q", file, frames)
	}
}

// coreFile is a core of a process of x86-64 as the kernel writes it, cut behind its notes.
func coreFile(pid int, pc uint64, files ...mapping) []byte {
	le := binary.LittleEndian
	var notes []byte
	note := func(kind uint32, body []byte) {
		notes = le.AppendUint32(le.AppendUint32(le.AppendUint32(notes, 5), uint32(len(body))), kind)
		notes = append(append(notes, "CORE\x00\x00\x00\x00"...), body...)
		notes = append(notes, make([]byte, (4-len(body)%4)%4)...)
	}
	status := make([]byte, 336)
	le.PutUint64(status[112+16*8:], pc)
	info := make([]byte, 136)
	le.PutUint32(info[24:], uint32(pid))
	mapped := le.AppendUint64(le.AppendUint64(nil, uint64(len(files))), 4096)
	var names []byte
	for _, f := range files {
		mapped = le.AppendUint64(le.AppendUint64(le.AppendUint64(mapped, f.begin), f.end), f.offset/4096)
		names = append(append(names, f.name...), 0)
	}
	note(1, status)
	note(3, info)
	note(0x46494c45, append(mapped, names...))
	core := make([]byte, 120)
	copy(core, "\x7fELF\x02\x01\x01")
	le.PutUint16(core[16:], 4)
	le.PutUint16(core[18:], 62)
	le.PutUint64(core[32:], 64)
	le.PutUint16(core[54:], 56)
	le.PutUint16(core[56:], 1)
	le.PutUint32(core[64:], 4)
	le.PutUint64(core[72:], uint64(len(core)))
	le.PutUint64(core[96:], uint64(len(notes)))
	return append(core, notes...)
}
