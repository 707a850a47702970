// Package pattern is regular expressions that cost nothing until they are used: mpiup is one binary, and most of its runs match
// none of those that read logs of failures. PURE: what it keeps follows from the text alone.
//
// A pattern may be used by any number of goroutines. Words are texts that are looked for at once, and Twins finds lines that differ in their
// numbers alone.
package pattern

import (
	"regexp"
	"strings"
	"sync"
)

// Of is the pattern of a text, compiled when it is first asked for. A text that is none panics then: each pattern needs a test
// that uses it.
func Of(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}

// Hinted is a pattern that only texts with one of its words match. Most texts have none, and are not matched against it.
type Hinted struct {
	words []string
	heads string
	of    func() *regexp.Regexp
}

// With is the pattern of a text, and its words with "|" between them: in small letters, of which a text has the first as either letter, and all
// others small or all large. A word "^abc" is that a text begins with one of these letters.
func With(words, text string) Hinted {
	h := Hinted{of: Of(text)}
	for word := range strings.SplitSeq(words, "|") {
		if heads, ok := strings.CutPrefix(word, "^"); ok {
			h.heads = heads
			continue
		}
		small, large := word, strings.ToUpper(word)
		if word[0] >= 'a' && word[0] <= 'z' {
			small, large = word[1:], large[1:]
		}
		if h.words = append(h.words, small); small != large {
			h.words = append(h.words, large)
		}
	}
	return h
}

// In is the pattern where a text has one of the words, else nil.
func (h Hinted) In(text string) *regexp.Regexp {
	if h.heads != "" && text != "" && strings.IndexByte(h.heads, text[0]) >= 0 {
		return h.of()
	}
	for _, word := range h.words {
		if strings.Contains(text, word) {
			return h.of()
		}
	}
	return nil
}

// Match says whether it matches a text.
func (h Hinted) Match(text string) bool {
	re := h.In(text)
	return re != nil && re.MatchString(text)
}

// Find is what its groups match in a text; nil: it matches none.
func (h Hinted) Find(text string) []string {
	if re := h.In(text); re != nil {
		return re.FindStringSubmatch(text)
	}
	return nil
}
