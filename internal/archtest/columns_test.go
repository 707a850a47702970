package archtest

import (
	"bytes"
	"testing"
	"unicode/utf8"
)

// maxColumns is how long a line may be; a tab counts as one.
const maxColumns = 160

// wideLines are the lines of product code that are longer, rounded up to ten: rows of tables, for the most part. The number only falls.
var wideLines = pile{"product code": 80}

// wide is how many lines of a text are longer than maxColumns.
func wide(text []byte) (n int) {
	for line := range bytes.Lines(text) {
		if utf8.RuneCount(bytes.TrimRight(line, "\n")) > maxColumns {
			n++
		}
	}
	return n
}

// A line that does not fit on a screen is not read to its end: a composite literal has one field a line, a condition with many parts has a name.
func TestLinesAreShort(t *testing.T) {
	n := 0
	eachFile(t, func(path string, text []byte) {
		if !generated.Match(text) && !under(path, "test") {
			n += wide(text)
		}
	})
	report(t, hold(pile{"product code": (n + 9) / 10 * 10}, wideLines, 0, "lines of more than 160 columns"))
}

func TestWideLinesAreSeen(t *testing.T) {
	fits := bytes.Repeat([]byte("ä"), maxColumns)
	if n := wide(append(append(append([]byte{}, fits...), "\nx"...), append(fits, '\n')...)); n != 1 {
		t.Errorf("%d of 2 lines are too long, of which one is", n)
	}
}
