package visible

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Count and its kin are how mpiup's sentences count things and list names.

// Count is "1 host", "2 hosts".
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Clip quotes foreign text for a message, cut at 40 bytes.
func Clip(s string) string {
	const most = 40
	if len(s) > most {
		return strconv.Quote(s[:most]) + "..."
	}
	return strconv.Quote(s)
}

// Colon is a text as the end of a sentence: ": text", or nothing.
func Colon(text string) string {
	if text == "" {
		return ""
	}
	return ": " + strings.TrimSpace(text)
}

// Few joins the first most of a list and counts the rest: "w0, w1 and 3 more".
func Few(list []string, most int, sep string) string {
	if more := len(list) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(list[:most], sep), more)
	}
	return strings.Join(list, sep)
}

// Short joins what of a list has room in width bytes, its first entry cut to it, and counts the rest, which comes beside: "w0, w1 and 3 more".
func Short(list []string, width int) string {
	for n := len(list); n > 1; n-- {
		if len(strings.Join(list[:n], ", ")) <= width {
			return Few(list, n, ", ")
		}
	}
	if len(list) == 0 {
		return ""
	}
	first := list[0]
	if len(first) > width {
		first = first[:width-3] + "..."
	}
	return Few(append([]string{first}, list[1:]...), 1, ", ")
}

// Wrap is words in lines of a width, with first before the first one and next before the others.
func Wrap(first, next, text string, width int) string {
	var b strings.Builder
	line, empty := first, true
	for word := range strings.FieldsSeq(text) {
		if !empty && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			b.WriteString(line + "\n")
			line, empty = next, true
		}
		if !empty {
			line += " "
		}
		line, empty = line+word, false
	}
	return b.String() + strings.TrimRight(line, " ") + "\n"
}

// Rewording is what becomes of a sentence before it is shown; nil: nothing.
type Rewording func(sentence string) string

// Sprintf is a sentence, reworded.
func (r Rewording) Sprintf(format string, args ...any) string {
	text := fmt.Sprintf(format, args...)
	if r != nil {
		text = r(text)
	}
	return text
}
