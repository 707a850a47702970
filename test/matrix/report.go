package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const head = `# Tested against the real thing

Written by ` + "`make matrix`" + ` (test/matrix) from the last result of each cell; do not edit. ` + "`make matrix CELL=STACK/PROGRAM`" + `
runs some cells again. Programs are in test/mpi, openpmix's examples come from Debian's libpmix-dev,
its test/simple from Debian's source package, mpi4py's test suite from its sources on PyPI. A host is a set of Linux namespaces; one host is a run without agents, two
hosts have an agent each as PID 1. Unless said otherwise there are 4 ranks. A cell is ok when the exit code, the
output and, for failures that are meant, the sentence that tells the cause are the expected ones, in time, and
no process is left on a host. Ranks of mpi4py's suite, more than the processors, leave those to each other when they look
for messages in vain (test/mpi/yield.c). A cell that failed, was run again with the same mpiup and was ok then, says "ok on retry";
results of fe6d5bb and earlier do not say so where somebody ran the cell again by hand.
n/a cells cannot work, the notes say why, and were tried with the library's own launcher where they say so; – is a
program of PMIx's own with a library that speaks PMI-1, or that is a wheel, which has no PMIx headers.

`

// report writes docs/matrix.md from all results there are.
func (m *matrix) report() error {
	var out bytes.Buffer
	out.WriteString(head)
	all, err := m.loadAll()
	if err != nil {
		return err
	}
	writeVersions(&out, all)
	notes := &notes{}
	for _, at := range []where{one, several} {
		fmt.Fprintf(&out, "## %s\n\n", strings.ToUpper(string(at[:1]))+string(at[1:]))
		writeTable(&out, all, at, notes)
	}
	notes.write(&out)
	writeUnused(&out)
	writeSuites(&out, all)
	return os.WriteFile(filepath.Join(m.root, "docs", "matrix.md"), out.Bytes(), 0o644)
}

// results are found by stack, program and where.
type results map[[3]string]*result

func (rs results) of(s stack, p program, at where) *result {
	return rs[[3]string{s.name, p.name, string(at)}]
}

func (m *matrix) loadAll() (results, error) {
	all := results{}
	for _, s := range stacks {
		for _, p := range programs {
			for _, at := range []where{one, several} {
				r, err := m.load(s.name, p.name, at)
				if err != nil {
					return nil, err
				}
				if r != nil {
					all[[3]string{s.name, p.name, string(at)}] = r
				}
			}
		}
	}
	return all, nil
}

// writeVersions tells what each library says of itself, and which mpiup ran when.
func writeVersions(out *bytes.Buffer, all results) {
	out.WriteString("| stack | the library says | mpiup | when | ok | ok on retry | fails | n/a |\n|---|---|---|---|---|---|---|---|\n")
	for _, s := range stacks {
		count := map[word]int{}
		version := notKnown
		commits, dates := map[string]bool{}, map[string]bool{}
		for _, p := range programs {
			for _, at := range []where{one, several} {
				r := all.of(s, p, at)
				if r == nil {
					continue
				}
				count[r.Word]++
				if r.Version != notKnown {
					version = r.Version
				}
				commits[r.Commit], dates[r.Date] = true, true
			}
		}
		fmt.Fprintf(out, "| %s: %s | %s | %s | %s | %d | %d | %d | %d |\n", s.name, s.title, version,
			strings.Join(slices.Sorted(maps.Keys(commits)), ", "), strings.Join(slices.Sorted(maps.Keys(dates)), ", "),
			count[ok], count[onRetry], count[fails], count[notApplicable])
	}
	out.WriteString("\n")
}

// notes are the reasons of cells that are not ok, numbered; equal ones have one number.
type notes struct {
	texts []string
	cells [][]string
}

// number is the note's number, from 1.
func (n *notes) number(r *result) int {
	text := string(r.Word) + ": " + r.Reason
	i := slices.Index(n.texts, text)
	if i < 0 {
		i = len(n.texts)
		n.texts, n.cells = append(n.texts, text), append(n.cells, nil)
	}
	n.cells[i] = append(n.cells[i], fmt.Sprintf("%s/%s on %s", r.Stack, r.Program, r.Where))
	return i + 1
}

