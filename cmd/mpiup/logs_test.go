package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Whole lines are printed as they stand, however long; the exit code says whether there were any.
func TestLogs(t *testing.T) {
	dir := t.TempDir()
	long := "[1] " + strings.Repeat("x", 10_000)
	first, second := filepath.Join(dir, "first.log"), filepath.Join(dir, "second.log")
	for name, text := range map[string]string{first: "[0] a\n" + long + "\n[0] " + strings.Repeat("y", 10_000) + "\n", second: "[1] b\r\n[1] end"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := printed(t, "mpiup", "logs", "--rank", "1", first, second), long+"\n[1] b\r\n[1] end"; got != want {
		t.Errorf("%d bytes, want %d: %.200q", len(got), len(want), got)
	}
	for _, tt := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"--rank", "7", first}, 1, "mpiup: no line is of rank 7: the log has lines of ranks 0-1\n"},
		{[]string{"--level", "error", first}, 1, "mpiup: no line is of level error or above\n"},
		{[]string{"--stream", "stdout", first}, 1, "mpiup: warning: no line names its stream; mpiup run --tag-with stream (or --output json) writes it, in the next run\n" +
			"mpiup: without that: mpiup why " + first + " says which rank failed, mpiup logs --level warn " + first + " shows what matters\n"},
		{[]string{"--rank", "7-", first}, 240, "--rank 7-"},
		{[]string{"--rank", "-1", first}, 240, "--rank -1"},
		{[]string{"--stream", "stdin", first}, 240, "--stream stdin"},
		{[]string{"--level", "loud", first}, 240, "use debug, info, warn, error"},
		{[]string{"--since", "noon", first}, 240, "--since noon"},
		{[]string{"--until", "-5m", first}, 240, "--until -5m"},
		{[]string{filepath.Join(dir, "none.log")}, 240, "none.log"},
	} {
		out, err := os.Create(filepath.Join(dir, "out"))
		if err != nil {
			t.Fatal(err)
		}
		code := run(append([]string{"mpiup", "logs"}, tt.args...), nil, nil, out, out)
		said, err := os.ReadFile(out.Name())
		out.Close()
		if err != nil || code != tt.code || !strings.Contains(string(said), tt.says) || tt.says == "" && len(said) > 0 {
			t.Errorf("%v: %d %q, %v", tt.args, code, said, err)
		}
	}
}
