package pattern

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Table is texts and patterns by name. Rows of a text "NAME <tab> TEXT" are texts, and rows "NAME <tab> WORDS <tab> PATTERN" patterns with their
// words (With); "#" begins what is none.
type Table struct {
	text  string
	texts func() map[string][]string
}

// TableOf is a text's, which is read when it is first asked for.
func TableOf(text string) Table {
	return Table{text, sync.OnceValue(func() map[string][]string {
		all := map[string][]string{}
		for _, c := range Rows(text, 2) {
			all[c[0]] = append(all[c[0]], c[1])
		}
		return all
	})}
}

// Texts are those of a name.
func (t Table) Texts(name string) []string { return t.texts()[name] }

// In says that a line has one of the texts of a name.
func (t Table) In(line, name string) bool {
	return slices.ContainsFunc(t.Texts(name), func(s string) bool { return strings.Contains(line, s) })
}

// Hinted is the pattern of a name, and its words.
func (t Table) Hinted(name string) func() Hinted {
	return sync.OnceValue(func() Hinted {
		words, text := t.pattern(name)
		return With(strings.Join(words, "|"), text)
	})
}

// Unhinted is the pattern of a name that has no words.
func (t Table) Unhinted(name string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp {
		_, text := t.pattern(name)
		return regexp.MustCompile(text)
	})
}

func (t Table) pattern(name string) (words []string, text string) {
	var all []string
	for _, c := range Rows(t.text, 3) {
		if c[0] != name {
			continue
		}
		if all = append(all, "(?:"+c[2]+")"); c[1] != "" {
			words = append(words, c[1])
		}
	}
	return words, strings.Join(all, "|")
}

// Rows are those of a text that have so many cells, with tabs between them.
func Rows(text string, cells int) (all [][]string) {
	for row := range strings.Lines(text) {
		if c := strings.Split(strings.TrimSuffix(row, "\n"), "\t"); row[0] != '#' && len(c) == cells {
			all = append(all, c)
		}
	}
	return all
}
