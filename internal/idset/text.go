package idset

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/mpiup/mpiup/internal/visible"
)

// MaxText is the longest text Parse takes, in bytes. Every Set's own text is shorter.
const MaxText = 4 << 20

// String is the canonical text, "0-3,8"; "" for the empty set.
func (s Set) String() string {
	var b []byte
	lo, prev := -1, -1
	flush := func() {
		if lo < 0 {
			return
		}
		if len(b) > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(lo), 10)
		if prev > lo {
			b = append(b, '-')
			b = strconv.AppendInt(b, int64(prev), 10)
		}
	}
	for id := range s.All() {
		if lo < 0 || id != prev+1 {
			flush()
			lo = id
		}
		prev = id
	}
	flush()
	return string(b)
}

// Named is the set with what its numbers are: "rank 3", "ranks 0-2,7".
func (s Set) Named(noun string) string {
	if s.Len() != 1 {
		noun += "s"
	}
	return noun + " " + s.String()
}

// Parse reads a list as String and the kernel write it. White space around the whole list is
// ignored, for kernel files end in a newline; the empty text is the empty set. Its cost is linear in
// the text and MaxID: a list whose ranges name more than twice as many numbers as there are is an error.
// Seven bytes may make a set of 128 KiB, so a stranger's text is for Within.
func Parse(text string) (Set, error) { return Within(text, MaxID+1) }

// Within is Parse of a stranger's text, whose numbers have to be below n: the set has n bits at most, whatever the text
// says. A larger number is an error.
func Within(text string, n int) (Set, error) {
	var s Set
	most := min(n-1, MaxID)
	if limit := min(16*(most+1)+64, MaxText); len(text) > limit { // no number needs as much
		return s, fmt.Errorf("number list of %d bytes is longer than %d", len(text), limit)
	}
	text = strings.TrimSpace(text)
	if text == "" {
		return s, nil
	}
	named := 0
	for part := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(part, "-")
		lo, err := parseID(first, most)
		hi := lo
		if err == nil && isRange {
			hi, err = parseID(last, most)
		}
		if err != nil {
			return Set{}, fmt.Errorf("number list %s: %w", visible.Clip(text), err)
		}
		if hi < lo {
			return Set{}, fmt.Errorf("number list %s: range %d-%d runs backwards", visible.Clip(text), lo, hi)
		}
		if named += hi - lo + 1; named > 2*(most+1) {
			return Set{}, fmt.Errorf("number list %s: the same numbers again and again", visible.Clip(text))
		}
		s.addRange(lo, hi)
	}
	return s, nil
}

// parseID takes decimal digits only: no sign, no space, no 0x.
func parseID(digits string, most int) (int, error) {
	id, err := strconv.ParseUint(digits, 10, 64)
	switch {
	case digits == "":
		return 0, errors.New("a number is missing")
	case err != nil && id == 0:
		return 0, fmt.Errorf("%s is not a number", visible.Clip(digits))
	case most < 0:
		return 0, fmt.Errorf("%s, where there is none", visible.Clip(digits))
	case id > uint64(most): // the largest of all where there are too many digits
		return 0, fmt.Errorf("%s is above %d", visible.Clip(digits), most)
	}
	return int(id), nil
}

// ParseMask reads a bit mask as the kernel prints one ("%*pb", lib/vsprintf.c): hexadecimal
// words of 32 bits with commas between them, the highest first.
func ParseMask(text string) (Set, error) {
	text = strings.TrimSpace(text)
	if len(text) > MaxText {
		return Set{}, fmt.Errorf("bit mask of %d bytes is longer than %d", len(text), MaxText)
	}
	var s Set
	base, rest := 0, text
	for {
		comma := strings.LastIndexByte(rest, ',')
		word := rest[comma+1:]
		bits, err := strconv.ParseUint(word, 16, 32)
		if err != nil {
			return Set{}, fmt.Errorf("bit mask %s: %s is not a hexadecimal word of 32 bits", visible.Clip(text), visible.Clip(word))
		}
		for i := range 32 {
			if bits>>i&1 == 0 {
				continue
			}
			if base+i > MaxID {
				return Set{}, fmt.Errorf("bit mask %s: bit %d is above %d", visible.Clip(text), base+i, MaxID)
			}
			s.Add(base + i)
		}
		if comma < 0 {
			return s, nil
		}
		base, rest = base+32, rest[:comma]
	}
}
