package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// pure is what a package's comment says of a package that decides by what is put in alone.
var pure = regexp.MustCompile(`\bPURE\b`)

// impure is what such a package does not import, and clocks are functions of time that it does not call. Of package sync it uses
// OnceValue, by which a table is made when it is first needed.
var (
	impure = []string{"os", "net", "net/http", "sync/atomic", "context", "syscall", "google.golang.org/grpc", "golang.org/x/sync/errgroup"}
	clocks = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}
)

// A package whose comment says PURE reaches for nothing by itself, so that a table or a script can test all of it.
func TestPurePackages(t *testing.T) {
	comments, found := map[string]bool{}, map[string][]string{}
	eachFile(t, func(path string, text []byte) {
		dir := path[:strings.LastIndex(path, "/")]
		says, wrong := impurities(t, path, text)
		comments[dir] = comments[dir] || says
		found[dir] = append(found[dir], wrong...)
	})
	n := 0
	for dir, says := range comments {
		if !says {
			continue
		}
		n++
		for _, what := range found[dir] {
			t.Errorf("%s: the package says that it is PURE: what is put in decides what comes out", what)
		}
	}
	if n == 0 {
		t.Error("no package is PURE any more")
	}
}

// impurities are what a file reaches for by itself; says: its package comment says PURE.
func impurities(t *testing.T, path string, text []byte) (says bool, found []string) {
	t.Helper()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, path, text, parser.SkipObjectResolution|parser.ParseComments)
	if err != nil {
		t.Error(err)
		return false, nil
	}
	note := func(n ast.Node, what string) {
		found = append(found, fmt.Sprintf("%s %s", fset.Position(n.Pos()), what))
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			if imp := strings.Trim(n.Path.Value, `"`); slices.Contains(impure, imp) {
				note(n, "imports "+imp)
			}
		case *ast.GoStmt:
			note(n, "starts a goroutine")
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && slices.Contains(clocks, n.Sel.Name) {
				note(n, "uses time."+n.Sel.Name)
			} else if ok && x.Name == "sync" && n.Sel.Name != "OnceValue" {
				note(n, "uses sync."+n.Sel.Name)
			}
		}
		return true
	})
	return file.Doc != nil && pure.MatchString(file.Doc.Text()), found
}

func TestImpuritiesAreSeen(t *testing.T) {
	src := "// Package x is PURE.\npackage x\nimport (\"os\"; \"sync\"; \"time\"; \"net/netip\")\nvar one = sync.OnceValue(f)\nfunc f() { go f(); time.Sleep(time.Second) }\nvar mu sync.Mutex\n"
	says, found := impurities(t, "x.go", []byte(src))
	want := "x.go:3:9 imports os; x.go:5:12 starts a goroutine; x.go:5:20 uses time.Sleep; x.go:6:8 uses sync.Mutex"
	if got := strings.Join(found, "; "); !says || got != want {
		t.Errorf("%v %s, want %s", says, got, want)
	}
	if says, _ := impurities(t, "x.go", []byte("// Package x is IMPURE.\npackage x\n")); says {
		t.Error("any comment says PURE")
	}
}
