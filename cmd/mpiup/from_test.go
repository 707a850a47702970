package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/mpiup/mpiup/launcher/cli"
)

var (
	code   = regexp.MustCompile("`([^`]+)`")
	option = regexp.MustCompile(`^-{1,2}([A-Za-z][\w-]*)`)
)

// What docs/from.md writes for mpiup run is what mpiup run reads, and each option that it names of mpirun's
// and mpiexec's is one that docs/data, which is written from their tables, has too.
func TestFromOtherLaunchers(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/from.md")
	if err != nil {
		t.Fatal(err)
	}
	mpirun := optionsOfMpirun(t)
	section, read := "", 0
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\n")
		if title, ok := strings.CutPrefix(line, "## "); ok {
			section = title
		}
		if command, ok := strings.CutPrefix(line, "    mpiup run "); ok {
			readsAsRun(t, command, line)
			read++
		}
		cells := strings.Split(line, " | ")
		if len(cells) != 2 || !strings.HasPrefix(line, "| ") {
			continue
		}
		for _, m := range code.FindAllStringSubmatch(cells[1], -1) {
			if strings.HasPrefix(m[1], "-") {
				readsAsRun(t, m[1]+" program", line)
				read++
			}
		}
		for _, m := range code.FindAllStringSubmatch(cells[0], -1) {
			if o := option.FindStringSubmatch(m[1]); o != nil && section == "From mpirun and mpiexec" && !mpirun[o[1]] {
				t.Errorf("docs/data has no option %s: %s", o[0], line)
			}
		}
	}
	if read < 40 {
		t.Errorf("only %d flags and lines were read", read)
	}
}

// readsAsRun parses a command line of mpiup run without that name.
func readsAsRun(t *testing.T, command, line string) {
	t.Helper()
	words, f, fs := strings.Fields(command), &cli.RunFlags{}, pflag.NewFlagSet("run", pflag.ContinueOnError)
	f.Register(fs)
	err := fs.Parse(cli.Dashes(fs, words))
	if err == nil {
		err = f.Check()
	}
	if err != nil || fs.NArg() == 0 {
		t.Errorf("%q is no line of mpiup run: %v, programs %q; in %s", command, err, fs.Args(), line)
	}
}

func optionsOfMpirun(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	for _, family := range []string{"openmpi", "hydra"} {
		text, err := os.ReadFile("../../docs/data/mpirun-" + family + ".tsv")
		if err != nil {
			t.Fatal(err)
		}
		for row := range strings.Lines(string(text)) {
			spelled, _, _ := strings.Cut(row, "\t")
			for word := range strings.FieldsSeq(spelled) {
				if o := option.FindStringSubmatch(word); o != nil {
					names[o[1]] = true
				}
			}
		}
	}
	return names
}
