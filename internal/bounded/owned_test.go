package bounded

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/test/need"
)

// A tool for root comes from directories that nobody else can change: not by their own mode, nor by a directory above them, nor where a link leads.
func TestProgramsThatOnlyRootMayChange(t *testing.T) {
	need.Root(t)
	top, err := os.MkdirTemp("/opt", "mpiup-test-*")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(top) })
	at := func(name string) string { return filepath.Join(top, name) }
	tool := func(dir string) error { return os.WriteFile(filepath.Join(dir, "tool"), []byte("#!/bin/sh\n"), 0o755) }
	if err := errors.Join(os.Chmod(top, 0o755), os.MkdirAll(at("roots/bin"), 0o755), tool(at("roots/bin")), os.MkdirAll(at("theirs/bin"), 0o755), tool(at("theirs/bin")), os.Chown(at("theirs"), 65533, 65533),
		os.Mkdir(at("open"), 0o777), os.Chmod(at("open"), 0o777), tool(at("open")), os.Symlink(at("theirs/bin"), at("link")), os.Symlink(at("roots/bin"), at("theirs/link")),
		os.Mkdir(at("file"), 0o755), tool(at("file")), os.Chown(at("file/tool"), 65533, 65533), os.Symlink(at("open/tool"), at("roots/linked")),
		os.Symlink(at("theirs/link"), at("turned")), os.Symlink(at("roots/bin"), at("led")), os.Symlink(at("theirs/link/tool"), at("roots/turned")),
		os.Symlink(at("roots/bin/tool"), at("roots/other"))); err != nil {
		t.Fatal(err)
	}
	var path []string
	for _, d := range []string{"theirs/bin", "open", "link", "theirs/link", "file", "roots/bin", "none", "led", "turned"} {
		path = append(path, at(d))
	}
	dirs := Programs(strings.Join(append(path, "", ".", "bin", "/tmp", "/usr/../tmp", at("roots/bin/")+"/"), ":"))
	// What a user's link leads to is named itself: the user may turn the link.
	if want := []string{at("roots/bin"), at("file"), at("roots/bin"), at("roots/bin"), at("roots/bin"), at("roots/bin")}; !slices.Equal(dirs, want) {
		t.Errorf("%q, want %q", dirs, want)
	}
	for _, name := range []string{"other", "turned"} {
		if got := Program(name, []string{at("roots")}); got != at("roots/bin/tool") {
			t.Errorf("what %s leads to is %q", name, got)
		}
	}
	if got := Program("tool", dirs); got != at("roots/bin/tool") {
		t.Errorf("the tool is %q", got)
	}
	if got := Program("linked", []string{at("roots")}); got != "" {
		t.Errorf("a link to another's is %q", got)
	}
}