func (n *notes) write(out *bytes.Buffer) {
	if len(n.texts) == 0 {
		return
	}
	out.WriteString("## Notes\n\n")
	for i, text := range n.texts {
		cells := n.cells[i]
		if strings.HasPrefix(text, string(notApplicable)) {
			fmt.Fprintf(out, "%d. %s\n", i+1, text)
			continue
		}
		fmt.Fprintf(out, "%d. %s (%s)\n", i+1, strings.ReplaceAll(text, "|", "\\|"), strings.Join(cells, ", "))
	}
	out.WriteString("\n")
}

func writeTable(out *bytes.Buffer, all results, at where, n *notes) {
	out.WriteString("| program | |")
	for _, s := range stacks {
		fmt.Fprintf(out, " %s |", strings.ReplaceAll(s.name, "-", " "))
	}
	out.WriteString("\n|---|---|" + strings.Repeat("---|", len(stacks)) + "\n")
	for _, p := range programs {
		if p.kind == suite && at == one {
			continue
		}
		fmt.Fprintf(out, "| %s | %s |", p.name, p.what)
		for _, s := range stacks {
			r := all.of(s, p, at)
			switch {
			case r == nil:
				out.WriteString(" not run |")
			case r.Reason == noPMIx:
				out.WriteString(" – |")
			case r.Word == ok:
				out.WriteString(" ok |")
			default:
				fmt.Fprintf(out, " %s [%d] |", r.Word, n.number(r))
			}
		}
		out.WriteString("\n")
	}
	out.WriteString("\n")
}

// writeUnused tells of openpmix's programs that are not run.
func writeUnused(out *bytes.Buffer) {
	out.WriteString("## openpmix's programs that are not run\n\n")
	for _, u := range unused {
		fmt.Fprintf(out, "- %s: %s\n", u.why, u.programs)
	}
	out.WriteString("\n")
}

// writeSuites lists the tests that mpi4py's suite skipped, by reason.
func writeSuites(out *bytes.Buffer, all results) {
	out.WriteString("## What mpi4py's test suite skipped, and what is left out of it\n\n")
	for _, s := range stacks {
		byReason := map[string][]string{}
		for _, test := range slices.Sorted(maps.Keys(s.leftOut)) {
			byReason[s.leftOut[test]] = append(byReason[s.leftOut[test]], "`"+test+"`")
		}
		for _, reason := range slices.Sorted(maps.Keys(byReason)) {
			fmt.Fprintf(out, "%s: left out: %s: %s.\n\n", s.title, strings.Join(byReason[reason], ", "), reason)
		}
		for _, p := range programs {
			r := all.of(s, p, several)
			if r == nil || r.Suite == nil || r.Suite.Ran == 0 {
				continue
			}
			fmt.Fprintf(out, "%s, ranks: %d, tests run: %d.\n\n", s.title, p.size(), r.Suite.Ran)
			for _, reason := range slices.Sorted(maps.Keys(r.Suite.Skipped)) {
				fmt.Fprintf(out, "- %s: %s\n", reason, grouped(r.Suite.Skipped[reason]))
			}
			out.WriteString("\n")
		}
	}
}

// grouped shortens module.class.test names: classes with how many of their tests, single tests in full.
func grouped(tests []string) string {
	count := map[string]int{}
	for _, t := range tests {
		count[t[:max(0, strings.LastIndex(t, "."))]]++
	}
	var out []string
	for _, t := range tests {
		class := t[:max(0, strings.LastIndex(t, "."))]
		switch {
		case count[class] == 1:
			out = append(out, t)
		case count[class] > 1:
			out = append(out, fmt.Sprintf("%s (%d)", class, count[class]))
			count[class] = 0
		}
	}
	return strings.Join(out, ", ")
}
