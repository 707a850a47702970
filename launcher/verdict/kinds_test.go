package verdict

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/test/golden"
)

// The page is the table: go test -update writes it anew.
func TestPage(t *testing.T) { golden.Is(t, "../../docs/troubleshooting.md", page()) }

// Each kind says what it means, how to tell and what to do, under a name that a heading's link can have.
func TestKinds(t *testing.T) {
	seen := map[Kind]bool{}
	for _, k := range Kinds {
		if seen[k.Kind] || !regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`).MatchString(string(k.Kind)) {
			t.Errorf("%q is no name, or there twice", k.Kind)
		}
		seen[k.Kind] = true
		if k.Title == "" || !strings.HasSuffix(k.Means, ".") || len(k.Tell) == 0 || len(k.Do) == 0 {
			t.Errorf("%s lacks something: %+v", k.Kind, k)
		}
	}
	if Of("none").Title != "" || Of(Segfault).Kind != Segfault {
		t.Error("Of finds what is not there, or not what is")
	}
}

// page is docs/troubleshooting.md: a section for each kind.
func page() string {
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
		b.WriteString("\n" + section(k))
	}
	return b.String()
}

// section is the part of the page that is about one kind.
func section(a About) string {
	var b strings.Builder
	fmt.Fprintf(&b, "## %s\n\n**%s.** %s\n\nHow to tell:\n\n", a.Kind, a.Title, a.Means)
	for _, t := range a.Tell {
		fmt.Fprintf(&b, "- %s\n", t)
	}
	b.WriteString("\nWhat to do:\n\n")
	list := slices.Clone(a.Do)
	for i, w := range whens[a.Kind] {
		if at := len(list); w.last {
			list = append(list, w.do)
		} else {
			list = slices.Insert(list, min(i, at), w.do)
		}
	}
	for i, t := range list {
		fmt.Fprintf(&b, "%d. %s\n", i+1, t)
	}
	return b.String()
}
