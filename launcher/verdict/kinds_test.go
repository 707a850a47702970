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
func TestPage(t *testing.T) {
	golden.Is(t, "../../docs/troubleshooting.md", page())
}

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

The last lines of a failed ` + "`mpiup run`" + ` name rank, host, cause and a section of this page. ` + "`mpiup help NAME`" + ` prints one.
` + "`mpiup why FILE`" + ` reads logs of any launcher. This page is made from the table that mpiup itself uses (` + "`launcher/verdict`" + `).
Each section says what it means, its signs, and what to do, the likeliest first.
`)
	for _, k := range Kinds {
		b.WriteString("\n" + section(k))
	}
	return b.String()
}

// many is from how many on conditional advice is in data/advice.tsv alone, where a run picks from.
const many = 6

// section is the part of the page that is about one kind.
func section(a About) string {
	var b strings.Builder
	fmt.Fprintf(&b, "## %s\n\n**%s.** %s\n\n%s\n\n", a.Kind, a.Title, a.Means, strings.Join(a.Tell, " "))
	list := slices.Clone(a.Do)
	for i, w := range whens()[a.Kind] {
		switch at := len(list); {
		case len(whens()[a.Kind]) >= many:
		case w.order == orderLast:
			list = append(list, w.do)
		default:
			list = slices.Insert(list, min(i, at), w.do)
		}
	}
	if len(whens()[a.Kind]) >= many {
		list = append(list, "`mpiup why FILE` picks what fits the error's words; [data/advice.tsv](data/advice.tsv) has all.")
	}
	for i, t := range list {
		fmt.Fprintf(&b, "%d. %s\n", i+1, t)
	}
	return b.String()
}
