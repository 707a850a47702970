package archtest

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func doc(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Every exit code of internal/job has its row in docs/exit-codes.md, and no row is made up.
func TestExitCodesAreDocumented(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", "job", "exitcode.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	codes := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok && len(spec.Values) == 1 {
			if lit, ok := spec.Values[0].(*ast.BasicLit); ok && strings.HasPrefix(spec.Names[0].Name, "Exit") {
				codes[lit.Value] = spec.Names[0].Name
			}
		}
		return true
	})
	if len(codes) < 12 {
		t.Fatalf("only %d exit codes found: %v", len(codes), codes)
	}
	rows := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^\| (\d+) \|`).FindAllStringSubmatch(doc(t, "exit-codes.md"), -1) {
		rows[m[1]] = true
		if codes[m[1]] == "" && (m[1] >= "240" || m[1] == "110") {
			t.Errorf("docs/exit-codes.md has a row for %s, which is no code of mpiup", m[1])
		}
	}
	for code, name := range codes {
		if !rows[code] {
			t.Errorf("docs/exit-codes.md has no row for %s (%s)", code, name)
		}
	}
}

// Every module whose packages our code, tests or tools use has its line in
// docs/dependencies.md, and every line is of a module that go.mod requires.
func TestDependenciesAreDocumented(t *testing.T) {
	out, err := exec.Command("go", "mod", "edit", "-json", filepath.Join("..", "..", "go.mod")).Output()
	if err != nil {
		t.Fatal(err)
	}
	var mod struct {
		Require []struct{ Path string }
		Tool    []struct{ Path string }
	}
	if err := json.Unmarshal(out, &mod); err != nil {
		t.Fatal(err)
	}
	required := map[string]bool{}
	for _, r := range mod.Require {
		required[r.Path] = true
	}
	used := map[string]string{} // module to one user
	for _, p := range packages(t) {
		for _, imp := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			if m := moduleOf(imp, required); m != "" {
				used[m] = p.Path()
			}
		}
	}
	for _, tool := range mod.Tool {
		if m := moduleOf(tool.Path, required); m != "" {
			used[m] = "go tool"
		}
	}
	lines := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(doc(t, "dependencies.md"), -1) {
		lines[m[1]] = true
		if !required[m[1]] {
			t.Errorf("docs/dependencies.md has a line for %s, which go.mod does not require", m[1])
		}
	}
	for m, user := range used {
		if !lines[m] {
			t.Errorf("docs/dependencies.md has no line for %s, used by %s: why was it chosen?", m, user)
		}
	}
}

// moduleOf is the required module with the longest path that holds pkg; "" for others.
func moduleOf(pkg string, required map[string]bool) string {
	for m := pkg; m != "." && m != "/"; m = filepath.Dir(m) {
		if required[m] {
			return m
		}
	}
	return ""
}
