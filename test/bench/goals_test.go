package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Goals are judged in words on standard output, and nowhere else: awk takes a bare > after print for the
// name of a file.
func TestGoalsAreJudged(t *testing.T) {
	t.Parallel()
	goals, err := filepath.Abs("goals.sh")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, call, want string
		fails            bool
	}{
		{"met", `within "a start" 19.5 ms 20`, "a start  19.5 ms  goal 20  ok\n", false},
		{"missed", `within "a start" 20.5 ms 20`, "a start  20.5 ms  goal 20  MISSED\n", true},
		{"above nine", `within "a start" 100 ms 20`, "a start  100 ms  goal 20  MISSED\n", true},
		{"not measured", `within "a start" "" ms 20`, "a start  - ms  goal 20  MISSED\n", true},
		{"as go test says it", `printf 'ok\nBenchmarkPin-2  1000  12 ns/op  0.25 ms/rank\nPASS\n' | reported ms/rank`, "0.25\n", false},
		{"a ratio missed", `judge "a barrier, ms" 30 hydra 20 1; exit $missed`, "ratio 1.50   goal 1     MISSED\n", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), "bash", "-ec", `. "$0"; `+c.call, goals)
			cmd.Dir = t.TempDir()
			out, err := cmd.Output()
			if !strings.Contains(string(out), c.want) || (err != nil) != c.fails {
				t.Errorf("%q, %v; want %q, failure %v", out, err, c.want, c.fails)
			}
			if left, _ := os.ReadDir(cmd.Dir); len(left) > 0 {
				t.Errorf("left a file: %v", left)
			}
		})
	}
}
