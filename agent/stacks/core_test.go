package stacks

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestCore(t *testing.T) {
	const told = "PID 4711 - core\nTID 4711:\n#0  0x00007f raise\n#1  0x00007f __restore_rt\n#2  0x000055 apply_flux\n#3  0x000055 main\n#4  0x00007f __libc_start_call_main\n"
	began := time.Now().Add(-time.Minute)
	for _, tt := range []struct {
		name    string
		pattern string
		files   []string
		eu, gdb string // what they write; "": not there
		file    string
		frames  []string
	}{
		{"in the working directory", "core\n", []string{"core"}, told, "", "core", []string{"apply_flux", "main"}},
		{"with its number", "core.%e.%p", []string{"core.solver.4711"}, told, "", "core.solver.4711", []string{"apply_flux", "main"}},
		{"to a program", "|/usr/lib/systemd/systemd-coredump %P", []string{"core"}, told, "", "", nil},
		{"to a directory by name", "/var/%h/core", []string{"core"}, told, "", "", nil},
		{"of another process", "core.%p", []string{"core.1"}, "PID 1 - core\nTID 1:\n#0  0x1 f\n", "", "core.1", nil},
		{"by gdb", "core", []string{"core"}, "", "#0  0x000055 in apply_flux (p=0x0) at f.c:3\n#1  0x000055 in main () at f.c:9\n", "core", []string{"apply_flux", "main"}},
		{"no tool", "core", []string{"core"}, "", "", "core", nil},
		{"none", "core", []string{"score", "cor"}, told, "", "", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			for _, f := range tt.files {
				if err := os.WriteFile(filepath.Join(dir, f), []byte("x"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			run := func(_ context.Context, argv []string, _ int) (string, error) {
				out := map[string]string{"eu-stack": tt.eu, "gdb": tt.gdb}[argv[0]]
				if out == "" {
					return "", ErrNoProgram
				}
				return out, nil
			}
			file, frames := Core(t.Context(), run, Crash{PID: 4711, Dir: dir, Since: began, Pattern: tt.pattern})
			if file != "" {
				file = filepath.Base(file)
			}
			if file != tt.file || !slices.Equal(frames, tt.frames) {
				t.Errorf("%q %q, want %q %q", file, frames, tt.file, tt.frames)
			}
		})
	}
}

// What was there before the process, links and pipes are no core of its.
func TestCoreIsNoOtherFile(t *testing.T) {
	dir := t.TempDir()
	for _, err := range []error{
		os.WriteFile(filepath.Join(dir, "core.old"), []byte("x"), 0o600),
		os.Chtimes(filepath.Join(dir, "core.old"), time.Time{}, time.Now().Add(-time.Hour)),
		os.Symlink("/etc/passwd", filepath.Join(dir, "core.link")),
		unix.Mkfifo(filepath.Join(dir, "core.fifo"), 0o600),
		os.Mkdir(filepath.Join(dir, "core.dir"), 0o700),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := (Crash{PID: 1, Dir: dir, Since: time.Now().Add(-time.Minute), Pattern: "core.%p"}).files(); len(got) > 0 {
		t.Errorf("%q", got)
	}
}
