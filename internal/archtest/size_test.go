package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"testing"
)

// maxFiles bounds a package's product files, generated ones not counted: beyond that it is a folder, and nobody can say which
// file may touch which state.
const maxFiles = 14

// crowded are packages that have more. A number here may only shrink, and goes once it is within the bound.
var crowded = map[string]int{}

// maxMethodFiles bounds the files in which a type has methods: a type of more is an object that was cut into files.
const maxMethodFiles = 5

// scattered are types that are. A number here may only shrink, and goes once it is within the bound.
var scattered = map[string]int{
	"agent/ranks.Job": 8,
}

func TestPackagesAreSmall(t *testing.T) {
	files := map[string]int{}
	eachFile(t, func(path string, text []byte) {
		if !generated.Match(text) {
			files[filepath.Dir(path)]++
		}
	})
	delete(files, "cmd/mpiup") // a file for each command
	for path := range files {
		if under(path, "test") {
			delete(files, path)
		}
	}
	report(t, overgrown(files, crowded, maxFiles, "product files"))
}

func TestTypesAreInFewFiles(t *testing.T) {
	in := map[string]map[string]bool{}
	eachFile(t, func(path string, text []byte) {
		if generated.Match(text) || under(path, "test") {
			return
		}
		for _, name := range receivers(t, path, text) {
			name = filepath.Dir(path) + "." + name
			if in[name] == nil {
				in[name] = map[string]bool{}
			}
			in[name][path] = true
		}
	})
	count := map[string]int{}
	for name, files := range in {
		count[name] = len(files)
	}
	report(t, overgrown(count, scattered, maxMethodFiles, "files with methods"))
}

// overgrown holds each count to the bound, or to what is allowed beyond it by name.
func overgrown(count, allowed map[string]int, most int, what string) (bad []string) {
	for name, n := range count {
		if limit, listed := allowed[name]; !listed && n > most {
			bad = append(bad, fmt.Sprintf("%s has %d %s, more than %d: which two ideas are in it?", name, n, what, most))
		} else if listed && n > limit {
			bad = append(bad, fmt.Sprintf("%s has %d %s, and had %d: it may only shrink", name, n, what, limit))
		}
	}
	for name := range allowed {
		if count[name] <= most {
			bad = append(bad, fmt.Sprintf("%s has %d %s, which needs no exception any more", name, count[name], what))
		}
	}
	return bad
}

// receivers are the types that a file has methods of.
func receivers(t *testing.T, path string, text []byte) (names []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.SkipObjectResolution)
	if err != nil {
		t.Error(err)
		return nil
	}
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Recv == nil {
			continue
		}
		of := f.Recv.List[0].Type
		if star, ok := of.(*ast.StarExpr); ok {
			of = star.X
		}
		if index, ok := of.(*ast.IndexExpr); ok {
			of = index.X
		}
		if name, ok := of.(*ast.Ident); ok {
			names = append(names, name.Name)
		}
	}
	return names
}

func TestSizesAreSeen(t *testing.T) {
	if got := overgrown(map[string]int{"a": 14, "b": 15, "c": 30, "d": 31, "e": 9}, map[string]int{"c": 30, "d": 30, "e": 20, "gone": 20}, 14, "files"); len(got) != 4 {
		t.Errorf("%q", got)
	}
	got := receivers(t, "x.go", []byte("package x\nfunc (a A) f() {}\nfunc (b *B) g() {}\nfunc (c *C[T]) h() {}\nfunc i() {}\n"))
	if fmt.Sprint(got) != "[A B C]" {
		t.Error(got)
	}
}
