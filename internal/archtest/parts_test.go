package archtest

import (
	"go/ast"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A test whose parts have all been skipped says PASS, as if it had shown something. So where somebody has to ask for the parts (need.Asked), the
// test asks before them, and is skipped as a whole.
func TestPartsAreNotSkippedAlone(t *testing.T) {
	dirs := map[string]map[string]*ast.FuncDecl{}
	root := filepath.Join("..", "..", "test")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		dir := filepath.Dir(path)
		if dirs[dir] == nil {
			dirs[dir] = map[string]*ast.FuncDecl{}
		}
		maps.Copy(dirs[dir], functions(t, path, text))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for dir, all := range dirs {
		for _, name := range slices.Sorted(maps.Keys(all)) {
			if !strings.HasPrefix(name, "Test") {
				continue
			}
			whole, parts := asks(all[name], all)
			if parts {
				seen++
			}
			if parts && !whole {
				t.Errorf("%s.%s says PASS where nobody asked for its parts: ask before them, too", strings.TrimPrefix(dir, "../../"), name)
			}
		}
	}
	if seen < 5 {
		t.Errorf("%d tests have parts that somebody has to ask for, where more than that are", seen)
	}
}

// asks says whether a test asks whether it is asked for, itself and in its parts.
func asks(f *ast.FuncDecl, all map[string]*ast.FuncDecl) (whole, parts bool) {
	if f.Body == nil {
		return false, false
	}
	var inPart []ast.Node
	ast.Inspect(f.Body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		if sel, ok := call.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "Run" && len(call.Args) == 2 {
			inPart = append(inPart, call.Args[1])
			return false
		}
		whole = whole || reaches(call, all, map[string]bool{})
		return true
	})
	for _, n := range inPart {
		parts = parts || reaches(n, all, map[string]bool{})
	}
	return whole, parts
}

// reaches says whether need.Asked is called in a piece of a test, or in a function of its package that is called there.
func reaches(in ast.Node, all map[string]*ast.FuncDecl, seen map[string]bool) (yes bool) {
	ast.Inspect(in, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			x, ok := n.X.(*ast.Ident)
			yes = yes || ok && x.Name == "need" && n.Sel.Name == "Asked"
		case *ast.Ident:
			if f := all[n.Name]; f != nil && f.Body != nil && !seen[n.Name] {
				seen[n.Name] = true
				yes = yes || reaches(f.Body, all, seen)
			}
		}
		return !yes
	})
	return yes
}

func TestAsksAreSeen(t *testing.T) {
	all := functions(t, "x_test.go", []byte(`package x
func TestA(t *testing.T) { t.Run("a", func(t *testing.T) { space(t) }) }
func TestB(t *testing.T) { asked(t); t.Run("a", func(t *testing.T) { space(t) }) }
func TestC(t *testing.T) { space(t) }
func TestD(t *testing.T) { for range 2 { t.Run("a", part) } }
func part(t *testing.T) { space(t) }
func space(t *testing.T) { asked(t) }
func asked(t *testing.T) { need.Asked(t, "X", "1") }
`))
	for name, want := range map[string][2]bool{"TestA": {false, true}, "TestB": {true, true}, "TestC": {true, false}, "TestD": {false, true}} {
		if whole, parts := asks(all[name], all); [2]bool{whole, parts} != want {
			t.Errorf("%s: whole %v, parts %v", name, whole, parts)
		}
	}
}
