package main

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/docs"
)

// printed calls the binary with argv and returns what it wrote to standard output.
func printed(t *testing.T, argv ...string) string {
	t.Helper()
	out, err := os.Create(filepath.Join(t.TempDir(), "stdout"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if code := run(argv, []string{"PATH=/usr/bin:/bin"}, nil, out, out); code != 0 {
		t.Errorf("%q: code %d", argv, code)
	}
	text, err := io.ReadAll(io.NewSectionReader(out, 0, 1<<20))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Every command's --help has examples, and mpiup's own lists all commands and topics.
func TestHelpOfEveryCommand(t *testing.T) {
	all := printed(t, "mpiup", "--help")
	for _, c := range rootCommand(&process{}, "").Commands() {
		if c.Hidden {
			continue
		}
		if !strings.Contains(all, "\n  "+c.Name()+" ") {
			t.Errorf("mpiup --help does not list %s", c.Name())
		}
		help := printed(t, "mpiup", c.Name(), "--help")
		if !strings.Contains(help, "\nExamples:\n  ") || !strings.Contains(help, "Usage:\n  ") {
			t.Errorf("mpiup %s --help has no examples:\n%s", c.Name(), help)
		}
	}
	for _, page := range docs.Pages() {
		if !strings.Contains(all, "\n  "+page.Name+" ") {
			t.Errorf("mpiup --help does not list the topic %s", page.Name)
		}
		if got := printed(t, "mpiup", "help", page.Name); !strings.HasSuffix(got, page.Text) {
			t.Errorf("mpiup help %s: %.100q", page.Name, got)
		}
	}
}

// The name of a kind of failure shows its section alone.
func TestHelpOfAKind(t *testing.T) {
	got := printed(t, "mpiup", "help", "segfault")
	if !strings.HasPrefix(got, "## segfault\n") || !strings.Contains(got, "\n1. ") || strings.Contains(got[3:], "\n## ") {
		t.Errorf("%q", got)
	}
}

// The common flags come first in the help of run, and each flag stands in one group.
func TestHelpOfRun(t *testing.T) {
	_, flags, _ := strings.Cut(printed(t, "mpiup", "run", "--help"), "\nCommon flags:\n")
	common, rest, found := strings.Cut(flags, "\n\n")
	if !found {
		t.Fatalf("there are no groups: %q", flags)
	}
	var names []string
	for line := range strings.Lines(common) {
		if name, _, ok := strings.Cut(strings.TrimSpace(line), " "); ok && strings.HasPrefix(name, "-") {
			names = append(names, strings.Trim(name, ","))
		}
	}
	want := []string{"-n", "-x", "--wdir", "-N", "--bind-to", "-H", "--hostfile", "--timeout", "--tag-output", "-v", "-h"}
	if !slices.Equal(names, want) {
		t.Errorf("common are %q, not %q", names, want)
	}
	if strings.Contains(rest, "\nFlags:") || strings.Count(flags, "--map-by ORDER") != 1 {
		t.Errorf("groups: %s", rest)
	}
}

func TestVersionFlag(t *testing.T) {
	if got := printed(t, "mpiup", "--version"); !strings.HasPrefix(got, "mpiup devel (protocol ") || got != printed(t, "mpiup", "version") {
		t.Errorf("%q", got)
	}
}
