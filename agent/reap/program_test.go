package reap

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mpiup/mpiup/agent/reap/program"
	"github.com/mpiup/mpiup/test/deadmount"
	"github.com/mpiup/mpiup/test/elf"
)

func write(t testing.TB, file, text string, mode os.FileMode) string {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, mode); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestProgramsThatCannotStartSayWhy(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	write(t, in("nox"), "#!/bin/sh\n", 0o644)
	write(t, in("train.py"), "print(1)\n", 0o644)
	write(t, in("made.py"), "print(1)\n", 0o755)
	write(t, in("empty"), "", 0o755)
	write(t, in("text"), "echo hello\n", 0o755)
	write(t, in("foreign"), elf.Foreign(), 0o755)
	write(t, in("noloader"), elf.WithLoader("/lib/ld-none.so.1"), 0o755)
	write(t, in("crlf"), "#!/bin/sh\r\n", 0o755)
	write(t, in("nointerp"), "#!/opt/none/python3 -u\n", 0o755)
	if err := unix.Mkfifo(in("fifo"), 0o755); err != nil {
		t.Fatal(err)
	}
	s := supervise(t)
	for _, tt := range []struct {
		name, prog, wdir string
		phase            program.Phase
		errno            syscall.Errno
		says             string
	}{
		{"not found", in("none"), "", program.PhaseExec, syscall.ENOENT, in("none") + ": program not found"},
		{"not on PATH", "no-such-program", "", program.PhaseExec, syscall.ENOENT, "program not found on PATH (/usr/bin:/bin)"},
		{"relative to Dir", "./none", dir, program.PhaseExec, syscall.ENOENT, in("none")},
		{"not executable", in("nox"), "", program.PhaseExec, syscall.EACCES, "not executable; set its x bit"},
		{"a script that is no program", "./train.py", dir, program.PhaseExec, syscall.EACCES, in("train.py") + ": not executable; write python3 ./train.py"},
		{"and has an x bit", in("made.py"), "", program.PhaseExec, syscall.ENOEXEC, "a #! line; write python3 " + in("made.py")},
		{"a directory", dir, "", program.PhaseExec, syscall.EACCES, "is a directory"},
		{"a FIFO", in("fifo"), "", program.PhaseExec, syscall.EACCES, "not a regular file"},
		{"below a file", in("nox/x"), "", program.PhaseExec, syscall.ENOTDIR, "not a directory"},
		{"empty", in("empty"), "", program.PhaseExec, syscall.ENOEXEC, "empty file"},
		{"neither ELF nor script", in("text"), "", program.PhaseExec, syscall.ENOEXEC, "#!/bin/sh"},
		{"wrong architecture", in("foreign"), "", program.PhaseExec, syscall.ENOEXEC, "this host is " + runtime.GOARCH},
		{"loader missing", in("noloader"), "", program.PhaseExec, syscall.ENOENT, "its loader /lib/ld-none.so.1 is missing"},
		{"Windows line ends", in("crlf"), "", program.PhaseExec, syscall.ENOENT, "Windows line endings"},
		{"interpreter missing", in("nointerp"), "", program.PhaseExec, syscall.ENOENT, `its interpreter "/opt/none/python3" is missing`},
		{"no directory", "/bin/true", in("gone"), program.PhaseDir, syscall.ENOENT, in("gone") + ": the working directory does not exist"},
		{"directory is a file", "/bin/true", in("nox"), program.PhaseDir, syscall.ENOTDIR, "another working directory"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := s.Start(t.Context(), Command{Argv: []string{tt.prog}, Dir: tt.wdir, Env: []string{"PATH=/usr/bin:/bin"}})
			var e *program.Error
			if !errors.As(err, &e) || e.Phase != tt.phase || e.Errno != tt.errno || !strings.Contains(err.Error(), tt.says) {
				t.Fatalf("Start: %#v\n%v\nwant %v %v %q", err, err, tt.phase, tt.errno, tt.says)
			}
		})
	}
}

