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

// maxMethodFiles bounds the files in which a type has methods: a type of more is an object that was cut into files.
const maxMethodFiles = 5

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
	report(t, overgrown(files, maxFiles, "product files"))
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
	report(t, overgrown(count, maxMethodFiles, "files with methods"))
}

// overgrown holds each count to the bound.
func overgrown(count map[string]int, most int, what string) (bad []string) {
	for name, n := range count {
		if n > most {
			bad = append(bad, fmt.Sprintf("%s has %d %s, more than %d: which two ideas are in it?", name, n, what, most))
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
	if got := overgrown(map[string]int{"a": 14, "b": 15, "c": 30}, 14, "files"); len(got) != 2 {
		t.Errorf("%q", got)
	}
	got := receivers(t, "x.go", []byte("package x\nfunc (a A) f() {}\nfunc (b *B) g() {}\nfunc (c *C[T]) h() {}\nfunc i() {}\n"))
	if fmt.Sprint(got) != "[A B C]" {
		t.Error(got)
	}
}
