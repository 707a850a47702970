package reap

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/mpiup/mpiup/agent/reap/program"
	"github.com/mpiup/mpiup/internal/job"
)

func TestOutput(t *testing.T) {
	s := supervise(t)
	for _, tt := range []struct {
		name   string
		script string
		out    string
		err    string
		exit   job.Exit
		fails  string // the beginning of an error
	}{
		{"both streams", "echo one; echo first >&2; echo last >&2", "one\n", "last", job.Exit{}, ""},
		{"nothing to read", "cat; echo end; exit 3", "end\n", "", job.Exit{Code: 3}, ""},
		{"killed", "echo some; kill -9 $$", "some\n", "", job.Exit{Signal: 9}, ""},
		{"much on standard error", "head -c 300000 /dev/zero >&2; echo out", "out\n", "", job.Exit{}, ""},
		{"as much as may be", "head -c 1000 /dev/zero | tr '\\000' x", strings.Repeat("x", 1000), "", job.Exit{}, ""},
		{"too much", "exec cat /dev/zero", "", "", job.Exit{}, "sh writes more than 1000 bytes"},
	} {
		o, err := Collect(t.Context(), s, sh(tt.script), 1000)
		switch {
		case tt.fails != "":
			if err == nil || !strings.HasPrefix(err.Error(), tt.fails) {
				t.Errorf("%s: %v, want %s", tt.name, err, tt.fails)
			}
		case err != nil || string(o.Out) != tt.out || strings.Trim(o.Err, "\x00") != tt.err || o.Exit != tt.exit:
			t.Errorf("%s: %q, %q, %+v, %v", tt.name, o.Out, o.Err, o.Exit, err)
		}
	}
	var start *program.Error
	if _, err := Collect(t.Context(), s, Command{Argv: []string{"no-such-program"}, Env: []string{"PATH=/bin"}}, 1000); !errors.As(err, &start) {
		t.Errorf("a program that is not there: %v", err)
	}
}

// A program that does not end, or a descendant that keeps its output open, is left at the deadline.
func TestOutputGivesUp(t *testing.T) {
	s := supervise(t)
	for _, script := range []string{"exec sleep 1000", "setsid sleep 1000 & echo done"} {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		if _, err := Collect(ctx, s, inSession(sh(script), "output"), 1000); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", script, err)
		}
		cancel()
	}
}

// The first bytes of a program that writes more are kept, and a program may have something to read.
func TestOutputIsCut(t *testing.T) {
	s := supervise(t)
	in, err := os.CreateTemp(t.TempDir(), "in")
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if _, err := in.WriteAt([]byte("to read"), 0); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		script, out string
		more        bool
	}{
		{"cat; echo end >&2; exit 3", "to read", false},
		{"head -c 300000 /dev/zero | tr '\\000' x; echo end >&2; exit 3", strings.Repeat("x", 1000), true},
	} {
		cmd := sh(tt.script)
		cmd.Files = []*os.File{in}
		cmd.Cut = true
		o, err := Collect(t.Context(), s, cmd, 1000)
		if err != nil || string(o.Out) != tt.out || o.More != tt.more || o.Err != "end" || o.Exit.Code != 3 {
			t.Errorf("%s: %d bytes, %v, %q, %+v, %v", tt.script, len(o.Out), o.More, o.Err, o.Exit, err)
		}
	}
}
