// Package golden compares what a test made with the file that it should be. With "go test -update" the
// file is written instead, and the difference is looked at in git.
package golden

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write golden files anew")

// Updating reports whether files are to be written.
func Updating() bool { return *update }

// Is fails the test where a file, by its name from the package's directory, is not what the test made.
func Is(t testing.TB, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v (go test -update writes it)", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s is other than what was made; go test -update writes it anew (-file +made):\n%s", file, diff)
	}
}

// Play plays each script of testdata.
func Play(t *testing.T, player func(t *testing.T, out *strings.Builder) (do func(line string))) {
	t.Helper()
	PlayIn(t, "testdata", player)
}

// PlayIn plays each script DIR/*.txt: its lines come, in order, to the do of a player of its own, which writes to
// out, indented by two blanks, what follows from them. What was indented is replaced by that, and the whole is compared.
// Empty lines and those that begin with "# " are kept and not played.
func PlayIn(t *testing.T, dir string, player func(t *testing.T, out *strings.Builder) (do func(line string))) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatalf("scripts in %s: %q, %v", dir, files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			do := player(t, &out)
			for line := range strings.Lines(string(text)) {
				if strings.HasPrefix(line, "  ") {
					continue
				}
				out.WriteString(line)
				if words := strings.Fields(line); len(words) > 0 && words[0] != "#" {
					do(strings.TrimSpace(line))
				}
			}
			Is(t, file, out.String())
		})
	}
}
