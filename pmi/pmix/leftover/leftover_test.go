package leftover

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRemove(t *testing.T) {
	base := t.TempDir()
	in := func(name string) string { return filepath.Join(base, name) }
	for _, dir := range []string{"tree/deep/deeper", "flat/deep", "top/deep", "away"} {
		if err := os.MkdirAll(in(dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"file", "kept", "tree/f", "tree/deep/f", "flat/f", "top/f", "away/f"} {
		if err := os.WriteFile(in(file), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{"link": "away", "tree/link": base} {
		if err := os.Symlink(to, in(name)); err != nil {
			t.Fatal(err)
		}
	}
	uid := os.Geteuid()
	for _, tt := range []struct {
		rest  string
		what  Extent
		owner int
		err   string // part of it; "": none
	}{
		{"kept", Extent{}, uid + 1, "another user"},
		{"tree", Extent{Dir: true, Recurse: true}, uid + 1, "another user"},
		{"link/f", Extent{}, uid, "not a directory"},
		{"link", Extent{Dir: true, Recurse: true}, uid, "not a directory"},
		{"../" + filepath.Base(base), Extent{Dir: true}, uid, "not below"},
		{"file", Extent{}, uid, ""},
		{"file", Extent{}, uid, "no such file"},
		{"tree", Extent{Dir: true, Recurse: true}, uid, ""},
		{"flat", Extent{Dir: true}, uid, ""},
		{"top", Extent{Dir: true, Recurse: true, KeepTop: true}, uid, ""},
		{"link", Extent{}, uid, ""},
	} {
		err := Remove(base, tt.rest, tt.what, tt.owner)
		if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: %v, want %q", tt.rest, err, tt.err)
		}
	}
	for name, want := range map[string]bool{"file": false, "kept": true, "tree": false, "flat/f": false, "flat/deep": true,
		"top": true, "top/f": false, "top/deep": false, "link": false, "away/f": true} {
		if _, err := os.Lstat(in(name)); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := Remove(base, "absent", Extent{}, uid); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what is not there: %v", err)
	}
}

// A tree that would take all descriptors is given up.
func TestDepthIsBounded(t *testing.T) {
	base := t.TempDir()
	if err := os.MkdirAll(filepath.Join(base, strings.Repeat("d/", maxDepth+8)), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := Remove(base, "d", Extent{Dir: true, Recurse: true}, os.Geteuid()); err == nil || !strings.Contains(err.Error(), "directories deep") {
		t.Errorf("%v", err)
	}
}
