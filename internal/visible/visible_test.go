package visible

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/mpiup/mpiup/test/cost"
)

func TestEscapes(t *testing.T) {
	for _, tt := range []struct{ name, text, line, want string }{
		{"plain", "host w-1: größer ✓", "host w-1: größer ✓", "host w-1: größer ✓"},
		{"empty", "", "", ""},
		{"escape", "\x1b[2Jx", `\u001b[2Jx`, `\u001b[2Jx`},
		{"C1 in UTF-8", "a\u009b31mred", `a\u009b31mred`, `a\u009b31mred`},
		{"C1 as a byte", "a\x9b31m", `a\x9b31m`, `a\x9b31m`},
		{"backspace and delete", "ab\b\x7f", `ab\u0008\u007f`, `ab\u0008\u007f`},
		{"return", "good\rbad", `good\u000dbad`, `good\u000dbad`},
		{"direction", "a\u202eb\u2028c", `a\u202eb\u2028c`, `a\u202eb\u2028c`},
		{"above 16 bits", "\U000e0001", `\udb40\udc01`, `\udb40\udc01`},
		{"the replacement character itself", "\ufffd", "\ufffd", "\ufffd"},
		{"lines", "a\n\tb", `a\n\tb`, "a\n\tb"},
		{"cut off", "a\xe2\x82", `a\xe2\x82`, `a\xe2\x82`},
	} {
		if got := Line(tt.text); got != tt.line {
			t.Errorf("%s: Line is %q, want %q", tt.name, got, tt.line)
		}
		if got := Text(tt.text); got != tt.want {
			t.Errorf("%s: Text is %q, want %q", tt.name, got, tt.want)
		}
	}
}

func FuzzText(f *testing.F) {
	f.Add("\x1b]0;title\x07\u009b31m\x9b")
	f.Fuzz(func(t *testing.T, s string) {
		defer cost.Watch(t, cost.Parser, len(s))()
		got := Line(s)
		if strings.ContainsFunc(got, func(c rune) bool { return !unicode.IsPrint(c) }) || !utf8.ValidString(got) {
			t.Errorf("%q became %q", s, got)
		}
		if len(got) > 6*len(s) || Line(got) != got {
			t.Errorf("%q became %q of %d bytes, and that %q", s, got, len(got), Line(got))
		}
		b, _ := json.Marshal(s)
		var back string
		if err := json.Unmarshal([]byte(Text(string(b))), &back); err != nil || back != strings.ToValidUTF8(s, back[:0]) && utf8.ValidString(s) {
			t.Errorf("JSON of %q: %q, %v", s, back, err)
		}
	})
}

// No argument adds a line or an escape, whatever its type and verb; numbers keep their widths.
func TestFprintf(t *testing.T) {
	const evil = "x\n\x1b[2J\u009b\u202e\r\ty"
	const shown = `x\n\u001b[2J\u009b\u202e\u000d\ty`
	for _, tt := range []struct {
		format string
		arg    any
		want   string
	}{
		{"%s|", evil, shown + "|"}, {"%v|", errors.New(evil), shown + "|"}, {"%v|", []string{evil}, "[" + shown + "]|"}, {"%.1s|", evil, "x|"}, {"%5d|", 7, "    7|"},
		{"%-3v|\n", 7, "7  |\n"}, {"%v", struct{ Text string }{evil}, "{" + shown + "}"}, {"%x", []byte("a\n"), "610a"}, {"%v", nil, "<nil>"}, {"%6.2f", 1.5, "  1.50"},
	} {
		var b strings.Builder
		if _, err := Fprintf(&b, tt.format, tt.arg); err != nil || b.String() != tt.want {
			t.Errorf("%q of %q is %q, %v; want %q", tt.format, tt.arg, b.String(), err, tt.want)
		}
	}
	var b strings.Builder
	if _, err := Fprintln(&b, "a", evil, 7); err != nil || b.String() != "a "+shown+" 7\n" {
		t.Errorf("%q, %v", b.String(), err)
	}
	b.Reset()
	if _, err := Fprint(&b, evil); err != nil || b.String() != "x\n"+`\u001b[2J\u009b\u202e\u000d`+"\ty" {
		t.Errorf("%q, %v", b.String(), err)
	}
}

// Text that is kept as UTF-8 loses no byte, and no character of it changes.
func TestUTF8(t *testing.T) {
	for text, want := range map[string]string{"": "", "é\n\x1b": "é\n\x1b", "caf\xe9": `caf\xe9`, "\xff\xfeA\xc3": `\xff\xfeA\xc3`, "\uFFFD": "\uFFFD"} {
		if got := UTF8(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
