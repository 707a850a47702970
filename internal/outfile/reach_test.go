package outfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Directories are made through directories and one's own links, and through no link of another user, wherever on the way it stands.
func TestMakeAllFollowsNoLinkOfOthers(t *testing.T) {
	me := uint32(os.Geteuid())
	for _, tt := range []struct {
		name, path string
		uid        uint32 // whose links are followed
		made       string // "": it is refused
		says       string
	}{
		{"all is missing", "a/b/c", me, "a/b/c", ""},
		{"all is there", "there/dir", me, "there/dir", ""},
		{"one's own link on the way", "link/x/y", me, "there/x/y", ""},
		{"one's own link that goes up and down", "up/x", me, "there/x", ""},
		{"one's own link at the end", "link", me, "there", ""},
		{"another's link on the way", "link/x/y", me + 1, "", "symbolic link"},
		{"another's link at the end", "link", me + 1, "", "symbolic link"},
		{"another's link to nowhere", "nowhere", me + 1, "", "symbolic link"},
		{"a circle", "circle/x", me, "", "too many levels"},
		{"a file on the way", "file/x", me, "", "not a directory"},
		{"dots", "there/../there/./z", me, "there/z", ""},
	} {
		dir := t.TempDir()
		for _, err := range []error{os.MkdirAll(filepath.Join(dir, "there", "dir"), 0o755), os.Symlink(filepath.Join(dir, "there"), filepath.Join(dir, "link")),
			os.Symlink("there/../there", filepath.Join(dir, "up")), os.Symlink("circle", filepath.Join(dir, "circle")),
			os.Symlink(filepath.Join(dir, "none", "x"), filepath.Join(dir, "nowhere")), os.WriteFile(filepath.Join(dir, "file"), nil, 0o600)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		f, err := reachFor(tt.uid, dir+"/"+tt.path, 0o755)
		if tt.made == "" {
			if err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%s: %v", tt.name, err)
			}
			for _, x := range []string{"there/x", "none"} {
				if _, err := os.Lstat(filepath.Join(dir, x)); err == nil {
					t.Errorf("%s: %s was made behind the link", tt.name, x)
				}
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		is, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.Stat(filepath.Join(dir, tt.made))
		if err != nil || !os.SameFile(is, want) {
			t.Errorf("%s: it is another directory than %s, %v", tt.name, tt.made, err)
		}
		f.Close()
	}
}
