package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Exit codes of docs/exit-codes.md for what is nobody's fault but the place's: output that cannot be written, a
// directory that is not there, a port that is taken.
func TestExitCodesOfPlaces(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	full := func(argv ...string) []string { // on a full disk, /mnt, of a mount namespace of its own
		const script = `mount -t tmpfs -o size=64k tmpfs /mnt && mkdir /mnt/out && head -c 60k /dev/zero >/mnt/fill; exec "$@"`
		return append([]string{"unshare", "-m", "sh", "-c", script, "sh"}, argv...)
	}
	nulls := func(argv ...string) []string {
		return append([]string{"sh", "-c", `exec "$@" >/dev/full`, "sh"}, argv...)
	}
	file := l.file(t, "")
	for _, tt := range []struct {
		name  string
		argv  []string
		code  int
		says  []string
		never string
	}{
		{"a working directory that is not there", []string{l.bin, "run", "-n", "1", "--wdir", "/no/such", "true"}, 247,
			[]string{"could not be prepared: /no/such: the working directory does not exist", "create it on this host"}, "could not be started"},
		{"a program that is not there", []string{l.bin, "run", "-n", "1", "/no/such"}, 246, []string{"could not be started"}, ""},
		{"a full disk", full(l.bin, "run", "-n", "1", "--output-dir", "/mnt/out", "head", "-c", "1M", "/dev/zero"), 251,
			[]string{"output could not be written: output file of rank 0", "no space left on device", "make room there"}, "fault of mpiup"},
		{"an output directory that is a file", []string{l.bin, "run", "-n", "1", "--output-dir", file, "true"}, 251,
			[]string{"output: ", file, "not a directory", "choose a place"}, ""},
		{"full standard output", nulls(l.bin, "run", "-n", "1", "echo", "x"), 251, []string{"standard output", "no space left"}, "fault of mpiup"},
		{"a plan to full standard output", nulls(l.bin, "run", "-n", "1", "--dry-run", "true"), 251, []string{"standard output", "no space left"}, ""},
		{"a look to full standard output", nulls(l.bin, "doctor", "--json"), 251, []string{"standard output", "no space left"}, ""},
		{"a key to full standard output", nulls(l.bin, "keygen"), 251, []string{"output could not be written", "no space left"}, "--help"},
		{"an install to nowhere", []string{l.bin, "install", filepath.Join(file, "dir")}, 251, []string{"install: ", "a part of its path is a file"}, ""},
		{"a baseline to nowhere", []string{l.bin, "doctor", "--fabric", "--fabric-path", l.fakeOSU(t), "-n", "2", "--baseline", "/no/such/file"}, 251, []string{"--baseline", "no such file"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := l.command(t, job{}, tt.argv...).Wait(t)
			if r.Code != tt.code {
				t.Errorf("ended with %d, not %d:\n%s%s", r.Code, tt.code, r.Stdout, r.Stderr)
			}
			for _, want := range tt.says {
				if !strings.Contains(r.Stderr, want) {
					t.Errorf("does not say %q:\n%s", want, r.Stderr)
				}
			}
			if tt.never != "" && strings.Contains(r.Stderr, tt.never) {
				t.Errorf("says %q:\n%s", tt.never, r.Stderr)
			}
		})
	}
}

// What an MPI library finds lacking in MPI_Init is named, whatever it makes of that: MPICH aborts for a tiny /dev/shm,
// Open MPI's ranks exit for a /tmp that cannot be written.
func TestWhatMPILacksIsNamed(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	for _, tt := range []struct{ name, program, mount, says string }{
		{"MPICH", l.program(t, "hello"), "mount -t tmpfs -o size=64k tmpfs /dev/shm",
			"/dev/shm has 64 KiB for 2 ranks, and MPI libraries need more: make it larger"},
		{"Open MPI", l.openMPI(t, "hello"), "mount -t tmpfs -o ro tmpfs /tmp",
			"nothing can be written to /tmp (read-only file system), and Open MPI does not begin without"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			// Both programs lie below /tmp, which is to be another.
			script := `mount -t tmpfs tmpfs /mnt && cp "$1" /mnt/mpiup && cp "$2" /mnt/program && cd /mnt && ` + tt.mount + ` && exec ./mpiup run -n 2 ./program`
			r := l.command(t, job{}, "unshare", "-m", "sh", "-c", script, "sh", l.bin, tt.program).Wait(t)
			if r.Code == 0 || !strings.Contains(r.Stderr, tt.says) {
				t.Errorf("ended with %d, without %q:\n%s%s", r.Code, tt.says, r.Stdout, r.Stderr)
			}
		})
	}
}

// fakeOSU is a directory with a benchmark that measures nothing.
func (l *lab) fakeOSU(t *testing.T) string {
	t.Helper()
	dir := l.folder(t)
	const script = "#!/bin/sh\necho '8 1.5'\necho '1048576 200'\n"
	if err := os.WriteFile(filepath.Join(dir, "osu_allreduce"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// An agent that gets no port says so, and not that somebody told it to end.
func TestAgentWithoutAPort(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	const script = `python3 -c 'import socket,sys,subprocess
s=socket.socket(); s.bind(("127.0.0.1",0)); s.listen()
sys.exit(subprocess.run(sys.argv[1:]+["--port",str(s.getsockname()[1])]).returncode)' "$@"`
	r := l.command(t, job{}, "sh", "-c", script, "sh", l.bin, "agent", "--key", l.key, "--name", "x", "--http", "off", "--listen", "127.0.0.1").Wait(t)
	if r.Code != 240 || !strings.Contains(r.Stderr, "are taken") || strings.Contains(r.Stderr, "SIGTERM") {
		t.Errorf("ended with %d:\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
}
