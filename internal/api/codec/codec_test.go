package codec

import (
	"bytes"
	"strings"
	"testing"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/test/cost"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// fill sets every scalar field of m to something that is not its zero.
func fill(t *testing.T, m protoreflect.Message, data []byte) {
	t.Helper()
	for i := range m.Descriptor().Fields().Len() {
		f := m.Descriptor().Fields().Get(i)
		switch {
		case f.ContainingOneof() != nil:
		case f.Kind() == protoreflect.Uint32Kind:
			m.Set(f, protoreflect.ValueOfUint32(1<<31+7))
		case f.Kind() == protoreflect.Uint64Kind:
			m.Set(f, protoreflect.ValueOfUint64(1<<63+7))
		case f.Kind() == protoreflect.Int64Kind:
			m.Set(f, protoreflect.ValueOfInt64(-7))
		case f.Kind() == protoreflect.EnumKind:
			m.Set(f, protoreflect.ValueOfEnum(1))
		case f.Kind() == protoreflect.BoolKind:
			m.Set(f, protoreflect.ValueOfBool(true))
		case f.Kind() == protoreflect.BytesKind:
			m.Set(f, protoreflect.ValueOfBytes(data))
		default:
			t.Fatalf("field %s is of a kind that codec does not write", f.FullName())
		}
	}
}

func outputFrame(t *testing.T, size int) *apiv1.Frame {
	o, f := &apiv1.Output{}, &apiv1.Frame{}
	fill(t, o.ProtoReflect(), bytes.Repeat([]byte("line\n"), size/5+1)[:size])
	fill(t, f.ProtoReflect(), nil)
	f.Body = &apiv1.Frame_Output{Output: o}
	return f
}

func encode(t *testing.T, m any) mem.BufferSlice {
	t.Helper()
	parts, err := Codec{}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return parts
}

// split gives b as gRPC receives it.
func split(b []byte, size int) mem.BufferSlice {
	var parts mem.BufferSlice
	for len(b) > size {
		parts, b = append(parts, mem.SliceBuffer(b[:size])), b[size:]
	}
	return append(parts, mem.SliceBuffer(b))
}

// Every field that the messages have is written and read as the protobuf library does.
func TestOutputIsProtobuf(t *testing.T) {
	for _, size := range []int{0, 1, large - 1, large, frameSize, 64 << 10, 1 << 20} {
		want := outputFrame(t, size)
		bytes := encode(t, want).Materialize()
		got := &apiv1.Frame{}
		if err := proto.Unmarshal(bytes, got); err != nil || !proto.Equal(got, want) {
			t.Errorf("%d bytes of output: protobuf reads something else (%v)", size, err)
		}
		theirs, err := proto.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range [][]byte{bytes, theirs} {
			got := &apiv1.Frame{Seq: 99}
			if err := (Codec{}).Unmarshal(split(b, frameSize), got); err != nil || !proto.Equal(got, want) {
				t.Errorf("%d bytes of output are read as something else (%v)", size, err)
			}
		}
	}
}

func TestOutputIsNotCopied(t *testing.T) {
	want := outputFrame(t, large)
	parts := encode(t, want)
	if last := parts[len(parts)-1].ReadOnlyData(); &last[0] != &want.GetOutput().Data[0] {
		t.Error("Marshal copied the data")
	}
	f := &apiv1.Frame{}
	if !output(parts.Materialize(), f) {
		t.Error("the protobuf library had to read an Output frame")
	}
	if d := f.GetOutput().Data; cap(d) != len(d) {
		t.Error("appending to the data would overwrite what follows it")
	}
}

func TestOtherMessages(t *testing.T) {
	big := &apiv1.Frame{Seq: 3, Body: &apiv1.Frame_FenceEnter{FenceEnter: &apiv1.FenceEnter{Set: "0-3", Data: make([]byte, 100<<10)}}}
	for _, want := range []proto.Message{big, &apiv1.HelloRequest{Protocol: 7}, &apiv1.Frame{}} {
		got := want.ProtoReflect().New().Interface()
		if err := (Codec{}).Unmarshal(encode(t, want), got); err != nil || !proto.Equal(got, want) {
			t.Errorf("%T is read as something else (%v)", want, err)
		}
	}
	if _, err := (Codec{}).Marshal("text"); err == nil {
		t.Error("encoded what is no message")
	}
	if err := (Codec{}).Unmarshal(nil, "text"); err == nil {
		t.Error("decoded into what is no message")
	}
}

// A launcher's codec vets what an agent answers, however it comes in. Frames are vetted where they are taken, and an agent's codec
// leaves launchers' words as they are.
func TestAnswersAreVetted(t *testing.T) {
	for _, size := range []int{1, 2 * large, 3 * frameSize} {
		said := &apiv1.HelloReply{Name: "w-0\x1b[2J", Version: strings.Repeat("v\n", size)}
		got := &apiv1.HelloReply{}
		err := (Codec{Vet: true}).Unmarshal(split(encode(t, said).Materialize(), frameSize), got)
		if err != nil || strings.ContainsAny(got.Name+got.Version, "\x1b\n") {
			t.Errorf("an answer of %d bytes: %.40q, %.40q, %v", proto.Size(said), got.Name, got.Version, err)
		}
		frame := &apiv1.Frame{Body: &apiv1.Frame_Notice{Notice: &apiv1.Notice{Text: said.Version}}}
		for of, tt := range map[string]struct {
			codec Codec
			sent  proto.Message
		}{"a frame": {Codec{Vet: true}, frame}, "what a launcher says": {Codec{}, said}} {
			got := tt.sent.ProtoReflect().New().Interface()
			if err := tt.codec.Unmarshal(split(encode(t, tt.sent).Materialize(), frameSize), got); err != nil || !proto.Equal(got, tt.sent) {
				t.Errorf("%s of %d bytes is changed (%v)", of, proto.Size(tt.sent), err)
			}
		}
	}
}

func TestPool(t *testing.T) {
	p := &Pool{}
	for _, n := range []int{0, 1, large, large + 1, frameSize, frameSize + 1} {
		b := p.Get(n)
		if len(*b) != n {
			t.Errorf("asked for %d bytes, got %d", n, len(*b))
		}
		p.Put(b)
	}
}

// What output accepts, the protobuf library reads the same way.
func FuzzOutput(f *testing.F) {
	seed := &apiv1.Frame{Seq: 1, Ack: 2, Body: &apiv1.Frame_Output{Output: &apiv1.Output{Rank: 3, Data: []byte("x\n"), TimeNs: 4}}}
	b, err := proto.Marshal(seed)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add(append(b, b...))
	f.Add(b[:len(b)-1])
	f.Add([]byte("\x8a\x02\x02\x1a\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		defer cost.Watch(t, cost.Parser, len(b))()
		got, want := &apiv1.Frame{}, &apiv1.Frame{}
		if !output(b, got) {
			return
		}
		if err := proto.Unmarshal(b, want); err != nil || !proto.Equal(got, want) {
			t.Errorf("protobuf reads something else (%v): %v, not %v", err, want, got)
		}
	})
}

func BenchmarkOutput(b *testing.B) {
	f := &apiv1.Frame{Seq: 1, Body: &apiv1.Frame_Output{Output: &apiv1.Output{Rank: 1, Data: make([]byte, 64<<10)}}}
	b.SetBytes(64 << 10)
	for b.Loop() {
		parts, err := Codec{}.Marshal(f)
		if err != nil {
			b.Fatal(err)
		}
		if err := (Codec{}).Unmarshal(parts, &apiv1.Frame{}); err != nil {
			b.Fatal(err)
		}
	}
}

// What Prepare goes through is what it is for: frames that come back as they went.
func TestUsualFrames(t *testing.T) {
	Prepare()
	for _, f := range usual() {
		b, err := proto.Marshal(f)
		back := &apiv1.Frame{}
		if err == nil {
			err = proto.Unmarshal(b, back)
		}
		if err != nil || f.Body == nil || !proto.Equal(f, back) {
			t.Errorf("%v came back as %v, %v", f, back, err)
		}
	}
}
