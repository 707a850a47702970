package archtest

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
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
// docs/dependencies.md, and every line is of a module that a go.mod requires: that of the product,
// or that of the tests against Kubernetes' code.
func TestDependenciesAreDocumented(t *testing.T) {
	required, used := requirements(t, "../../go.mod")
	for _, p := range packages(t) {
		for _, imp := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			if m := moduleOf(imp, required); m != "" {
				used[m] = p.Path()
			}
		}
	}
	kube, usedThere := requirements(t, "../../test/kube/go.mod")
	for file, imports := range importsBelow(t, "../../test/kube") {
		for _, imp := range imports {
			if m := moduleOf(imp, kube); m != "" && m != module {
				usedThere[m] = file
			}
		}
	}
	maps.Copy(required, kube)
	maps.Copy(used, usedThere)
	lines := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]+`) \\|").FindAllStringSubmatch(doc(t, "dependencies.md"), -1) {
		for m := range strings.SplitSeq(row[1], ", ") {
			m = strings.Trim(m, "`")
			lines[m] = true
			if !required[m] {
				t.Errorf("docs/dependencies.md has a line for %s, which no go.mod requires", m)
			}
		}
	}
	for m, user := range used {
		if !lines[m] {
			t.Errorf("docs/dependencies.md has no line for %s, used by %s: why was it chosen?", m, user)
		}
	}
}

// requirements are the modules that a go.mod requires, and those that its tools are of.
func requirements(t *testing.T, path string) (required map[string]bool, used map[string]string) {
	t.Helper()
	out, err := exec.Command("go", "mod", "edit", "-json", path).Output()
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
	required, used = map[string]bool{}, map[string]string{}
	for _, r := range mod.Require {
		required[r.Path] = true
	}
	for _, tool := range mod.Tool {
		if m := moduleOf(tool.Path, required); m != "" {
			used[m] = "go tool"
		}
	}
	return required, used
}

// importsBelow reads the imports of every Go file of a module without asking go list, which
// would want the module's own modules.
func importsBelow(t *testing.T, root string) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, imp := range file.Imports {
			found[path] = append(found[path], strings.Trim(imp.Path.Value, `"`))
		}
		return nil
	})
	if err != nil || len(found) == 0 {
		t.Fatalf("%s: %d Go files: %v", root, len(found), err)
	}
	return found
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

// Every file of test/integration begins with one of the themes that its doc.go lists, and each of those has a file.
func TestIntegrationFilesSayTheirTheme(t *testing.T) {
	dir := filepath.Join("..", "..", "test", "integration")
	text, err := os.ReadFile(filepath.Join(dir, "doc.go"))
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(text), "begins with its theme:")
	files := map[string]int{}
	for _, m := range regexp.MustCompile(`(?m)^//\t(\w+) +\S`).FindAllStringSubmatch(list, -1) {
		files[m[1]] = 0
	}
	tests, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil || len(tests) < 40 {
		t.Fatalf("%d files, %v", len(tests), err)
	}
	for _, path := range tests {
		theme, _, _ := strings.Cut(filepath.Base(path), "_")
		if _, ok := files[theme]; !ok {
			t.Errorf("test/integration/%s: its doc.go has no theme %q", filepath.Base(path), theme)
		}
		files[theme]++
	}
	for theme, n := range files {
		if n == 0 {
			t.Errorf("the doc.go of test/integration has the theme %q, of which there is no file", theme)
		}
	}
}

// Every path and test that docs/development.md and CONTRIBUTING.md name is there. Whoever moves one mends the page.
func TestDevelopmentNamesWhatIsThere(t *testing.T) {
	root := filepath.Join("..", "..")
	contributing, err := os.ReadFile(filepath.Join(root, "CONTRIBUTING.md"))
	if err != nil {
		t.Fatal(err)
	}
	text := doc(t, "development.md") + string(contributing)
	paths := regexp.MustCompile("`([a-z]+/[a-zA-Z0-9_./]+)`").FindAllStringSubmatch(text, -1)
	if len(paths) < 50 {
		t.Fatalf("only %d paths found", len(paths))
	}
	for _, m := range paths {
		built := strings.HasPrefix(m[1], "bin/")
		if _, err := os.Stat(filepath.Join(root, m[1])); err != nil && !built && m[1] != "testing/synctest" {
			t.Errorf("docs/development.md or CONTRIBUTING.md names %s, which is not there: %v", m[1], err)
		}
	}
	for _, m := range regexp.MustCompile(`go test (\S+) .*'\^((?:Test|Fuzz)\w+)\$'`).FindAllStringSubmatch(text, -1) {
		dirs := []string{filepath.Join(root, m[1]), filepath.Join(root, "test/kube", m[1])}
		if !slices.ContainsFunc(dirs, func(dir string) bool { return hasTest(t, dir, m[2]) }) {
			t.Errorf("docs/development.md runs %s of %s, which is not there", m[2], m[1])
		}
	}
}

// hasTest says that a package's directory has a test or fuzz target.
func hasTest(t *testing.T, dir, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(files, func(file string) bool {
		text, err := os.ReadFile(file)
		return err == nil && strings.Contains(string(text), "func "+name+"(")
	})
}
