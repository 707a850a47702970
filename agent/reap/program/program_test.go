package program

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/test/cost"
	"github.com/mpiup/mpiup/test/elf"
)

func TestImages(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	head, err := readHead(self)
	if err != nil {
		t.Fatal(err)
	}
	if img := readImage(head); img.kind != imageELF || foreign(img.arch) {
		t.Errorf("this test: %+v", img)
	}
	for text, want := range map[string]image{
		"":                                   {kind: imageEmpty},
		"hello":                              {},
		"#!/bin/sh\nx":                       {kind: imageScript, interp: "/bin/sh"},
		"#! \t/usr/bin/env python3\n":        {kind: imageScript, interp: "/usr/bin/env"},
		"#!":                                 {kind: imageScript},
		"\x7fELF":                            {kind: imageELF},
		elf.WithLoader("/lib64/ld-linux.so"): {kind: imageELF, arch: readImage(head).arch, interp: "/lib64/ld-linux.so"},
		elf32BE():                            {kind: imageELF, arch: "ppc", interp: "/lib/ld.so.1"},
	} {
		if got := readImage([]byte(text)); !reflect.DeepEqual(got, want) {
			t.Errorf("%.20q: got %+v, want %+v", text, got, want)
		}
	}
}

// elf32BE is a big-endian 32-bit program with a loader.
func elf32BE() string {
	h := make([]byte, 52+32)
	copy(h, "\x7fELF\x01\x02\x01")
	h[19], h[31], h[43], h[45] = 20, 52, 32, 1
	h[55], h[59], h[71] = ptInterp, 84, 13
	return string(h) + "/lib/ld.so.1\x00"
}

func FuzzReadImage(f *testing.F) {
	for _, s := range []string{"", "#!/bin/sh\n", elf.WithLoader("/ld"), elf32BE(), elf.Foreign()} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		defer cost.Watch(t, cost.Parser, len(b))()
		if img := readImage(b); len(img.interp) > len(b) {
			t.Errorf("%+v", img)
		}
	})
}

func TestLookPathFindsWhatExecvpFinds(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"a", "b", "a/prog2"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(dir, "a/prog"), "", 0o644)
	write(t, filepath.Join(dir, "b/prog"), "", 0o755)
	write(t, filepath.Join(dir, "b/prog2"), "", 0o755)
	write(t, filepath.Join(dir, "here"), "", 0o755)
	for _, tt := range []struct{ name, prog, path, want string }{
		{"passes what is not executable", "prog", dir + "/a:" + dir + "/b", dir + "/b/prog"},
		{"passes a directory", "prog2", dir + "/a:" + dir + "/b", dir + "/b/prog2"},
		{"relative element", "prog", "b", dir + "/b/prog"},
		{"empty element", "here", "/bin::/usr/bin", dir + "/here"},
		{"slash", "b/prog", "/bin", dir + "/b/prog"},
		{"absolute", "/bin/sh", "", "/bin/sh"},
		{"before PATH", "prog", SearchPath(dir+"/b", "/usr/bin", false), dir + "/b/prog"},
		{"the directory, after PATH", "here", SearchPath("", "/usr/bin", true), dir + "/here"},
		{"the directory, without PATH", "here", SearchPath("", "", true), dir + "/here"},
		{"PATH before the directory", "sh", SearchPath("", "/bin", true), "/bin/sh"},
	} {
		got, err := look(tt.prog, dir, tt.path)
		if err != nil || got != tt.want {
			t.Errorf("%s: %q %v, want %q", tt.name, got, err, tt.want)
		}
	}
	if _, err := look("prog", dir, dir+"/a"); err == nil || !strings.Contains(err.Error(), "not executable") {
		t.Errorf("found but not executable: %v", err)
	}
	if _, err := look("here", dir, "/bin"); err == nil || !strings.Contains(err.Error(), "the working directory has it: write ./here") {
		t.Errorf("where Open MPI alone looks: %v", err)
	}
	if _, err := look("nope", dir, SearchPath("", "/bin", true)); err == nil || !strings.Contains(err.Error(), "not found on PATH (/bin) or in "+dir) {
		t.Errorf("nowhere: %v", err)
	}
	if _, err := look("", dir, "/bin"); err == nil {
		t.Error("no program: no error")
	}
}

func look(prog, dir, pathEnv string) (string, error) {
	return lookPath(prog, dir, pathEnv, func(string) {})
}

func write(t testing.TB, file, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}
