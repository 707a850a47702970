// Package idset is a set of small non-negative numbers: CPU lists as the kernel writes them
// and sets of ranks.
//
//	"0-3,8"   →   {0, 1, 2, 3, 8}        ""   →   {}
//	list  = [ range { "," range } ]      range = id [ "-" id ]
//
// The text that String gives is canonical (ascending, ranges as long as possible, a pair of
// neighbours is a range too), so equal sets have equal text and the text may serve as a key.
// Parse takes any order and overlap, as the kernel's bitmap_parselist does
// (lib/bitmap-str.c), without its "N-M:used/group" strides, which it never prints.
//
// A Set is a bit map of up to MaxID+1 bits (128 KiB). It is not safe for concurrent change;
// concurrent reading is. Copies of a Set share their bits: use Clone before changing one.
//
// PURE. It does not hold hosts, negative numbers or anything with gaps in the millions.
package idset

import (
	"iter"
	"math/bits"
	"slices"
)

// MaxID is the largest number a set can hold.
const MaxID = 1<<20 - 1

const wordBits = 64

// Set is a set of numbers from 0 to MaxID. The zero Set is empty and ready for use.
type Set struct {
	words []uint64 // bit id%64 of word id/64
}

// Of is the set of ids. It panics as Add does.
func Of(ids ...int) Set {
	var s Set
	for _, id := range ids {
		s.Add(id)
	}
	return s
}

// Possible is the set of those ids that one can hold: numbers from outside may be none.
func Possible(ids ...int) (s Set) {
	for _, id := range ids {
		if id >= 0 && id <= MaxID {
			s.Add(id)
		}
	}
	return s
}

// Range is the set lo, lo+1 ... hi, empty if hi < lo. It panics as Add does.
func Range(lo, hi int) Set {
	var s Set
	if lo <= hi {
		s.addRange(lo, hi)
	}
	return s
}

// Add puts id into the set. It panics if id is negative or above MaxID, as an index out of
// range does: numbers from outside come in through Parse and Within.
func (s *Set) Add(id int) { s.addRange(id, id) }

func (s *Set) addRange(lo, hi int) {
	if lo < 0 || hi > MaxID {
		panic("idset: number out of range")
	}
	if need := hi/wordBits + 1; need > len(s.words) {
		s.words = append(s.words, make([]uint64, need-len(s.words))...)
	}
	first, last := lo/wordBits, hi/wordBits
	for w := first; w <= last; w++ {
		mask := ^uint64(0)
		if w == first {
			mask &= ^uint64(0) << (lo % wordBits)
		}
		if w == last {
			mask &= ^uint64(0) >> (wordBits - 1 - hi%wordBits)
		}
		s.words[w] |= mask
	}
}

// Contains reports whether id is in the set; a number out of range never is.
func (s Set) Contains(id int) bool {
	return id >= 0 && id/wordBits < len(s.words) && s.words[id/wordBits]>>(id%wordBits)&1 == 1
}

// Len is how many numbers the set holds.
func (s Set) Len() int {
	n := 0
	for _, w := range s.words {
		n += bits.OnesCount64(w)
	}
	return n
}

// Empty reports whether the set holds nothing.
func (s Set) Empty() bool {
	return !slices.ContainsFunc(s.words, func(w uint64) bool { return w != 0 })
}

// Equal reports whether both sets hold the same numbers.
func (s Set) Equal(t Set) bool {
	return slices.Equal(s.trimmed(), t.trimmed())
}

func (s Set) trimmed() []uint64 {
	n := len(s.words)
	for n > 0 && s.words[n-1] == 0 {
		n--
	}
	return s.words[:n]
}

// Covers reports whether every number of t is in s.
func (s Set) Covers(t Set) bool {
	for i, w := range t.words {
		if i >= len(s.words) {
			if w != 0 {
				return false
			}
		} else if w&^s.words[i] != 0 {
			return false
		}
	}
	return true
}

// Overlaps reports whether some number is in both sets.
func (s Set) Overlaps(t Set) bool {
	for i := range min(len(s.words), len(t.words)) {
		if s.words[i]&t.words[i] != 0 {
			return true
		}
	}
	return false
}

// First is the smallest number of the set; -1 of an empty one.
func (s Set) First() int {
	for i, w := range s.words {
		if w != 0 {
			return i*wordBits + bits.TrailingZeros64(w)
		}
	}
	return -1
}

// Last is the largest number of the set; -1 of an empty one.
func (s Set) Last() int {
	words := s.trimmed()
	if len(words) == 0 {
		return -1
	}
	return len(words)*wordBits - 1 - bits.LeadingZeros64(words[len(words)-1])
}

// All yields the numbers in ascending order.
func (s Set) All() iter.Seq[int] {
	return func(yield func(int) bool) {
		for i, w := range s.words {
			for ; w != 0; w &= w - 1 {
				if !yield(i*wordBits + bits.TrailingZeros64(w)) {
					return
				}
			}
		}
	}
}

// Slice is the numbers in ascending order.
func (s Set) Slice() []int { return slices.AppendSeq(make([]int, 0, s.Len()), s.All()) }

// Clone is a copy that shares nothing with s.
func (s Set) Clone() Set { return Set{words: slices.Clone(s.words)} }

// Union is a new set: what is in any of some.
func Union(sets ...Set) (all Set) {
	for _, s := range sets {
		all = all.Union(s)
	}
	return all
}

// Union is a new set: what is in s, in t or in both.
func (s Set) Union(t Set) Set {
	if len(s.words) < len(t.words) {
		s, t = t, s
	}
	u := s.Clone()
	for i, w := range t.words {
		u.words[i] |= w
	}
	return u
}

// Intersect is a new set: what is in both s and t.
func (s Set) Intersect(t Set) Set {
	if len(s.words) > len(t.words) {
		s, t = t, s
	}
	u := s.Clone()
	for i := range u.words {
		u.words[i] &= t.words[i]
	}
	return u
}

// Sub is a new set: what is in s and not in t.
func (s Set) Sub(t Set) Set {
	u := s.Clone()
	for i := range min(len(u.words), len(t.words)) {
		u.words[i] &^= t.words[i]
	}
	return u
}
