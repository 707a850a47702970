// Package visible makes text of others safe to show. Names of hosts, messages of ranks and agents, paths
// and versions may hold anything, and a terminal obeys what it is shown: an escape sequence clears
// the screen or rewrites the title, a carriage return hides what stands before it, a C1 control (U+009B is
// "ESC [", ECMA-48) does the same in one character that looks for bytes below 0x20 miss, and a change
// of direction (U+202E) makes one name look like another. All that shows as an escape:
//
//	"\x1b[2J" → `\u001b[2J`     U+009B → `\u009b`     a byte that is not UTF-8 → `\x9b`
//
// The functions are pure. What ranks write to their standard streams is not for them: it is passed on as
// it is. The words by which sentences count things and list names stand here too (wording.go); they make nothing visible.
package visible

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Text is s with everything escaped that is no printable character, no line end and no tab. Escapes of
// characters are those of JSON, so that a JSON text stays one of the same meaning.
func Text(s string) string { return escape(s, "\n\t") }

// Line is Text of one line: line ends and tabs are escaped too, so that no text can pretend to be
// the next line.
func Line(s string) string { return escape(s, "") }

// UTF8 is s with each byte that is no UTF-8 as its escape, and all else as it is: for texts that travel or are kept as
// UTF-8, such as protobuf's strings and JSON, which would refuse such a byte or lose it.
func UTF8(s string) string {
	if utf8.ValidString(s) {
		return s
	}

	var b strings.Builder
	for len(s) > 0 {
		c, n := utf8.DecodeRuneInString(s)
		if c == utf8.RuneError && n <= 1 {
			write(&b, c, n, s[0])
		} else {
			b.WriteString(s[:n])
		}
		s = s[n:]
	}
	return b.String()
}

func escape(s, keep string) string {
	clean := func(c rune, n int) bool {
		return strconv.IsPrint(c) && (c != utf8.RuneError || n > 1) || strings.ContainsRune(keep, c)
	}
	var b strings.Builder
	done := 0
	for i := 0; i < len(s); {
		c, n := utf8.DecodeRuneInString(s[i:])
		if !clean(c, n) {
			b.WriteString(s[done:i])
			write(&b, c, n, s[i])
			done = i + n
		}
		i += n
	}
	if done == 0 {
		return s
	}
	b.WriteString(s[done:])
	return b.String()
}

func write(b *strings.Builder, c rune, n int, first byte) {
	switch high, low := utf16.EncodeRune(c); {
	case c == utf8.RuneError && n <= 1:
		fmt.Fprintf(b, `\x%02x`, first)
	case c == '\n':
		b.WriteString(`\n`)
	case c == '\t':
		b.WriteString(`\t`)
	case c > 0xffff:
		fmt.Fprintf(b, `\u%04x\u%04x`, high, low)
	default:
		fmt.Fprintf(b, `\u%04x`, c)
	}
}

// Fprintf is fmt.Fprintf with each argument on one line and visible, as Line has it: the format is the caller's, and no argument adds a line to it.
func Fprintf(w io.Writer, format string, args ...any) (int, error) {
	return fmt.Fprintf(w, format, all(args)...)
}

// Fprintln is fmt.Fprintln, likewise.
func Fprintln(w io.Writer, args ...any) (int, error) { return fmt.Fprintln(w, all(args)...) }

// Fprint writes a text of several lines, as Text has it.
func Fprint(w io.Writer, text string) (int, error) { return io.WriteString(w, Text(text)) }

func all(args []any) []any {
	shown := make([]any, len(args))
	for i, a := range args {
		switch a.(type) {
		case bool, int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64, float32, float64:
			shown[i] = a // which a width may be, too
		default:
			shown[i] = argument{a}
		}
	}
	return shown
}

// argument is one that shows on one line, whatever the verb.
type argument struct{ is any }

func (a argument) Format(f fmt.State, verb rune) {
	_, _ = io.WriteString(f, Line(fmt.Sprintf(fmt.FormatString(f, verb), a.is))) // to memory
}

// JSON writes v as indented JSON that a terminal shows as it is.
func JSON(w io.Writer, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err == nil {
		_, err = io.WriteString(w, Text(string(text))+"\n")
	}
	return err
}

// JSONLine is v as JSON of one line, without its end, that a terminal shows as it is.
func JSONLine(v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return []byte(Line(string(text))), nil
}

// Writer passes on to w what is written, each piece made visible; pieces are whole lines, as log/slog writes them.
func Writer(w io.Writer) io.Writer { return writer{w} }

type writer struct{ io.Writer }

func (w writer) Write(p []byte) (int, error) {
	if _, err := io.WriteString(w.Writer, Text(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}
