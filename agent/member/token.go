package member

import (
	"encoding/binary"
	"errors"
)

// Limits of one message. memberlist's own have at most 7 fields, a member's metadata 512 bytes.
const (
	maxText   = 4 << 10 // bytes of a text, of bytes or of an extension
	maxFields = 64      // elements of a list or map
	maxValues = 1 << 10 // of one message, nested ones too
)

// Errors of what is not let through.
var (
	ErrLong    = errors.New("gossip with a length that no agent sends")
	ErrShort   = errors.New("gossip that is cut off")
	ErrUnknown = errors.New("gossip of a kind that no agent sends")
)

// token is one msgpack value without what is in it.
type token struct {
	head   int    // bytes before the payload
	text   int    // bytes of payload
	values int    // values that follow and belong to it: of a map two for each field
	number uint64 // of an integer that is not negative
	isInt  bool
	isText bool // a text or bytes, no extension
	isMap  bool
}

// tokenAt reads the token at the front of b (msgpack's specification, "Formats"). ErrShort: b ends within its head.
func tokenAt(b []byte) (t token, err error) {
	if len(b) == 0 {
		return t, ErrShort
	}
	c := b[0]
	sized := func(bytes, extra int) (uint64, bool) { // a length, or a number, of so many bytes
		t.head = 1 + bytes + extra
		if len(b) < t.head {
			return 0, false
		}
		var wide [8]byte
		copy(wide[8-bytes:], b[1:1+bytes])
		return binary.BigEndian.Uint64(wide[:]), true
	}
	n, ok := uint64(0), true
	switch {
	case c <= 0x7f: // positive fixint
		t = token{head: 1, number: uint64(c), isInt: true}
	case c <= 0x8f: // fixmap
		t = token{head: 1, values: 2 * int(c&0x0f), isMap: true}
	case c <= 0x9f: // fixarray
		t = token{head: 1, values: int(c & 0x0f)}
	case c <= 0xbf: // fixstr
		t = token{head: 1, text: int(c & 0x1f), isText: true}
	case c == 0xc0, c == 0xc2, c == 0xc3, c >= 0xe0: // nil, false, true, negative fixint
		t.head = 1
	case c == 0xc1: // never used
		return t, ErrUnknown
	case c <= 0xc6: // bin 8, 16, 32
		n, ok = sized(1<<(c-0xc4), 0)
		t.isText = true
	case c <= 0xc9: // ext 8, 16, 32
		n, ok = sized(1<<(c-0xc7), 1)
	case c <= 0xcb: // float 32, 64
		_, ok = sized(4<<(c-0xca), 0)
	case c <= 0xcf: // uint 8 to 64
		t.number, ok = sized(1<<(c-0xcc), 0)
		t.isInt = true
	case c <= 0xd3: // int 8 to 64, as which Go's int is sent
		t.number, ok = sized(1<<(c-0xd0), 0)
		t.isInt = ok && b[1] < 0x80
	case c <= 0xd8: // fixext 1 to 16
		t.head, t.text = 2, 1<<(c-0xd4)
		ok = len(b) >= 2
	case c <= 0xdb: // str 8, 16, 32
		n, ok = sized(1<<(c-0xd9), 0)
		t.isText = true
	case c <= 0xdd: // array 16, 32
		n, ok = sized(2<<(c-0xdc), 0)
		t.values, n = int(min(n, 3*maxFields)), 0
	default: // map 16, 32
		n, ok = sized(2<<(c-0xde), 0)
		t.values, n, t.isMap = 2*int(min(n, 3*maxFields)), 0, true
	}
	switch {
	case !ok:
		return t, ErrShort
	case n > maxText || t.values > 2*maxFields:
		return t, ErrLong
	case n > 0:
		t.text = int(n)
	}
	return t, nil
}

// message counts through one value with all that is in it. The zero value is at its beginning.
type message struct {
	left int // values that are still to come, once one was seen
	seen int
}

// take counts a token, and says whether the value is complete.
func (m *message) take(t token) (complete bool, err error) {
	if m.seen == 0 {
		m.left = 1
	}
	m.left += t.values - 1
	if m.seen++; m.seen > maxValues || m.left > maxValues {
		return false, ErrLong
	}
	return m.left == 0, nil
}
