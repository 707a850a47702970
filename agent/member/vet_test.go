package member

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/hashicorp/go-msgpack/v2/codec"
	"github.com/mpiup/mpiup/test/cost"
)

type header struct {
	Nodes        int
	UserStateLen int
	Join         bool
}

type wireNode struct {
	Name        string
	Addr, Meta  []byte
	Port        uint16
	Incarnation uint32
	State       int
	Vsn         []uint8
}

// pack is values one after the other, as memberlist writes them.
func pack(t testing.TB, values ...any) []byte {
	t.Helper()
	var b bytes.Buffer
	e := codec.NewEncoder(&b, &codec.MsgpackHandle{})
	for _, v := range values {
		if err := e.Encode(v); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

var someone = wireNode{Name: "w0.01234567", Addr: []byte{10, 0, 0, 1}, Meta: bytes.Repeat([]byte{7}, 512), Port: 16748, Incarnation: 1 << 31, Vsn: []uint8{1, 5, 2, 0, 0, 0}}

// exchange is one side's half of an exchange of state.
func exchange(t testing.TB, state string) []byte {
	return append(append([]byte{pushPullType}, pack(t, header{Nodes: 2, UserStateLen: len(state), Join: true}, someone, someone)...), state...)
}

func with(kind byte, value ...byte) []byte { return append([]byte{kind}, value...) }

func TestPackets(t *testing.T) {
	alive := append([]byte{4}, pack(t, someone)...)
	compound := append([]byte{compoundType, 2, 0, byte(len(alive) % 256), 0, 2}, append(bytes.Clone(alive), 0, 1)...)
	compound[2] = byte(len(alive) >> 8)
	for _, tt := range []struct {
		name   string
		packet []byte
		want   error
	}{
		{"a message", alive, nil},
		{"a compound", compound, nil},
		{"with a checksum", append([]byte{crcType, 1, 2, 3, 4}, compound...), nil},
		{"a compound that is cut off", compound[:30], nil}, // memberlist passes over what is
		{"nothing", nil, ErrShort},
		{"a type alone", []byte{4}, ErrShort},
		{"a message that is cut off", alive[:40], ErrShort},
		{"text of 2 GiB", with(3, 0x81, 0xdb, 0x80, 0, 0, 0), ErrLong},
		{"text of more than there is", with(3, 0x81, 0xd9, 200, 'x'), ErrShort},
		{"bytes of 2 GiB", with(3, 0x81, 0xa1, 'x', 0xc6, 0x80, 0, 0, 0), ErrLong},
		{"an extension of 2 GiB", with(3, 0x81, 0xa1, 'x', 0xc9, 0x80, 0, 0, 0, 0xff), ErrLong},
		{"a map of 2^31", with(3, 0xdf, 0x80, 0, 0, 0), ErrLong},
		{"a list of 2^32", with(3, 0xdd, 0xff, 0xff, 0xff, 0xff), ErrLong},
		{"lists in lists", with(3, bytes.Repeat([]byte{0x9f}, 200)...), ErrLong},
		{"compressed", with(9, 0x80), ErrUnknown},
		{"encrypted", with(10, 0x80), ErrUnknown},
		{"labelled", with(244, 1, 'x', 4), ErrUnknown},
		{"a launcher's claim", with(userType, 0xdb, 0x80, 0, 0, 0), nil},
		{"a compound in a compound", with(compoundType, 1, 0, 3, compoundType, 1, 0), ErrUnknown},
	} {
		if err := vetPacket(tt.packet); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
	}
}

// What agents exchange comes through as it is, in pieces of any size, and nothing behind it is waited for.
func TestStreamsComeThrough(t *testing.T) {
	for name, b := range map[string][]byte{
		"state":         exchange(t, strings.Repeat("claims", 5000)),
		"without state": exchange(t, ""),
		"nobody":        append([]byte{pushPullType}, pack(t, header{})...),
		"a ping":        append([]byte{pingType}, pack(t, map[string]any{"SeqNo": 1, "Node": "w0"})...),
		"an error":      append([]byte{errType}, pack(t, map[string]any{"Error": "no"})...),
	} {
		for how, r := range map[string]io.Reader{"whole": bytes.NewReader(b), "byte by byte": iotest.OneByteReader(bytes.NewReader(b))} {
			open, w := io.Pipe() // which is never closed behind b
			go func() { io.Copy(w, r) }()
			got := make([]byte, len(b))
			if _, err := io.ReadFull(newVetReader(open), got); err != nil || !bytes.Equal(got, b) {
				t.Errorf("%s, %s: %v", name, how, err)
			}
			open.Close()
		}
	}
}

func TestStreamsThatEnd(t *testing.T) {
	many := append([]byte{pushPullType}, pack(t, header{Nodes: 1 << 20})...)
	for _, tt := range []struct {
		name   string
		stream []byte
		want   error
	}{
		{"more nodes than there are", many, ErrLong},
		{"more state than there is", append([]byte{pushPullType}, pack(t, header{UserStateLen: 20 << 20})...), ErrLong},
		{"a number below 0", append([]byte{pushPullType}, pack(t, map[string]int{"Nodes": -1})...), ErrUnknown},
		{"another field", append([]byte{pushPullType}, pack(t, map[string]int{"Other": 1})...), ErrUnknown},
		{"a field in a field", append([]byte{pushPullType}, pack(t, map[string]any{"Join": map[string]int{"Nodes": 0}})...), ErrLong},
		{"a header that is none", with(pushPullType, 0x05), ErrUnknown},
		{"a long name", append([]byte{pushPullType}, pack(t, header{Nodes: 1}, map[string]any{"Name": strings.Repeat("x", maxText+1)})...), ErrLong},
		{"metadata of 2 GiB", append(append([]byte{pushPullType}, pack(t, header{Nodes: 1})...), 0x81, 0xa4, 'M', 'e', 't', 'a', 0xc6, 0x80, 0, 0, 0), ErrLong},
		{"compressed", with(9, 0x80), ErrUnknown},
		{"encrypted", with(10, 0x80), ErrUnknown},
		{"a user's message", with(8, 0x80), ErrUnknown},
		{"cut off", exchange(t, "state")[:100], io.ErrUnexpectedEOF},
		{"the end, and more", append(exchange(t, ""), 1, 2, 3), nil},
	} {
		got, err := io.ReadAll(newVetReader(bytes.NewReader(tt.stream)))
		if !errors.Is(err, tt.want) || tt.want == nil && len(got) != len(tt.stream)-3 {
			t.Errorf("%s: %v after %d of %d bytes, want %v", tt.name, err, len(got), len(tt.stream), tt.want)
		}
	}
}

// FuzzPacket: what is let through costs the decoder no more than its bytes allow.
func FuzzPacket(f *testing.F) {
	f.Add(append([]byte{4}, pack(f, someone)...))
	f.Add([]byte("\x03\x83\xa4Fryo\xdf;آآآ\xa2\xd8آ\xd8\xd8\xcfb\xf7\xad\x94\xc1\xfb\x84\fɀ\x00\x00\x00\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if vetMessage(b) != nil || b[0] == userType {
			return
		}
		defer cost.Watch(t, cost.Parser, len(b))()
		var n wireNode
		_ = codec.NewDecoder(bytes.NewReader(b[1:]), &codec.MsgpackHandle{}).Decode(&n)
	})
}

// FuzzReader: nor does an exchange, read as memberlist reads it.
func FuzzReader(f *testing.F) {
	f.Add(exchange(f, "state"))
	f.Add(append([]byte{pushPullType}, pack(f, header{Nodes: 1 << 20})...))
	f.Fuzz(func(t *testing.T, b []byte) {
		defer cost.Watch(t, cost.Parser, len(b)+100*maxNodes+maxState)()
		r := newVetReader(bytes.NewReader(b))
		var kind [1]byte
		if _, err := io.ReadFull(r, kind[:]); err != nil || kind[0] != pushPullType {
			return
		}
		dec := codec.NewDecoder(r, &codec.MsgpackHandle{})
		var h header
		if dec.Decode(&h) != nil {
			return
		}
		if h.Nodes > maxNodes || h.UserStateLen > maxState {
			t.Fatalf("%+v is let through", h)
		}
		for range h.Nodes {
			var n wireNode
			if dec.Decode(&n) != nil {
				return
			}
		}
	})
}
