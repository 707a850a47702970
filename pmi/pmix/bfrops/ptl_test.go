package bfrops

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/mpiup/mpiup/test/cost"
)

func unhexed(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// captured is what rank 0 of Debian's libpmix 4.2.2 sent.
const captured = "ffffffff ffffffff 38000000 00000000" +
	"6e617469766500 00000008 0000000000000000 00" +
	"6d75737465722d6a6f623100 00000000" +
	"342e322e3272633200 76343100 01 6861736800 00"

func TestCapturedHello(t *testing.T) {
	data := unhexed(t, captured)
	want := Hello{Security: "native", Namespace: "muster-job1", Version: "4.2.2rc2", Codec: "v41", Buffer: 1, Store: "hash"}
	got, err := ReadHello(iotest.OneByteReader(bytes.NewReader(data)))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
	for n := 1; n < len(data); n++ {
		if _, err := ReadHello(bytes.NewReader(data[:n])); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("cut at %d: %v", n, err)
		}
	}
	payload := data[HeaderLen:]
	for n := range len(payload) - 1 {
		if _, err := ParseHello(payload[:n]); err == nil {
			t.Errorf("a payload of %d bytes is enough", n)
		}
	}
}

func TestToolsAndStrangers(t *testing.T) {
	h, err := ParseHello(unhexed(t, "6e6f6e6500 00000000 05 0000000000000000"))
	if err != nil || h.Kind != 5 || h.Security != "none" {
		t.Errorf("tool: %+v, %v", h, err)
	}
	for _, tt := range []string{
		"474554202f20485454502f312e310d0a",      // GET / HTTP/1.1
		"ffffffff ffffffff ffffffff 00000000",   // 4 GiB
		"ffffffff ffffffff 04000000 0000000041", // cut short
	} {
		if _, err := ReadHello(bytes.NewReader(unhexed(t, tt))); err == nil {
			t.Errorf("%s is a handshake", tt)
		}
	}
}

func TestFrames(t *testing.T) {
	for _, size := range []int{0, 1, growth, growth + 1, 3 * growth} {
		frame := append(make([]byte, HeaderLen), bytes.Repeat([]byte{7}, size)...)
		FinishFrame(frame, 105)
		got, err := ReadFrame(iotest.HalfReader(bytes.NewReader(frame)))
		if err != nil || got.Tag != 105 || !bytes.Equal(got.Payload, frame[HeaderLen:]) {
			t.Errorf("%d bytes: tag %d, %d bytes, %v", size, got.Tag, len(got.Payload), err)
		}
		if _, err := ReadFrame(bytes.NewReader(frame[:len(frame)-1])); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%d bytes cut short: %v", size, err)
		}
	}
	if _, err := ReadFrame(bytes.NewReader(nil)); err != io.EOF {
		t.Error(err)
	}
	var format *FormatError
	if _, err := ReadFrame(bytes.NewReader(AppendHeader(nil, 101, MaxFrame+1))); !errors.As(err, &format) {
		t.Error(err)
	}
	const golden = "00000000 00000065 00000002 00000000 0205"
	frame := append(make([]byte, HeaderLen), 2, 5)
	if FinishFrame(frame, 101); !bytes.Equal(frame, unhexed(t, golden)) {
		t.Errorf("%x", frame)
	}
	if got := hex.EncodeToString(AppendAnswer(nil, -47, 3)); got != "ffffffd100000003" {
		t.Error(got)
	}
}

func FuzzHello(f *testing.F) {
	f.Add(unhexed(f, captured)[HeaderLen:])
	f.Fuzz(func(t *testing.T, payload []byte) {
		defer cost.Watch(t, cost.Parser, len(payload))()
		h, err := ParseHello(payload)
		if err != nil {
			return
		}
		b := append([]byte(h.Security), 0)
		claim := 4 + int(binary.BigEndian.Uint32(payload[len(b):])) // which nobody reads
		b = append(b, payload[len(b):len(b)+claim]...)
		b = append(b, h.Kind)
		if h.Kind == 0 {
			b = binary.BigEndian.AppendUint32(append(append(b, h.Namespace...), 0), h.Rank)
			b = append(append(append(append(b, h.Version...), 0), h.Codec...), 0, h.Buffer)
			b = append(append(b, h.Store...), 0)
		}
		if !bytes.HasPrefix(payload, b) {
			t.Errorf("%x was read as %+v", payload, h)
		}
	})
}
