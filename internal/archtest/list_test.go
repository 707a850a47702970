package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// Package is what go list says of one package of the module.
type Package struct {
	ImportPath   string
	Name         string
	Dir          string
	Doc          string   // first sentence of the package comment
	GoFiles      []string // without tests
	CgoFiles     []string
	TestGoFiles  []string
	XTestGoFiles []string
	Imports      []string
	TestImports  []string
	XTestImports []string
	Deps         []string // all imports, of imports too
}

// Path is the import path without the module's.
func (p Package) Path() string {
	return strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
}

func under(path, tree string) bool { return strings.HasPrefix(path, tree+"/") }

// list runs go list once for all tests. go test takes a result from its cache when no file
// that the test opened has changed, and does not know what go list opened: so every directory
// of the module is opened here too.
var list = sync.OnceValues(func() ([]Package, error) {
	err := filepath.WalkDir(filepath.Join("..", ".."), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && (d.Name() == "bin" || strings.HasPrefix(d.Name(), ".") && d.Name() != "..") {
			return fs.SkipDir
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	// With -e a package that does not compile is still looked at.
	cmd := exec.Command("go", "list", "-e",
		"-json=ImportPath,Name,Dir,Doc,GoFiles,CgoFiles,TestGoFiles,XTestGoFiles,Imports,TestImports,XTestImports,Deps", module+"/...")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, errors.New("go list: " + err.Error() + ": " + stderr.String())
	}
	var pkgs []Package
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p Package
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return pkgs, nil
		} else if err != nil {
			return nil, err
		}
		pkgs = append(pkgs, p)
	}
})

func packages(t *testing.T) []Package {
	t.Helper()
	pkgs, err := list()
	if err != nil {
		t.Fatal(err)
	}
	if len(pkgs) < 10 {
		t.Fatalf("go list sees %d packages only", len(pkgs))
	}
	return pkgs
}

func report(t *testing.T, bad []string) {
	t.Helper()
	for _, b := range bad {
		t.Error(b)
	}
}