func TestMountThatDoesNotAnswerIsATimeout(t *testing.T) {
	dir := deadmount.New(t)
	script := write(t, filepath.Join(t.TempDir(), "script"), "#!"+dir+"/python3\n", 0o755)
	s := supervise(t, func(c *Config) { c.SpawnDeadline = 100 * time.Millisecond })
	ls := "/bin:" + dir + ":/usr/bin"
	for _, tt := range []struct {
		name string
		c    Command
		want string
	}{
		{"program", Command{Argv: []string{dir + "/prog"}}, dir + "/prog: the file system did not answer"},
		{"program, seen from a directory", Command{Argv: []string{dir + "/prog"}, Dir: "/"}, dir + "/prog: the file system did not answer"},
		{"directory", Command{Argv: []string{"/bin/true"}, Dir: dir}, dir + ": the file system of the working directory did not answer"},
		{"PATH", Command{Argv: []string{"no-such-prog"}, Env: []string{"PATH=" + ls}},
			dir + ": the file system of this directory of PATH, where no-such-prog is looked for, did not answer within 100ms; check the mount (a dead NFS, Lustre or FUSE server?), or take the directory off PATH"},
		{"interpreter", Command{Argv: []string{script}}, dir + "/python3: the file system of the interpreter or loader of " + script + " did not answer"},
	} {
		_, err := s.Start(t.Context(), tt.c)
		var e *program.Error
		if !errors.As(err, &e) || e.Phase != program.PhaseTimeout || !strings.HasPrefix(err.Error(), tt.want) || !strings.Contains(err.Error(), "within 100ms") {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	s.cfg.SpawnDeadline = patience
	wait(t, start(t, s, sh("true"))) // nothing else waits for it
}

func TestHangingExecIsGivenUp(t *testing.T) {
	dir := deadmount.New(t)
	file := write(t, filepath.Join(t.TempDir(), "prog"), elf.WithLoader(dir+"/ld.so"), 0o755)
	// The runtime cannot stop the world while a child hangs in exec, so nothing may ask it to.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	runtime.GC()
	s := supervise(t, func(c *Config) { c.SpawnDeadline = 50 * time.Millisecond })
	// Past the check, as if the mount died after it.
	stuck := &request{path: file, cmd: Command{Argv: []string{"prog"}}, reply: make(chan spawned, 1)}
	failed := make(chan error)
	go func() {
		_, err := s.submit(t.Context(), stuck, 500*time.Millisecond)
		failed <- err
	}()
	until(t, "the fork has begun", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return s.forking == stuck })
	if _, err := s.Start(t.Context(), sh("true")); err == nil || !strings.Contains(err.Error(), "starting "+file+" does not come to an end") {
		t.Errorf("meanwhile: %v", err)
	}
	var e *program.Error
	if err := <-failed; !errors.As(err, &e) || e.Phase != program.PhaseTimeout {
		t.Fatalf("hanging exec: %v", err)
	}
	s.cfg.SpawnDeadline = patience
	wait(t, start(t, s, sh("true"))) // the spawner is free again
}

// A guard whose program hangs in exec is given up, and Run does not wait for it.
func TestHangingGuardIsGivenUp(t *testing.T) {
	file := write(t, filepath.Join(t.TempDir(), "guard"), elf.WithLoader(deadmount.New(t)+"/ld.so"), 0o755)
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // as above
	runtime.GC()
	s := New(Config{Log: slog.New(slog.DiscardHandler), GuardExe: file, SpawnDeadline: 500 * time.Millisecond})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	s.Expect()
	until(t, "the guard's fork has begun", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return s.forking != nil })
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Error("Run waits for a guard that hangs")
	}
}

// A Start waits for its turn for as long as others are being started, as when hundreds are at once,
// and gives up when nothing moves.
func TestStartWaitsInAQueueThatMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{Log: slog.New(slog.DiscardHandler)})
		begun := time.Now()
		failed := make(chan error)
		go func() { failed <- s.queue(t.Context(), &request{path: "/prog"}, time.Second) }()
		for range 5 {
			time.Sleep(900 * time.Millisecond)
			s.mu.Lock()
			s.forks++
			s.mu.Unlock()
		}
		var e *program.Error
		if err := <-failed; !errors.As(err, &e) || e.Phase != program.PhaseTimeout {
			t.Errorf("a queue that stands: %v", err)
		}
		if waited := time.Since(begun); waited != 6*time.Second {
			t.Errorf("gave up after %v", waited)
		}
	})
}

// A text without a #! line runs by sh where that is asked for, as execvp(3) has it: with its name as it was written, or as it was found on PATH, and
// its arguments. What is no text, or another interpreter's by its name, does not.
func TestTextsByShell(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	write(t, in("text"), "[ \"$0 $1\" = \"$WANT\" ] || exit 9\nexit 4\n", 0o755)
	write(t, in("made.py"), "exit 4\n", 0o755)
	write(t, in("empty"), "", 0o755)
	write(t, in("binary"), "exit 4\n\x00", 0o755)
	write(t, in("foreign"), elf.Foreign(), 0o755)
	s := supervise(t)
	for _, tt := range []struct {
		prog    string
		byShell bool
		want    string // "$0 $1"; "": it cannot be started
	}{
		{in("text"), true, in("text") + " a b"}, {"./text", true, "./text a b"}, {"text", true, in("text") + " a b"},
		{in("text"), false, ""}, {in("made.py"), true, ""}, {in("empty"), true, ""}, {in("binary"), true, ""}, {in("foreign"), true, ""},
	} {
		p, err := s.Start(t.Context(), Command{Argv: []string{tt.prog, "a b"}, Dir: dir, Env: []string{"PATH=" + dir + ":/usr/bin:/bin", "WANT=" + tt.want}, ByShell: tt.byShell})
		if tt.want == "" {
			if err == nil {
				t.Errorf("%s, by a shell %v: it was started", tt.prog, tt.byShell)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", tt.prog, err)
			continue
		}
		<-p.Done()
		if p.Exit().Code != 4 {
			t.Errorf("%s: %v", tt.prog, p.Exit())
		}
	}
}
