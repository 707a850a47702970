package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The data of the threat model name tests as package/path.TestName.
var claimed = regexp.MustCompile(`\b([a-z0-9/]+)\.((?:Test|Fuzz)[A-Za-z0-9]+)\b`)

// Every attack of docs/data/attacks.tsv has a test that is there, and each of test/attack has its row.
func TestThreatModel(t *testing.T) {
	root := filepath.Join("..", "..")
	table := strings.TrimSpace(doc(t, "data/attacks.tsv"))
	claims := claimed.FindAllStringSubmatch(table, -1)
	rows := strings.Split(table, "\n")[1:]
	if len(rows) < 60 {
		t.Errorf("the table of attacks has %d rows", len(rows))
	}
	for _, row := range rows {
		if !claimed.MatchString(row) || strings.Count(row, "\t") != 3 {
			t.Errorf("docs/data/attacks.tsv names no test for the attack: %s", row)
		}
	}
	attacks := map[string]bool{}
	for _, c := range claims {
		if !hasTest(t, filepath.Join(root, c[1]), c[2]) {
			t.Errorf("docs/data/attacks.tsv says that %s.%s holds an attack, and there is no such test", c[1], c[2])
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
				t.Errorf("%s is in no row of docs/data/attacks.tsv", m[1])
			}
		}
	}
}

// Whoever starts ranks as root by our own pages names setpriv by its path: on PATH an earlier rank may have put another.
func TestSetprivIsNamedByItsPath(t *testing.T) {
	root := filepath.Join("..", "..")
	named := 0
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "examples/*"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				continue // a directory
			}
			for _, m := range regexp.MustCompile(`(\S*)setpriv --`).FindAllStringSubmatch(string(text), -1) {
				named++
				if m[1] != "/usr/bin/" {
					t.Errorf("%s: %s is not /usr/bin/setpriv", file, m[0])
				}
			}
		}
	}
	if named == 0 {
		t.Error("no page names it")
	}
}
