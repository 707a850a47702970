package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// docs/security.md says that every parser's fuzz target bounds the memory for each byte. A target that only looks for a panic would make
// that untrue, and lets a decompression bomb through.
func TestFuzzTargetsAssertACost(t *testing.T) {
	n := 0
	for _, p := range packages(t) {
		all := map[string]*ast.FuncDecl{}
		for _, name := range slices.Concat(p.TestGoFiles, p.XTestGoFiles) {
			path := filepath.Join("..", "..", p.Path(), name)
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			maps.Copy(all, functions(t, path, text))
		}
		for _, name := range slices.Sorted(maps.Keys(all)) {
			if !strings.HasPrefix(name, "Fuzz") {
				continue
			}
			if n++; !costs(name, all, map[string]bool{}) {
				t.Errorf("%s.%s asserts no cost: begin what it tries with defer cost.Watch(t, cost.Parser, len(input))()", p.Path(), name)
			}
		}
	}
	if n < 90 {
		t.Errorf("%d fuzz targets were found, where more than 90 are", n)
	}
}

// functions are a file's functions by name; methods are none of them.
func functions(t *testing.T, path string, text []byte) map[string]*ast.FuncDecl {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]*ast.FuncDecl{}
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil {
			found[f.Name.Name] = f
		}
	}
	return found
}

// costs says whether a function of a package's tests, or one of them that it calls, measures by test/cost and fails over the bound.
func costs(name string, all map[string]*ast.FuncDecl, seen map[string]bool) (yes bool) {
	if all[name] == nil || all[name].Body == nil || seen[name] {
		return false
	}
	seen[name] = true
	ast.Inspect(all[name].Body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || yes {
			return !yes
		}
		switch f := call.Fun.(type) {
		case *ast.Ident:
			yes = costs(f.Name, all, seen)
		case *ast.SelectorExpr:
			x, ok := f.X.(*ast.Ident)
			yes = ok && x.Name == "cost" && (f.Sel.Name == "Watch" || f.Sel.Name == "AtMost")
		}
		return !yes
	})
	return yes
}

func TestCostsAreSeen(t *testing.T) {
	all := functions(t, "x_test.go", []byte(`package x // indented, as test/fuzz.sh reads this file too
 func FuzzA(f *testing.F) { f.Fuzz(func(t *testing.T, b []byte) { defer cost.Watch(t, cost.Parser, len(b))(); Parse(b) }) }
 func FuzzB(f *testing.F) { each(f) }
 func FuzzC(f *testing.F) { f.Fuzz(func(t *testing.T, b []byte) { cost.Allocated(func() { Parse(b) }) }) }
 func FuzzD(f *testing.F) { again(f) }
func each(f *testing.F) { f.Fuzz(func(t *testing.T, b []byte) { cost.AtMost(t, cost.Parser, len(b), func() { Parse(b) }) }) }
func again(f *testing.F) { again(f) }
`))
	for name, want := range map[string]bool{"FuzzA": true, "FuzzB": true, "FuzzC": false, "FuzzD": false} {
		if got := costs(name, all, map[string]bool{}); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
