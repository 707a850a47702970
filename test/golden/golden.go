// Package golden compares what a test made with the file that it should be. With "go test -update" the
// file is written instead, and the difference is looked at in git.
package golden

import (
	"flag"
	"os"
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
