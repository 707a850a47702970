package bfrops

import (
	"encoding/binary"
	"math/bits"
)

// maxVarint is the length of 2^64-1: eight bytes of seven bits and one of eight.
const maxVarint = 9

// appendUvarint is the flex encoding of n.
func appendUvarint(b []byte, n uint64) []byte {
	for range maxVarint - 1 {
		if n < 0x80 {
			return append(b, byte(n))
		}
		b = append(b, byte(n)|0x80)
		n >>= 7
	}
	return append(b, byte(n))
}

// uvarint reads what appendUvarint wrote; size is 0 when b is cut short.
func uvarint(b []byte) (n uint64, size int) {
	for i := 0; i < len(b) && i < maxVarint; i++ {
		c := uint64(b[i])
		if i == maxVarint-1 {
			return n | c<<(7*i), i + 1
		}
		n |= c & 0x7f << (7 * i)
		if c < 0x80 {
			return n, i + 1
		}
	}
	return 0, 0
}

func zigzag(v int64) uint64   { return uint64(v<<1) ^ uint64(v>>63) }
func unzigzag(n uint64) int64 { return int64(n>>1) ^ -int64(n&1) }

// unsigned appends n as an integer of width bits.
func (w *Writer) unsigned(width int, n uint64) {
	switch {
	case bits.Len64(n) > width:
		w.fail("%d does not fit into %d bits", n, width)
	case width == 8:
		w.b = append(w.b, byte(n))
	case w.d.flex:
		w.b = appendUvarint(w.b, n)
	case width == 16:
		w.b = binary.BigEndian.AppendUint16(w.b, uint16(n))
	case width == 32:
		w.b = binary.BigEndian.AppendUint32(w.b, uint32(n))
	default:
		w.b = binary.BigEndian.AppendUint64(w.b, n)
	}
}

// signed appends v as a signed integer of width bits.
func (w *Writer) signed(width int, v int64) {
	switch {
	case v != v<<(64-width)>>(64-width):
		w.fail("%d does not fit into %d bits", v, width)
	case w.d.flex && width > 8:
		w.b = appendUvarint(w.b, zigzag(v))
	default:
		w.unsigned(width, uint64(v)<<(64-width)>>(64-width))
	}
}

// unsigned reads an integer of width bits.
func (r *Reader) unsigned(width int) uint64 {
	if r.d.flex && width > 8 {
		n, size := uvarint(r.b)
		if size == 0 || bits.Len64(n) > width {
			r.fail("not an integer of %d bits", width)
			return 0
		}
		r.b = r.b[size:]
		return n
	}
	b := r.take(uint64(width / 8))
	var n uint64
	for _, c := range b {
		n = n<<8 | uint64(c)
	}
	return n
}

// signed reads a signed integer of width bits.
func (r *Reader) signed(width int) int64 {
	if r.d.flex && width > 8 {
		v := unzigzag(r.unsigned(64))
		if v != v<<(64-width)>>(64-width) {
			r.fail("not a signed integer of %d bits", width)
			return 0
		}
		return v
	}
	return int64(r.unsigned(width)) << (64 - width) >> (64 - width)
}
