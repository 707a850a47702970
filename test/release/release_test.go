package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/test/golden"
	"github.com/mpiup/mpiup/test/lab"
	"github.com/mpiup/mpiup/test/need"
)

func TestPage(t *testing.T) {
	help, err := os.ReadFile("testdata/help.txt")
	if err != nil {
		t.Fatal(err)
	}
	golden.Is(t, "testdata/page.1", page("mpiup-show", "Show what there is", string(help), footer{"v1.2.3", "2026-11-23"}))
}

func TestProvenance(t *testing.T) {
	const of = "0123456789abcdef0123456789abcdef01234567"
	sums := strings.Repeat("ab", 32) + "  mpiup.tar.gz\n" + strings.Repeat("cd", 32) + "  mpiup.spdx.json\n" + strings.Repeat("ef", 32) + "  mpiup-mpich:v1.2.3\n"
	var b strings.Builder
	if err := provenance(&b, sums, "v1.2.3", of); err != nil {
		t.Fatal(err)
	}
	golden.Is(t, "testdata/provenance.json", strings.ReplaceAll(b.String(), strings.TrimPrefix(runtime.Version(), "go"), "GO"))
	for _, bad := range []string{"", "abc  x\n", strings.Repeat("ab", 32) + "  a b\n"} {
		if err := provenance(io.Discard, bad, "v1.2.3", of); err == nil {
			t.Errorf("the sums %q were taken", bad)
		}
	}
	if err := provenance(io.Discard, sums, "v1.2.3", "HEAD"); err == nil {
		t.Error("a commit that is none was taken")
	}
}

// The binary's own pages have every command and every flag, mandoc finds no fault with them, and the shells take
// the completions. A second making gives the same bytes.
func TestOfTheBinary(t *testing.T) {
	need.Program(t, "mandoc", "mandoc")
	bin, err := lab.Binary(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	one, two := t.TempDir(), t.TempDir()
	for _, dir := range []string{one, two} {
		if err := run([]string{"-mpiup", bin, "-version", "v1.2.3", "-date", "2026-11-23", "-out", dir}); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command("diff", "-r", one, two).CombinedOutput(); err != nil {
		t.Errorf("two makings differ: %v\n%s", err, out)
	}
	help, err := exec.Command(bin, "--help").Output()
	if err != nil {
		t.Fatal(err)
	}
	for name := range commands(string(help)) {
		if _, err := os.Stat(filepath.Join(one, "man", "man1", "mpiup-"+name+".1")); err != nil {
			t.Errorf("a command without a page: %v", err)
		}
	}
	pages, err := filepath.Glob(filepath.Join(one, "man", "man1", "*.1"))
	if err != nil || len(pages) < 20 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	// STYLE is advice, such as that of long lines of examples.
	if out, err := exec.Command("mandoc", append([]string{"-T", "lint", "-W", "warning"}, pages...)...).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("mandoc: %v\n%s", err, out)
	}
	shown, err := exec.Command("mandoc", "-T", "utf8", "-O", "width=200", filepath.Join(one, "man", "man1", "mpiup-run.1")).Output()
	if err != nil {
		t.Fatal(err)
	}
	plain := strings.ReplaceAll(string(shown), "\b", "")
	for _, want := range []string{"SYNOPSIS", "EXAMPLES", "WHERE RANKS RUN"} {
		bold := "" // mandoc prints a letter twice
		for _, r := range want {
			bold += string(r)
			if r != ' ' {
				bold += string(r)
			}
		}
		if !strings.Contains(plain, bold) {
			t.Errorf("mpiup-run.1 shows no %s", want)
		}
	}
	if out, err := exec.Command("bash", "-nc", ". "+filepath.Join(one, "completions", "mpiup.bash")).CombinedOutput(); err != nil {
		t.Errorf("bash: %v\n%s", err, out)
	}
	script := ". " + filepath.Join(one, "completions", "mpiup.bash") + `; COMP_WORDS=(mpiup ru); COMP_CWORD=1; COMP_LINE="mpiup ru"; COMP_POINT=8
_get_comp_words_by_ref() { cur=ru prev=mpiup cword=1 words=(mpiup ru); }; compopt() { :; }; __start_mpiup; echo "${COMPREPLY[@]}"`
	cmd := exec.Command("bash", "-c", script)
	cmd.Env = []string{"PATH=" + filepath.Dir(bin) + ":/usr/bin:/bin"}
	if out, err := cmd.CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != "run" {
		t.Errorf("bash completes mpiup ru to %q, %v", out, err)
	}
}
