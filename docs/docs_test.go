package docs

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// Every page is in the program, or is one of those that are about mpiup itself.
func TestPages(t *testing.T) {
	about := []string{"architecture", "blame", "chaos", "dependencies", "development", "matrix", "performance", "release", "tested", "upstream"}
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, f := range files {
		if name, ok := strings.CutSuffix(f.Name(), ".md"); ok && !slices.Contains(about, name) {
			want = append(want, name)
		}
	}
	var got []string
	for _, p := range Pages() {
		got = append(got, p.Name)
		if p.Title == "" || len(p.Title) > 100 || strings.HasPrefix(p.Title, "#") || len(p.Text) < 500 {
			t.Errorf("page %s: title %q, %d bytes", p.Name, p.Title, len(p.Text))
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("mpiup help has %q, and there are %q: name a page in docs.go, or here", got, want)
	}
}
