// Package docs is the pages of this directory that a user needs beside the program, for mpiup help.
package docs

import (
	"embed"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Pages about how mpiup is built, measured and tested stay out: they are half of all bytes.
//
//go:embed admin.md binding.md check-image.md doctor.md environment.md exit-codes.md frameworks.md from.md gpu.md guide.md hangs.md horovodrun.md hosts.md kubectl.md monitoring.md mpirun.md platform.md preemption.md progress.md record.md report.md restart.md security.md slow.md start.md telemetry.md topology.md torchrun.md trainjob.md troubleshooting.md up.md versions.md
var pages embed.FS

// Advice is what to do by the words of an error, kind by kind: launcher/verdict reads it.
//
//go:embed data/advice.tsv
var Advice string

// Page is one of them.
type Page struct {
	Name  string // "exit-codes"
	Title string
	Text  string // Markdown
}

// Pages are all, by name.
func Pages() []Page {
	names, err := fs.Glob(pages, "*.md")
	if err != nil { // the pattern is a constant
		return nil
	}
	var list []Page
	for _, n := range names {
		text, err := pages.ReadFile(n)
		if err != nil {
			continue
		}
		title, _, _ := strings.Cut(strings.TrimPrefix(string(text), "# "), "\n")
		list = append(list, Page{Name: strings.TrimSuffix(path.Base(n), ".md"), Title: title, Text: string(text)})
	}
	slices.SortFunc(list, func(a, b Page) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// Section is the part of a page below a heading of the second level.
func (p Page) Section(heading string) (string, bool) {
	begin := "\n## " + heading + "\n"
	_, after, ok := strings.Cut(p.Text, begin)
	if !ok {
		return "", false
	}
	text, _, _ := strings.Cut(after, "\n## ")
	return begin[1:] + strings.TrimRight(text, "\n") + "\n", true
}
