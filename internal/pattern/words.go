package pattern

import (
	"cmp"
	"math/bits"
	"slices"
	"strings"
)

// Words are texts to look for, in small letters, each of which may have "*" between parts. They are looked for at once: of each a text must have
// three bytes first, which few have.
type Words struct {
	all   [][]string
	other [][2]uint16        // two more sets of three bytes that a text must have, of each
	by    [grams + 1][]int32 // the numbers of those with such a first set, the last of those with no part of three bytes
}

// grams is how many sets of three bytes are told apart.
const grams = 1 << 12

func gram(s string) uint16 { return (uint16(s[0])*961 + uint16(s[1])*31 + uint16(s[2])) % grams }

// Looked makes words of texts.
func Looked(texts []string) *Words {
	w := &Words{}
	for i, text := range texts {
		parts := strings.Split(text, "*")
		longest := slices.MaxFunc(parts, func(a, b string) int { return cmp.Compare(len(a), len(b)) })
		list := []uint16{grams}
		if last := len(longest) - 3; last >= 0 {
			list = []uint16{gram(longest), gram(longest[last/2:]), gram(longest[last:])}
			slices.SortStableFunc(list, func(a, b uint16) int { return cmp.Compare(len(w.by[a]), len(w.by[b])) })
		}
		w.all, w.other = append(w.all, parts), append(w.other, [2]uint16{list[len(list)/2], list[len(list)-1]})
		w.by[list[0]] = append(w.by[list[0]], int32(i))
	}
	return w
}

// First is the number of the first of them that a text in small letters has; -1: it has none.
func (w *Words) First(text string) int {
	var in [grams/64 + 1]uint64
	in[grams/64] = 1
	for i := range len(text) - 2 {
		g := gram(text[i:])
		in[g/64] |= 1 << (g % 64)
	}
	has := func(g uint16) bool { return in[g/64]&(1<<(g%64)) != 0 }
	first := len(w.all)
	for at, set := range in {
		for ; set != 0; set &= set - 1 {
			for _, i := range w.by[at*64+bits.TrailingZeros64(set)] {
				if int(i) >= first {
					break
				}
				if o := w.other[i]; has(o[0]) && has(o[1]) && stands(w.all[i], text) {
					first = int(i)
				}
			}
		}
	}
	if first == len(w.all) {
		return -1
	}
	return first
}

// stands says that all parts are in a text, in their order. A number in a part is a whole one: signal 1 is not signal 11.
func stands(parts []string, text string) bool {
	for _, part := range parts {
		for {
			_, after, ok := strings.Cut(text, part)
			if !ok {
				return false
			}
			text = after
			if !digit(part[max(len(part)-1, 0):]) || !digit(text[:min(len(text), 1)]) {
				break
			}
		}
	}
	return true
}

func digit(s string) bool { return s != "" && s[0] >= '0' && s[0] <= '9' }
