package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const weak = `package weak

import "crypto/md5"

func Sum(b []byte) [16]byte { return md5.Sum(b) }
`

// A weakness is found, an exception with a reason lets it be, and one that excuses nothing is told.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for name, text := range map[string]string{"go.mod": "module weak\n\ngo 1.26\n", "weak.go": weak,
		"none": "", "all": "# why\nG401 weak.go names of files only\nG501 weak.go names of files only\nG404 gone.go it is gone from here\n", "bad": "G401 weak.go\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		table string
		says  []string
	}{
		{"none", []string{"weak.go:3: G501", "weak.go:5: G401"}},
		{"all", []string{"all: G404 gone.go silences nothing"}},
	} {
		got, err := run(c.table, []string{dir})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.EqualFunc(got, c.says, strings.HasPrefix) {
			t.Errorf("%s: %q, not %q", c.table, got, c.says)
		}
	}
	if _, err := run("bad", []string{dir}); err == nil || !strings.Contains(err.Error(), "line 1") {
		t.Errorf("an exception without a reason: %v", err)
	}
}
