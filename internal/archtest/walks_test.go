package archtest

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// walks are how many packages each way of docs/architecture.md may enter. Numbers only fall.
var walks = pile{"a line of stdout": 9, "a fence": 10, "--bind-to core": 17, "a death": 10, "SIGTERM to the launcher": 9, "a takeover": 10}

// Each way of docs/data/walks.tsv goes through files that are there, and has as many, in as many packages, as it says: what carries or changes the
// thing counts, and what is only looked up on the way does not.
func TestWalksAreShort(t *testing.T) {
	rows := strings.Split(strings.TrimSpace(doc(t, "data/walks.tsv")), "\n")[1:]
	there := pile{}
	for _, row := range rows {
		c := strings.Split(row, "\t")
		if len(c) != 4 {
			t.Fatalf("%q has %d columns", row, len(c))
		}
		packages := map[string]bool{}
		files := strings.Fields(c[3])
		for _, file := range files {
			packages[filepath.Dir(file)] = true
			if _, err := os.Stat(filepath.Join("..", "..", file)); err != nil {
				t.Errorf("%s goes through %s, which is gone", c[0], file)
			}
		}
		if c[1] != strconv.Itoa(len(packages)) || c[2] != strconv.Itoa(len(files)) {
			t.Errorf("%s has %s packages and %s files by the table, and %d and %d are listed", c[0], c[1], c[2], len(packages), len(files))
		}
		there[c[0]] = len(packages)
	}
	report(t, hold(there, walks, 0, "packages on its way"))
}
