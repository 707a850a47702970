package line

import (
	"slices"
	"testing"
)

// Words end at the blanks of C, and keep every other byte.
func TestWords(t *testing.T) {
	for text, want := range map[string][]string{
		"":                                nil,
		" \t\v\f\r\n":                     nil,
		" a  b\tc\vd\fe\r\n":              {"a", "b", "c", "d", "e"},
		"caf\xe9 \xa0 \x85":               {"caf\xe9", "\xa0", "\x85"},
		"a\u00a0b c\u0085d e\u2003f \x00": {"a\u00a0b", "c\u0085d", "e\u2003f", "\x00"},
	} {
		if got := Words(text); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if got := Trim("\u00a0 \t"); got != "\u00a0" {
		t.Errorf("%q", got)
	}
}
