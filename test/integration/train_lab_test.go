package integration

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
)

// framework is an environment that test/frameworks.sh makes: its Python, and the file that is there once it is whole.
func framework(name string) (python, whole string) {
	dir := filepath.Join(frameworksCache(), name)
	return filepath.Join(dir, "bin", "python"), filepath.Join(dir, "built-with")
}

// example is a copy of an example's train.py that hosts see.
func (l *lab) example(t *testing.T, name string) string {
	t.Helper()
	return l.training(t, filepath.Join("../../examples", name, "train.py"))
}

// training is a copy of a script that hosts see, with a name that no package has.
func (l *lab) training(t *testing.T, path string) string {
	t.Helper()
	script := filepath.Join(l.folder(t), "train.py")
	text, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(script, text, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	return script
}

var learned = regexp.MustCompile(`(?m)^(?:\[1,\d+\]<stdout>:)?rank (\d+) of (\d+): loss ([\d.]+) to ([\d.]+), weights equal rank 0's: True$`)

// learns checks the lines of an example's ranks: all are there, the loss fell, the weights agree.
func learns(t *testing.T, r result, size int) {
	t.Helper()
	r.OK(t)
	seen := map[string]bool{}
	for _, m := range learned.FindAllStringSubmatch(r.Stdout, -1) {
		first, _ := strconv.ParseFloat(m[3], 64)
		last, _ := strconv.ParseFloat(m[4], 64)
		if m[2] != strconv.Itoa(size) || last >= first/4 {
			t.Errorf("a rank says %q of %d ranks", m[0], size)
		}
		seen[m[1]] = true
	}
	if len(seen) != size {
		t.Errorf("%d of %d ranks trained:\n%s%s", len(seen), size, r.Stdout, r.Stderr)
	}
}
