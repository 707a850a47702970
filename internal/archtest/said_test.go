package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// What the product says names no page as a file: who reads it in a pod has the binary alone, and mpiup help in it.
func TestNothingSaidPointsToAFile(t *testing.T) {
	said := 0
	for _, dir := range []string{"cmd", "launcher", "agent", "pmi", "topology", "internal", "gpu", "rdma"} {
		err := filepath.WalkDir(filepath.Join("..", "..", dir), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, ".pb.go") {
				return err
			}
			files := token.NewFileSet()
			file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if imp, ok := n.(*ast.ImportSpec); ok {
					return imp == nil
				}
				if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					said++
					if strings.Contains(lit.Value, "docs/") && !strings.Contains(lit.Value, "https://") {
						t.Errorf("%s: %s: write mpiup help TOPIC", files.Position(lit.Pos()), lit.Value)
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if said < 1000 {
		t.Fatalf("only %d texts were found", said)
	}
}
