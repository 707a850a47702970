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

const head = `# MPI libraries that were run

Each row is an MPI library as people have it. "Cannot" counts what that library cannot do under any launcher; notes below say why.

`

const method = `## How it was run

` + "`make matrix`" + ` (test/matrix) runs the programs and writes this page; do not edit it. ` + "`make matrix CELL=STACK/PROGRAM`" + ` runs some cells
again. [data/matrix.tsv](data/matrix.tsv) has each cell.

A host is a set of Linux namespaces. On one host there is no agent; on two hosts an agent is PID 1 of each. There are 4 ranks unless the program
says otherwise. A cell is ok when exit code, output, time and the sentence about a cause are the expected ones, and no process is left.
"On retry" counts cells that failed once and passed with the same mpiup. Results of fe6d5bb and earlier do not count what somebody ran again by hand.
Where mpi4py's suite has more ranks than processors, a rank that finds no message yields its core (test/mpi/yield.c).

`

// report writes docs/matrix.md and its data from all results there are.
func (m *matrix) report() error {
	all, err := m.loadAll()
	if err != nil {
		return err
	}
	docs := filepath.Join(m.root, "docs")
	for name, text := range pageAndData(all) {
		if err := os.WriteFile(filepath.Join(docs, name), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// pageAndData are the page and the tables that prove it, by the name of the file below docs.
func pageAndData(all results) map[string][]byte {
	var page, cells, skipped bytes.Buffer
	notes := &notes{}
	cells.WriteString("hosts\tprogram\twhat")
	for _, s := range stacks {
		cells.WriteString("\t" + s.name)
	}
	cells.WriteString("\n")
	for _, at := range []where{one, several} {
		writeCells(&cells, all, at, notes)
	}
	writeSkipped(&skipped, all)
	page.WriteString(head)
	writeVersions(&page, all)
	page.WriteString(method)
	writePrograms(&page)
	notes.write(&page)
	writeUnused(&page)
	writeLeftOut(&page)
	return map[string][]byte{"matrix.md": page.Bytes(), "data/matrix.tsv": cells.Bytes(), "data/matrix-mpi4py.tsv": skipped.Bytes()}
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
	out.WriteString("| stack | library | mpiup | when | ok | on retry | fails | cannot |\n|---|---|---|---|---|---|---|---|\n")
	for _, s := range stacks {
		count := map[word]int{}
		commits, dates := map[string]bool{}, map[string]bool{}
		for _, p := range programs {
			for _, at := range []where{one, several} {
				r := all.of(s, p, at)
				if r == nil || p.kind == suite && at == one {
					continue
				}
				count[r.Word]++
				commits[r.Commit], dates[r.Date] = true, true
			}
		}
		fmt.Fprintf(out, "| %s | %s | %s | %s | %d | %d | %d | %d |\n", s.name, s.title,
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

// write says why cells are not ok, and names the cells that could be.
func (n *notes) write(out *bytes.Buffer) {
	if len(n.texts) == 0 {
		return
	}
	out.WriteString("## What some cannot\n\nThe numbers are those in data/matrix.tsv.\n\n")
	for i, text := range n.texts {
		text = strings.TrimPrefix(text, string(notApplicable)+": ")
		if !strings.HasPrefix(n.texts[i], string(notApplicable)) {
			text += " (" + strings.Join(n.cells[i], ", ") + ")"
		}
		fmt.Fprintf(out, "%d. %s\n", i+1, strings.ReplaceAll(text, "|", "\\|"))
	}
	out.WriteString("\n")
}

// writePrograms says what was run.
func writePrograms(out *bytes.Buffer) {
	out.WriteString("Programs of our own (test/mpi):")
	counts := map[string]int{}
	for _, p := range programs {
		family, _, _ := strings.Cut(p.name, "-")
		switch family {
		case "pmix", "simple", "mpi4py":
			counts[family]++
		default:
			out.WriteString(" " + p.name)
		}
	}
	fmt.Fprintf(out, ".\nOthers': %d of openpmix's examples (Debian's libpmix-dev), %d of its test/simple (Debian's sources),\n"+
		"and mpi4py's own test suite on %d numbers of ranks. [data/matrix-mpi4py.tsv](data/matrix-mpi4py.tsv) has what that suite skipped.\n\n",
		counts["pmix"], counts["simple"], counts["mpi4py"])
}

// writeCells writes a line a program, with a column a stack.
func writeCells(out *bytes.Buffer, all results, at where, n *notes) {
	for _, p := range programs {
		if p.kind == suite && at == one {
			continue
		}
		fmt.Fprintf(out, "%s\t%s\t%s", at, p.name, p.what)
		for _, s := range stacks {
			r := all.of(s, p, at)
			switch {
			case r == nil:
				out.WriteString("\tnot run")
			case r.Reason == noPMIx:
				out.WriteString("\t-")
			case r.Word == ok:
				out.WriteString("\tok")
			default:
				fmt.Fprintf(out, "\t%s [%d]", r.Word, n.number(r))
			}
		}
		out.WriteString("\n")
	}
}

// writeUnused tells of openpmix's programs that are not run.
func writeUnused(out *bytes.Buffer) {
	out.WriteString("## openpmix's programs that are not run\n\n")
	for _, u := range unused {
		fmt.Fprintf(out, "- %s: %s\n", u.why, u.programs)
	}
	out.WriteString("\n")
}

// writeLeftOut says which of mpi4py's tests are not run, with whom and why.
func writeLeftOut(out *bytes.Buffer) {
	out.WriteString("## Tests of mpi4py that are left out\n\n")
	var whats []string
	who := map[string][]string{}
	for _, s := range stacks {
		byReason := map[string][]string{}
		for _, test := range slices.Sorted(maps.Keys(s.leftOut)) {
			byReason[s.leftOut[test]] = append(byReason[s.leftOut[test]], "`"+test+"`")
		}
		for _, reason := range slices.Sorted(maps.Keys(byReason)) {
			what := strings.Join(byReason[reason], ", ") + ": " + reason
			if who[what] == nil {
				whats = append(whats, what)
			}
			who[what] = append(who[what], s.name)
		}
	}
	for _, what := range whats {
		fmt.Fprintf(out, "- %s: %s.\n", strings.Join(who[what], ", "), what)
	}
}

// writeSkipped lists the tests that mpi4py's suite skipped by itself, by reason.
func writeSkipped(out *bytes.Buffer, all results) {
	out.WriteString("stack\tranks\trun\treason\tskipped\n")
	for _, s := range stacks {
		for _, p := range programs {
			r := all.of(s, p, several)
			if r == nil || r.Suite == nil || r.Suite.Ran == 0 {
				continue
			}
			for _, reason := range slices.Sorted(maps.Keys(r.Suite.Skipped)) {
				fmt.Fprintf(out, "%s\t%d\t%d\t%s\t%s\n", s.name, p.size(), r.Suite.Ran, reason, grouped(r.Suite.Skipped[reason]))
			}
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
