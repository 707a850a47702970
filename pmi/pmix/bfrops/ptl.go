package bfrops

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
)

// The transport of PMIx over TCP has two parts: the handshake of a connecting client and the
// frames after it. The layout is the same in libpmix 2.1 to 7 (openpmix src/mca/ptl/base).
//
//	client                                             server
//	  │ header: -1, -1, length in host order; payload     │   ReadHello
//	  ├──────────────────────────────────────────────────▶│
//	  │ status, index: 32 bits each, big endian           │   AppendAnswer
//	  │◀──────────────────────────────────────────────────┤
//	  │ frames                                            │   ReadFrame, AppendFrame
//	  │◀─────────────────────────────────────────────────▶│
//
//	        0       4     8        12        16
//	frame   ┌───────┬─────┬────────┬─────────┬─ ─ ─ ─ ─
//	        │ index │ tag │ length │ padding │ payload …     big endian
//	        └───────┴─────┴────────┴─────────┴─ ─ ─ ─ ─
//
// A request's answer carries its tag, 100 or more; the tags below are posted receives: 0 is an
// event for the client.
//
// The functions block in their reader, and have no state: the caller sets deadlines and owns the
// connection. What a payload means is bfrops' and the server's business. 32-bit and big-endian
// clients, whose header differs, are not served.

const (
	// HeaderLen is the length of a frame's header.
	HeaderLen = 16

	// MaxFrame bounds a client's message. The largest are commits, of two sections that the
	// engine bounds to 4 MiB each.
	MaxFrame = 16 << 20

	// TagEvent is the tag of an event for the client.
	TagEvent = 0
	// TagHeartbeat is the tag of a message that wants no answer.
	TagHeartbeat = 1
)

// Frame is one message of a client.
type Frame struct {
	Tag     uint32
	Payload []byte
}

// ReadFrame reads one message. The error is io.EOF between frames and io.ErrUnexpectedEOF within
// one. Memory grows with what came, not with what was announced.
func ReadFrame(r io.Reader) (Frame, error) {
	var h [HeaderLen]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		return Frame{}, err
	}
	f := Frame{Tag: binary.BigEndian.Uint32(h[4:])}
	n := binary.BigEndian.Uint32(h[8:])
	if n > MaxFrame {
		return Frame{}, &FormatError{fmt.Sprintf("a message of %d bytes, where %d are the most", n, MaxFrame)}
	}
	var err error
	f.Payload, err = readSome(r, int(n))
	return f, err
}

const growth = 64 << 10

func readSome(r io.Reader, n int) ([]byte, error) {
	if n <= growth {
		b := make([]byte, n)
		_, err := io.ReadFull(r, b)
		return b, cutShort(err)
	}
	var b bytes.Buffer
	_, err := io.CopyN(&b, r, int64(n))
	return b.Bytes(), cutShort(err)
}

func cutShort(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// AppendHeader appends the header of a message of n bytes. Header and payload must leave in one
// write: libpmix loses a header of which only a part is there yet.
func AppendHeader(b []byte, tag uint32, n int) []byte {
	b = binary.BigEndian.AppendUint32(b, 0)
	b = binary.BigEndian.AppendUint32(b, tag)
	b = binary.BigEndian.AppendUint32(b, uint32(n))
	return append(b, 0, 0, 0, 0)
}

// FinishFrame writes the header into a frame whose payload was appended behind HeaderLen bytes.
func FinishFrame(frame []byte, tag uint32) {
	AppendHeader(frame[:0], tag, len(frame)-HeaderLen)
}

// FormatError is a peer that does not speak this protocol.
type FormatError struct{ What string }

func (e *FormatError) Error() string { return e.What }
