package bfrops

import (
	"bytes"
	"fmt"
	"math"
)

const (
	maxDepth  = 16
	maxValues = 1 << 18 // of one message: a group of all ranks of a large job, and room
)

// Reader unpacks the groups of one client's message. Its first error, a *SyntaxError, sticks,
// and everything after it is a zero value: read all, then look at Err.
type Reader struct {
	d      *Dialect
	desc   bool
	b      []byte // the rest
	length int
	values int // so far
	depth  int
	err    error
}

// NewReader reads b, which it keeps and strings and bytes are copied from.
func NewReader(d *Dialect, desc bool, b []byte) *Reader {
	return &Reader{d: d, desc: desc, b: b, length: len(b)}
}

// Sub reads groups that came as a value of r's message: b is NON_DESC or FULLY_DESC by itself.
func (r *Reader) Sub(b Buffer) *Reader { return NewReader(r.d, b.Desc, b.Data) }

// Err is the first error.
func (r *Reader) Err() error { return r.err }

// More says whether anything is left to read.
func (r *Reader) More() bool { return r.err == nil && len(r.b) > 0 }

// One unpacks a group of one value.
func (r *Reader) One(t Type) any {
	if n := r.begin(t); n != 1 {
		r.fail("%d values of %s where one is expected", n, t)
		return nil
	}
	return r.value(t)
}

// One unpacks a group of one value as its Go type.
func One[T any](r *Reader, t Type) T {
	v, _ := r.One(t).(T)
	return v
}

// Group unpacks a group of n values as their Go type.
func Group[T any](r *Reader, t Type, n int) []T {
	if n == 0 {
		return nil
	}
	if count := r.begin(t); count != n {
		r.fail("%d values of %s where %d were announced", count, t, n)
		return nil
	}
	return list[T](r, t, n)
}

// Counted unpacks a SIZE and, if it is not zero, so many values.
func Counted[T any](r *Reader, t Type) []T {
	n := r.Count()
	return Group[T](r, t, n)
}

// Count unpacks one SIZE that announces values.
func (r *Reader) Count() int {
	n := One[uint64](r, Size)
	return r.fits(n)
}

// Infos unpacks what Writer.Infos packs.
func (r *Reader) Infos() []Info { return Counted[Info](r, InfoType) }

func (r *Reader) begin(t Type) int {
	if r.desc {
		r.expect(Int32)
	}
	n := r.signed(32)
	if r.desc {
		r.expect(t)
	}
	if n < 0 {
		r.fail("a group of %d values", n)
		return 0
	}
	return r.fits(uint64(n))
}

func (r *Reader) expect(t Type) {
	if got := r.tag(); got != t {
		r.fail("a group of %s where %s is expected", got, t)
	}
}

func (r *Reader) tag() Type { return Type(r.unsigned(16)) }

// fits refuses a count that the rest of the message cannot hold: no value is shorter than a byte.
func (r *Reader) fits(n uint64) int {
	if n > uint64(len(r.b)) || n > maxValues {
		r.fail("%d values announced, %d bytes left", n, len(r.b))
		return 0
	}
	return int(n)
}

func (r *Reader) take(n uint64) []byte {
	if r.err != nil || n > uint64(len(r.b)) {
		r.fail("%d bytes expected, %d left", n, len(r.b))
		return nil
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

// text reads a string; null is C's NULL.
func (r *Reader) text() (s string, null bool) {
	n := r.signed(32)
	if n == 0 || r.err != nil {
		return "", true
	}
	if n < 0 || n > math.MaxInt32 {
		r.fail("a string of %d bytes", n)
		return "", true
	}
	b := r.take(uint64(n))
	if len(b) == 0 || bytes.IndexByte(b, 0) != len(b)-1 {
		r.fail("a string without one NUL at its end")
		return "", true
	}
	return string(b[:len(b)-1]), false
}

func (r *Reader) str() string {
	s, _ := r.text()
	return s
}

func (r *Reader) size() uint64 {
	if !r.d.flex {
		if t := r.tag(); t != Uint64 {
			r.fail("a size as %s", t)
		}
	}
	return r.unsigned(64)
}

func (r *Reader) bytes() []byte { return bytes.Clone(r.take(r.size())) }

func (r *Reader) tagged() Value {
	t := r.tag()
	return Value{t, r.value(t)}
}

func (r *Reader) value(t Type) any {
	if r.err != nil {
		return nil
	}
	if int(t) >= len(rules) || !r.d.Knows(t) {
		r.fail("a value of %s, which is not part of dialect %s here", t, r.d.Name)
		return nil
	}
	if r.depth++; r.depth > maxDepth {
		r.fail("values nested deeper than %d", maxDepth)
	}
	if r.values++; r.values > maxValues {
		r.fail("more than %d values", maxValues)
	}
	v := rules[t].get(r)
	r.depth--
	if r.err != nil {
		return nil
	}
	return v
}

func list[T any](r *Reader, t Type, n int) []T {
	out := make([]T, 0, min(n, 64))
	for range n {
		v := r.value(t)
		if r.err != nil {
			return nil
		}
		x, _ := v.(T)
		out = append(out, x)
	}
	return out
}

func (r *Reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = &SyntaxError{fmt.Sprintf(format, args...), r.length - len(r.b)}
	}
}
