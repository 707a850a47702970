package bfrops

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
)

// maxHello bounds the handshake of a client; libpmix 7 sends its command line in it.
const maxHello = 64 << 10

// Hello is what a client says first.
//
//	security NUL │ length │ credential │ kind │ namespace NUL │ rank │ version NUL │ codec NUL │ buffer │ store NUL │ rest
//
// Numbers are big endian of 32 bits; kind and buffer are bytes.
type Hello struct {
	Security  string // psec module: "native", "none"
	Kind      byte   // 0: a rank; tools and singletons have others, and the rest is not read for them
	Namespace string
	Rank      uint32
	Version   string // of libpmix: "4.2.2rc2"
	Codec     string // bfrops dialect: "v41"
	Buffer    byte   // 1 NON_DESC, 2 FULLY_DESC
	Store     string // gds module: "hash"
}

// ReadHello reads a client's handshake.
func ReadHello(r io.Reader) (Hello, error) {
	var h [HeaderLen]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		return Hello{}, err
	}
	if !bytes.Equal(h[:8], bytes.Repeat([]byte{0xff}, 8)) {
		return Hello{}, &FormatError{"a first message that is no PMIx handshake"}
	}
	n := binary.LittleEndian.Uint32(h[8:]) // host order: amd64 and arm64
	if n > maxHello {
		return Hello{}, &FormatError{fmt.Sprintf("a PMIx handshake of %d bytes, where %d are the most", n, maxHello)}
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		return Hello{}, cutShort(err)
	}
	return ParseHello(b)
}

// ParseHello reads the payload of a handshake.
func ParseHello(b []byte) (Hello, error) {
	c := cutter{b: b}
	var h Hello
	h.Security = c.text()
	c.bytes(int64(c.number())) // of native: effective uid and gid in host order, a claim
	h.Kind = c.byte()
	if h.Kind == 0 {
		h.Namespace = c.text()
		h.Rank = c.number()
		h.Version = c.text()
		h.Codec = c.text()
		h.Buffer = c.byte()
		h.Store = c.text()
	}
	if c.short {
		return Hello{}, &FormatError{"a PMIx handshake that is cut short (libpmix before 2.1?)"}
	}
	return h, nil
}

// cutter takes fields off b.
type cutter struct {
	b     []byte
	short bool
}

func (c *cutter) bytes(n int64) []byte {
	if c.short || n > int64(len(c.b)) {
		c.short = true
		return nil
	}
	f := c.b[:n]
	c.b = c.b[n:]
	return f
}

func (c *cutter) text() string {
	s := c.bytes(int64(bytes.IndexByte(c.b, 0)) + 1)
	if len(s) == 0 {
		c.short = true
		return ""
	}
	return string(s[:len(s)-1])
}

func (c *cutter) number() uint32 {
	if f := c.bytes(4); f != nil {
		return binary.BigEndian.Uint32(f)
	}
	return 0
}

func (c *cutter) byte() byte {
	if f := c.bytes(1); f != nil {
		return f[0]
	}
	return 0
}

// AppendAnswer appends the server's half of the handshake. After a status other than 0 the server
// hangs up: libpmix 4.2 takes any status for success.
func AppendAnswer(b []byte, status int32, index uint32) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(status))
	return binary.BigEndian.AppendUint32(b, index)
}
