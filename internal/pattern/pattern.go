// Package pattern is regular expressions that cost nothing until they are used: mpiup is one binary, and most of its runs match
// none of those that read logs of failures. PURE: what it keeps follows from the text alone.
//
// A pattern may be used by any number of goroutines.
package pattern

import (
	"regexp"
	"sync"
)

// Of is the pattern of a text, compiled when it is first asked for. A text that is none panics then: each pattern needs a test
// that uses it.
func Of(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}
