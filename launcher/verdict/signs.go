package verdict

import (
	"cmp"
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Sign is one way to say one kind of failure.
type Sign struct {
	Kind   Kind // "": what looks like a failure and is none
	Text   string
	Likely bool // it is probably this kind, and may be another
	// General says that its words are so general that all else is believed first. It is Likely.
	General bool
	weight  *Weight
	parts   []string
	grams   []uint16 // of the longest part: texts without them are passed over
}

// Weight is how much it explains: its kind's, unless the sign is a lesser one.
func (s Sign) Weight() Weight {
	if s.weight != nil {
		return *s.weight
	}
	return Of(s.Kind).Weight
}

// knows says that all parts are in a text in lower case, in their order. A number in a sign is a whole one: signal 1 is not signal 11.
func (s *Sign) knows(lower string) bool {
	for _, part := range s.parts {
		for {
			_, after, ok := strings.Cut(lower, part)
			if !ok {
				return false
			}
			lower = after
			if !digit(part[max(len(part)-1, 0):]) || !digit(lower[:min(len(lower), 1)]) {
				break
			}
		}
	}
	return true
}

func digit(s string) bool { return s != "" && s[0] >= '0' && s[0] <= '9' }

// Recognise is the first sign that knows a text.
func Recognise(text string) (*Sign, bool) {
	lower := strings.ToLower(text)
	if strings.TrimSpace(lower) == "" {
		return nil, false // before the table is read, for a rank that said nothing is to be told of soon
	}
	var in [grams / 64]uint64
	for i := range len(lower) - 2 {
		g := gram(lower[i:])
		in[g/64] |= 1 << (g % 64)
	}
	all := Signs()
	for i := range all {
		s := &all[i]
		if !slices.ContainsFunc(s.grams, func(g uint16) bool { return in[g/64]&(1<<(g%64)) == 0 }) && s.knows(lower) {
			return s, s.Kind != ""
		}
	}
	return nil, false
}

// grams is how many sets of three bytes are told apart: most lines have none of most signs' bytes, and logs are long.
const grams = 1 << 12

func gram(s string) uint16 { return (uint16(s[0])*961 + uint16(s[1])*31 + uint16(s[2])) % grams }

// gramsOf is three of the longest part's.
func gramsOf(parts []string) (list []uint16) {
	longest := slices.MaxFunc(parts, func(a, b string) int { return cmp.Compare(len(a), len(b)) })
	if last := len(longest) - 3; last >= 0 {
		list = []uint16{gram(longest), gram(longest[last/2:]), gram(longest[last:])}
	}
	return list
}

//go:embed signs.txt
var signsText string

// Signs is the table. The first sign that knows a line counts, so that special ones stand above general ones.
var Signs = sync.OnceValue(func() []Sign {
	all, err := readSigns(signsText)
	if err != nil { // as the tests would have seen
		panic(err)
	}
	return all
})

// readSigns takes the table's text apart, whose first lines say how it is written.
func readSigns(text string) (all []Sign, err error) {
	var of Sign
	n := 0
	for row := range strings.Lines(text) {
		n++
		row = strings.TrimSuffix(row, "\n")
		if row == "" || row[0] == '#' {
			continue
		}
		if head, ok := strings.CutPrefix(row, "= "); ok {
			if of, err = readHead(head); err != nil {
				return nil, fmt.Errorf("signs.txt:%d: %w", n, err)
			}
			continue
		}
		if row[0] == '"' {
			if row, err = strconv.Unquote(row); err != nil {
				return nil, fmt.Errorf("signs.txt:%d: %w", n, err)
			}
		}
		s, text, guess := of, strings.TrimPrefix(row, "?"), row[0] == '?'
		s.Text, s.Likely, s.parts = text, of.Likely || guess, strings.Split(strings.ToLower(text), "*")
		s.grams = gramsOf(s.parts)
		all = append(all, s)
	}
	return all, nil
}

// readHead reads "KIND [WEIGHT] [probably|general]".
func readHead(head string) (of Sign, err error) {
	words := strings.Fields(head)
	if k := Kind(words[0]); Of(k).Title != "" {
		of.Kind = k
	} else if words[0] != "none" {
		return of, fmt.Errorf("%q is no kind", words[0])
	}
	for _, word := range words[1:] {
		w, ok := weights[word]
		switch {
		case word == "probably", word == "general":
			of.Likely, of.General = true, word == "general"
		case ok:
			of.weight = &w
		default:
			return of, fmt.Errorf("%q is no weight", word)
		}
	}
	return of, nil
}

var weights = map[string]Weight{"echo": Echo, "wait": Wait, "ending": Ending, "program": Program, "cause": Cause}
