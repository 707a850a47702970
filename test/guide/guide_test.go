package guide

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestRead(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("# A\n\n```python\n# a.py\nx = 1\n```\n\n```sh\npython3 a.py # one\n```\n```python\n# a.py\nx = 2\n```\n")
	blocks, err := Read(page)
	want := []Block{{"python", "# a.py\nx = 1\n", 4}, {"sh", "python3 a.py # one\n", 9}, {"python", "# a.py\nx = 2\n", 12}}
	if err != nil || !slices.Equal(blocks, want) {
		t.Errorf("%+v, %v", blocks, err)
	}
	if got := []string{blocks[0].File(), blocks[1].File()}; !slices.Equal(got, []string{"a.py", ""}) {
		t.Errorf("files %q", got)
	}
	if b, err := Of(blocks, "python", "a.py"); err != nil || b.Line != 12 {
		t.Errorf("the last is %+v, %v", b, err)
	}
	if _, err := Of(blocks, "yaml", ""); err == nil {
		t.Error("a block that is not there is found")
	}
	write("```sh\n")
	if _, err := Read(page); err == nil {
		t.Error("an open block passes")
	}
}
