package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// notInCI are prerequisites that tests ask for and .ci/run does not list, and why.
var notInCI = map[string]string{
	"nccl":          "others' files, which are not in this repository; TestNCCLTree has one of our own",
	"horovod":       "its build takes minutes; make frameworks makes it, and CI runs its test where it is cached",
	"horovod-mpich": "its build takes minutes too, and its test runs where it is cached",
	"newtorch":      "1.5 GB on disk, which make frameworks brings; CI runs its tests where it is cached, and Debian's torch always",
	"tensorflow":    "1.6 GB on disk, which make frameworks brings; CI runs its test where it is cached",
	"chromium":      "300 MB; make page-check brings it, and CI runs its test where it is there",
	"intel":         "130 MB of Intel MPI, which make kube-intel fetches; in CI MPICH stands in its place",
}

// A test that skips where nobody looks has tested nothing: all skip through test/need, and what they
// ask for there by name is in .ci/run's list, where its lack is a failure.
func TestNothingIsSkippedInCI(t *testing.T) {
	asked, skips := needs(t, filepath.Join("..", ".."))
	for _, at := range skips {
		t.Errorf("%s skips a test by itself: which function of test/need fits?", at)
	}
	listed := required(t)
	for name, at := range asked {
		if !listed[name] && notInCI[name] == "" {
			t.Errorf("%s needs %q, which .ci/run does not list: CI would skip it; list it there, and have test/setup.sh install it", at, name)
		}
		if listed[name] && notInCI[name] != "" {
			t.Errorf(".ci/run lists %q, which notInCI excuses", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(listed)) {
		if asked[name] == "" {
			t.Errorf(".ci/run lists %q, which no test asks for", name)
		}
	}
}

// required are the names in .ci/run's list.
func required(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", ".ci", "run"))
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`MPIUP_TEST_REQUIRE=(\S+)`).FindStringSubmatch(string(text))
	if m == nil {
		t.Fatal(".ci/run does not set MPIUP_TEST_REQUIRE")
	}
	names := map[string]bool{}
	for name := range strings.SplitSeq(m[1], ",") {
		names[name] = true
	}
	return names
}

// needs are the names that tests below root ask test/need for, each with one place, and the places where
// a test is skipped by other means.
func needs(t *testing.T, root string) (asked map[string]string, skips []string) {
	t.Helper()
	asked = map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		if d.IsDir() {
			if strings.HasPrefix(d.Name(), ".") && rel != "." || rel == filepath.Join("test", "need") {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, "_test.go") && (!strings.HasSuffix(path, ".go") || !strings.HasPrefix(rel, "test/")) {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		s, err := needsOf(rel, text, asked)
		skips = append(skips, s...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return asked, skips
}

// needsOf adds to asked what one file asks for, and returns its own skips.
func needsOf(path string, text []byte, asked map[string]string) (skips []string, err error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, path, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		sel, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		at := fset.Position(call.Pos()).String()
		switch sel.Sel.Name {
		case "Skip", "Skipf", "SkipNow":
			skips = append(skips, at)
		}
		if x, ok := sel.X.(*ast.Ident); !ok || x.Name != "need" {
			return true
		}
		switch name := sel.Sel.Name; name {
		case "Root", "MPICH", "Core":
			asked[strings.ToLower(name)] = at
		case "Netns":
			asked["root"], asked["netns"] = at, at
		case "Program", "File", "Done":
			lit, ok := call.Args[1].(*ast.BasicLit)
			if !ok {
				err = fmt.Errorf("%s: need.%s is given no literal name", at, name)
				return false
			}
			what, _ := strconv.Unquote(lit.Value)
			asked[what] = at
		}
		return true
	})
	return skips, err
}

func TestNeedsAreSeen(t *testing.T) {
	asked := map[string]string{}
	skips, err := needsOf("x_test.go", []byte(`package x
func a(t *testing.T) { need.Netns(t); need.Done(t, "fuse", err, "x"); need.Asked(t, "SOAK", "5m") }
func b(t *testing.T) { t.Skip("no") }
`), asked)
	got := slices.Sorted(maps.Keys(asked))
	if err != nil || !slices.Equal(got, []string{"fuse", "netns", "root"}) || !slices.Equal(skips, []string{"x_test.go:3:24"}) {
		t.Errorf("%v, skips %v, %v", got, skips, err)
	}
	if _, err := needsOf("x_test.go", []byte("package x\nfunc a() { need.Program(t, name, \"\") }\n"), asked); err == nil {
		t.Error("a name that is not written out passes")
	}
}
