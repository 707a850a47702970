package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// suiteResult is what rank 0 of mpi4py's test suite says at its end.
type suiteResult struct {
	Ran     int
	Failed  []string            // on any rank, as module.class.test
	Skipped map[string][]string // reason → tests, as module.class.test
}

var (
	suiteRan  = regexp.MustCompile(`(?m)^Ran (\d+) tests? in`)
	suiteName = regexp.MustCompile(`^\w+ \(([\w.]+)\)`)
	suiteTest = regexp.MustCompile(`(?m)^test\w* \(([\w.]+)\)(?:\n.*)? \.\.\. skipped ['"](.*)['"]$`)
)

// summary finds the number of tests and the skipped ones in the verbose output of unittest.
func summary(text string) *suiteResult {
	r := &suiteResult{Failed: failed(text), Skipped: map[string][]string{}}
	if m := suiteRan.FindStringSubmatch(text); m != nil {
		r.Ran, _ = strconv.Atoi(m[1]) // digits
	}
	for _, m := range suiteTest.FindAllStringSubmatch(text, -1) {
		if !slices.Contains(r.Skipped[m[2]], m[1]) {
			r.Skipped[m[2]] = append(r.Skipped[m[2]], m[1])
		}
	}
	return r
}

// hollow is why the suite's success means nothing, "" when it does: ranks that do not know of each other
// pass, too.
func (r *suiteResult) hollow(ranks int) string {
	_, alone := r.Skipped["mpi-world-size<2"]
	switch {
	case r.Ran == 0:
		return "no test was run"
	case alone && ranks > 1:
		return "the ranks were not in one world"
	}
	return ""
}

// failed are the names of tests that any rank saw fail.
func failed(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		kind, rest, found := strings.Cut(strings.TrimSpace(line), ": ")
		if !found || kind != "ERROR" && kind != "FAIL" {
			continue
		}
		test := rest // testX (module.Class.testX)
		if m := suiteName.FindStringSubmatch(rest); m != nil {
			test = m[1]
		}
		if !slices.Contains(out, test) {
			out = append(out, test)
		}
	}
	return out
}

// suiteVersion is the mpi4py that the stack has.
func (s stack) suiteVersion() string {
	if s.tree == "trixie" && s.foreign == "" {
		return "4.0.3"
	}
	return mpi4pyVersion
}

// suiteDir copies the test suite to where all hosts see it, and returns where that is.
func (m *matrix) suiteDir(s stack) (string, error) {
	name := "mpi4py-" + s.suiteVersion()
	to := filepath.Join(m.dir, name)
	if _, err := os.Stat(filepath.Join(to, "main.py")); err == nil {
		return to, nil
	}
	if err := os.RemoveAll(to); err != nil {
		return "", err
	}
	return to, os.CopyFS(to, os.DirFS(filepath.Join(m.cache, "matrix", name, "test")))
}
