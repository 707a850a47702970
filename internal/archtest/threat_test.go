package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The threat model names tests as `package/path.TestName`.
var claimed = regexp.MustCompile("`([a-z0-9/]+)\\.((?:Test|Fuzz)[A-Za-z0-9]+)`")

// Every attack of docs/security.md has a test that is there, and each of test/attack has its row.
func TestThreatModel(t *testing.T) {
	root := filepath.Join("..", "..")
	claims := claimed.FindAllStringSubmatch(doc(t, "security.md"), -1)
	if len(claims) < 10 {
		t.Fatalf("docs/security.md names %d tests", len(claims))
	}
	_, table, _ := strings.Cut(doc(t, "security.md"), "| actor | attack | what happens | held by |\n|---|---|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	rows := strings.Split(table, "\n")
	if len(rows) < 30 {
		t.Errorf("the table of attacks has %d rows", len(rows))
	}
	for _, row := range rows {
		if !claimed.MatchString(row) {
			t.Errorf("docs/security.md names no test for the attack: %s", row)
		}
	}
	attacks := map[string]bool{}
	for _, c := range claims {
		if !hasTest(t, filepath.Join(root, c[1]), c[2]) {
			t.Errorf("docs/security.md says that %s.%s holds an attack, and there is no such test", c[1], c[2])
		}
		if c[1] == "test/attack" {
			attacks[c[2]] = true
		}
	}
	files, err := filepath.Glob(filepath.Join(root, "test", "attack", "*_test.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files of test/attack, %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(t `).FindAllStringSubmatch(string(text), -1) {
			if !attacks[m[1]] {
				t.Errorf("%s is in no row of docs/security.md", m[1])
			}
		}
	}
}
