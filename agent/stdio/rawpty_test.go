package stdio

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/mpiup/mpiup/internal/job"
)

// onRawPty runs a shell command with a raw terminal as standard output and returns what arrives at once and what in all.
func onRawPty(t *testing.T, cfg Config, command string) (out, errs []byte, cut bool, cmd *exec.Cmd) {
	t.Helper()
	f, err := PipesAndPty(false, 33, 77)
	if err != nil {
		t.Fatal(err)
	}
	cmd = exec.Command("sh", "-c", command)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = f.Child[0], f.Child[1], f.Child[2]
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	f.CloseChild()
	if err != nil {
		t.Fatal(err)
	}
	exited := make(chan struct{})
	go func() { cmd.Wait(); close(exited) }()
	got := [2]bytes.Buffer{}
	var p *Pump
	cfg.Out, cfg.Err, cfg.Exited = f.Out, f.Err, exited
	cfg.Emit = func(c Chunk) { got[c.Stream].Write(c.Data); p.Grant(len(c.Data)) }
	p = NewPump(cfg)
	cut, err = p.Run(t.Context())
	<-exited
	if err != nil {
		t.Error(err)
	}
	return got[job.Stdout].Bytes(), got[job.Stderr].Bytes(), cut, cmd
}

// The terminal has the size that it was given, and takes another; where none is known, it has none.
func TestRawPtySize(t *testing.T) {
	for _, size := range [][2]uint16{{33, 77}, {0, 0}} {
		f, err := PipesAndPty(false, size[0], size[1])
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		shows := func(rows, columns uint16) {
			t.Helper()
			got, err := pty.GetsizeFull(f.Child[1])
			if err != nil || got.Rows != rows || got.Cols != columns {
				t.Errorf("the size is %+v, %v, want %d x %d", got, err, rows, columns)
			}
		}
		shows(size[0], size[1])
		if err := f.Resize(40, 100); err != nil {
			t.Error(err)
		}
		shows(40, 100)
	}
}

// Bytes arrive as they were written: every value there is, more than a terminal holds at one time, to the last one
// before the end.
func TestRawPtyIsAPipeForBytes(t *testing.T) {
	var want []byte
	for i := range 1 << 20 {
		want = append(want, byte(i), byte(i>>8), '\r', '\n', 3, 4, 17, 19, 26, 28)
	}
	file := filepath.Join(t.TempDir(), "bytes")
	if err := os.WriteFile(file, want, 0o600); err != nil {
		t.Fatal(err)
	}
	out, _, cut, _ := onRawPty(t, Config{Window: 64 << 10}, "cat "+file)
	if !bytes.Equal(out, want) || cut {
		t.Errorf("%d of %d bytes, cut %v, equal to %d", len(out), len(want), cut, common(out, want))
	}
}

func common(a, b []byte) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// Only standard output is a terminal, it is nobody's, and what was written before a kill is there.
func TestRawPtyOfAProcess(t *testing.T) {
	for _, tt := range []struct{ name, command, out, errs string }{
		{"which is a terminal", "test -t 0; echo $?; test -t 1; echo $?; test -t 2; echo $?", "1\n0\n1\n", ""},
		{"no controlling terminal", "(: </dev/tty) 2>/dev/null || echo none", "none\n", ""},
		{"stderr is a pipe", "echo a; echo b >&2", "a\n", "b\n"},
		{"killed in a line", "printf 'x\\ny'; kill -9 $$", "x\ny", ""},
		{"it writes to its terminal by name", "echo a >/dev/stdout; echo b", "a\nb\n", ""},
		{"no output", ":", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, errs, cut, _ := onRawPty(t, Config{}, tt.command)
			if string(out) != tt.out || string(errs) != tt.errs || cut {
				t.Errorf("%q and %q, cut %v; want %q and %q", out, errs, cut, tt.out, tt.errs)
			}
		})
	}
}

// A process that stays behind keeps the terminal as it would a pipe.
func TestRawPtyThatIsLeftOpen(t *testing.T) {
	out, _, cut, cmd := onRawPty(t, Config{DrainBound: 50 * time.Millisecond}, "echo $$; setsid sleep 1000 & echo $!")
	var shell, left int
	if _, err := fmt.Sscan(string(out), &shell, &left); err != nil || !cut {
		t.Fatalf("%q, cut %v: %v", out, cut, err)
	}
	if err := syscall.Kill(left, syscall.SIGKILL); err != nil || cmd.ProcessState.ExitCode() != 0 {
		t.Errorf("%v, %v: it was to live on", cmd.ProcessState, err)
	}
}
