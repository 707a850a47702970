package archtest

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// below are the files with an ending below docs, and their texts.
func below(t *testing.T, ending string) map[string]string {
	t.Helper()
	root, found := filepath.Join("..", ".."), map[string]string{}
	err := filepath.WalkDir(filepath.Join(root, "docs"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ending {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(root, path)
		found[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// readme is README.md with the pages below docs.
func withReadme(t *testing.T) map[string]string {
	t.Helper()
	pages := below(t, ".md")
	text, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil || len(pages) < 30 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	pages["README.md"] = string(text)
	return pages
}

// Data are tables: a head, a line a row, as many cells in each.
func TestDataAreTables(t *testing.T) {
	entries, err := os.ReadDir(filepath.Join("..", "..", "docs", "data"))
	if err != nil {
		t.Fatal(err)
	}
	tables := below(t, ".tsv")
	if len(tables) != len(entries) {
		t.Errorf("docs/data has %d files, of which %d are tables (.tsv)", len(entries), len(tables))
	}
	for name, text := range tables {
		columns := 0
		for row := range strings.Lines(text) {
			cells := strings.Split(strings.TrimRight(row, "\n"), "\t")
			if columns == 0 {
				columns = len(cells)
			}
			if len(cells) != columns || columns < 2 {
				t.Errorf("%s: a row has %d cells, its head %d: %.60s", name, len(cells), columns, row)
			}
		}
	}
}

var link = regexp.MustCompile(`\]\(([^)#\s]*)(#[^)\s]*)?\)`)

// Every link between pages, files and headings leads somewhere.
func TestLinksLead(t *testing.T) {
	root, pages, read := filepath.Join("..", ".."), withReadme(t), 0
	for name, text := range pages {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			read++
			target := name
			if m[1] != "" {
				target = filepath.Join(filepath.Dir(name), m[1])
			}
			if _, err := os.Stat(filepath.Join(root, target)); err != nil {
				t.Errorf("%s links to %s, which is not there", name, m[1])
				continue
			}
			if m[2] != "" && !anchors(pages[target])[m[2][1:]] {
				t.Errorf("%s links to %s%s, and there is no such heading", name, m[1], m[2])
			}
		}
	}
	if read < 100 {
		t.Errorf("only %d links were found", read)
	}
}

var notInAnchor = regexp.MustCompile(`[^\p{L}\p{N} _-]`)

// anchors are a page's headings as links name them.
func anchors(text string) map[string]bool {
	found := map[string]bool{}
	for line := range strings.Lines(text) {
		if h := strings.TrimLeft(line, "#"); h != line && strings.HasPrefix(h, " ") {
			found[strings.ReplaceAll(notInAnchor.ReplaceAllString(strings.ToLower(strings.TrimSpace(h)), ""), " ", "-")] = true
		}
	}
	return found
}

// README is read on pages that cut code off at 80 columns.
func TestReadmeFits(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	code := false
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "```") {
			code = !code
		} else if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); code && n > 80 {
			t.Errorf("a line of code has %d columns: %s", n, line)
		}
	}
}
