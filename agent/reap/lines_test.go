package reap

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/mpiup/mpiup/internal/job"
)

func TestLines(t *testing.T) {
	s := supervise(t)
	stop := errors.New("enough")
	for _, tt := range []struct {
		name   string
		script string
		until  string // the line at which f fails
		lines  string
		exit   job.Exit
		err    string
	}{
		{"some", "echo one; echo; echo three; exit 3", "", "one||three", job.Exit{Code: 3}, ""},
		{"a last one without an end", "printf 'one\\ntwo'", "", "one|two", job.Exit{}, ""},
		{"enough of them", "while echo on; do :; done", "on", "on", job.Exit{Signal: 9}, "enough"},
		{"one that is too long", "echo one; exec cat /dev/zero", "", "one", job.Exit{Signal: 9}, "token too long"},
	} {
		var got []string
		o, err := Lines(t.Context(), s, sh(tt.script), 1000, func(line []byte) error {
			got = append(got, string(line))
			if tt.until != "" && string(line) == tt.until {
				return stop
			}
			return nil
		})
		if strings.Join(got, "|") != tt.lines || o.Exit != tt.exit {
			t.Errorf("%s: %q, %+v", tt.name, got, o.Exit)
		}
		if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.err)
		}
	}
	closed := func([]byte) error { return os.ErrClosed } // f's own: what it writes to is closed
	if o, err := Lines(t.Context(), s, sh("echo on; exec sleep 10"), 1000, closed); !errors.Is(err, os.ErrClosed) || o.Exit.Signal != 9 {
		t.Errorf("f fails since something is closed: %v, %+v", err, o.Exit)
	}
	ctx, cancel := context.WithCancel(t.Context())
	begun := time.Now()
	if _, err := Lines(ctx, s, sh("echo go; exec sleep 1000"), 1000, func([]byte) error { cancel(); return nil }); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if took := time.Since(begun); took > 100*time.Second {
		t.Errorf("it ended after %v", took)
	}
}
