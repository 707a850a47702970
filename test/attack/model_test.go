package attack

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The threat model names tests as `package/path.TestName`.
var named = regexp.MustCompile("`([a-z0-9/]+)\\.((?:Test|Fuzz)[A-Za-z0-9]+)`")

func TestThreatModel(t *testing.T) {
	const root = "../.."
	doc, err := os.ReadFile(root + "/docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	claims := named.FindAllStringSubmatch(string(doc), -1)
	if len(claims) < 10 {
		t.Fatalf("docs/security.md names %d tests", len(claims))
	}
	ours := map[string]bool{}
	for _, c := range claims {
		files, err := filepath.Glob(filepath.Join(root, c[1], "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			found = found || strings.Contains(string(b), "func "+c[2]+"(")
		}
		if !found {
			t.Errorf("docs/security.md says that %s.%s holds an attack, and there is no such test", c[1], c[2])
		}
		if c[1] == "test/attack" {
			ours[c[2]] = true
		}
	}
	err = fs.WalkDir(os.DirFS("."), ".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		b, err := os.ReadFile(path)
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(t `).FindAllStringSubmatch(string(b), -1) {
			if !ours[m[1]] && m[1] != "TestThreatModel" && m[1] != "TestMain" {
				t.Errorf("%s is in no row of docs/security.md", m[1])
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
