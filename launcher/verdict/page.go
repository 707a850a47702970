package verdict

import (
	"fmt"
	"strings"
)

// Page is docs/troubleshooting.md: a section for each kind.
func Page() string {
	var b strings.Builder
	b.WriteString(`# Troubleshooting: what ended the job

When a job fails, the last lines of ` + "`mpiup run`" + ` say which rank on which host ended it and why, and end with the name of a section of
this page. ` + "`mpiup help NAME`" + ` prints one, and ` + "`mpiup verdict FILE`" + ` reads logs of any launcher and
names kind and rank. This page is made of the table that mpiup itself uses (` + "`launcher/verdict`" + `).

| name | what |
|---|---|
`)
	for _, k := range Kinds {
		fmt.Fprintf(&b, "| [%s](#%s) | %s |\n", k.Kind, k.Kind, k.Title)
	}
	for _, k := range Kinds {
		b.WriteString("\n" + k.Section())
	}
	return b.String()
}

// Section is the part of the page that is about one kind.
func (a About) Section() string {
	var b strings.Builder
	fmt.Fprintf(&b, "## %s\n\n**%s.** %s\n\nHow to tell:\n\n", a.Kind, a.Title, a.Means)
	for _, t := range a.Tell {
		fmt.Fprintf(&b, "- %s\n", t)
	}
	b.WriteString("\nWhat to do:\n\n")
	for i, t := range a.Do {
		fmt.Fprintf(&b, "%d. %s\n", i+1, t)
	}
	return b.String()
}

// plain is a sentence of the page as a line of mpiup's: without marks, and as the part of a sentence that it is there.
func plain(text string) string {
	text = strings.TrimSuffix(strings.ReplaceAll(text, "`", ""), ".")
	if first, rest, ok := strings.Cut(text, " "); ok && first != strings.ToUpper(first) && strings.ToLower(first[1:]) == first[1:] {
		return strings.ToLower(first) + " " + rest
	}
	return text
}
