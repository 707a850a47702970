// Package codec turns messages into bytes and back for gRPC, the same bytes as gRPC's own codec makes. But it does
// not copy a rank's output, nor clear memory that is about to be overwritten. grpc-go 1.85 takes a message of more
// than 32 KiB into a buffer of 1 MiB that it clears first. When ranks wrote fast, that was a quarter of the CPU time
// of both sides.
//
//	Frame.Output ──Marshal──▶ │ head: Frame's other fields, Output's other fields, tag of data │ Data itself │
//	                                                                    gRPC sends the two in a row
//	parts as received ──Unmarshal──▶ one slice, of which Output.Data is the end
//
// So Data must not change once it was sent, and received Data is the receiver's own.
//
// Fields of type string are protobuf's, which takes UTF-8 alone. Text for people may have another byte all the same, of
// a path that it names: it goes as its escape (text.go). What no codec can carry is an Unfit, and ends a session at once
// (stream.go).
//
// What an agent sends is vetted as it comes in (Codec.Vet).
//
// A Codec and a Pool may be used by any number of goroutines. The package does not know what
// messages mean, and leaves all but large Output frames to the protobuf library.
package codec

import (
	"fmt"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// large is the bytes of a message from which avoiding a copy is worth its own parsing.
const large = 1 << 10

// Codec is a gRPC encoding.CodecV2.
type Codec struct {
	Vet bool // what comes in is an agent's: it is vetted, but for frames, which are where they are taken (launcher/link)
}

// Name is that of gRPC's own codec: the bytes are the same.
func (Codec) Name() string { return "proto" }

// Marshal encodes a message. What it returns refers to an Output's data.
func (Codec) Marshal(v any) (mem.BufferSlice, error) {
	if parts, ok := v.(encoded); ok {
		return mem.BufferSlice(parts), nil
	}
	m, ok := v.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("%T is no message", v)
	}
	if f, ok := v.(*apiv1.Frame); ok && len(f.GetOutput().GetData()) >= large {
		o := f.GetOutput()
		return mem.BufferSlice{mem.SliceBuffer(head(f, o)), mem.SliceBuffer(o.Data)}, nil
	}
	b, err := Encode(m)
	return mem.BufferSlice{mem.SliceBuffer(b)}, err
}

// Encode puts a message into bytes. A text in it that is no UTF-8 is made so in a copy.
func Encode(m proto.Message) ([]byte, error) {
	b, err := proto.Marshal(m)
	if err != nil {
		b, err = proto.Marshal(readable(m))
	}
	return b, err
}

// Unmarshal decodes into a message, of which nothing refers to data afterwards.
func (c Codec) Unmarshal(data mem.BufferSlice, v any) error {
	if in, ok := v.(*incoming); ok {
		in.err = c.Unmarshal(data, in.frame)
		return nil
	}
	m, ok := v.(proto.Message)
	if !ok {
		return fmt.Errorf("%T is no message", v)
	}
	f, frame := v.(*apiv1.Frame)
	var b []byte
	if n := data.Len(); n < large && len(data) == 1 {
		b = data[0].ReadOnlyData()
	} else if b = data.Materialize(); n >= large && frame && output(b, f) {
		return nil
	}
	if err := proto.Unmarshal(b, m); err != nil {
		return unreadable(b, m.ProtoReflect().Descriptor(), err)
	}
	if c.Vet && !frame {
		Vet(m)
	}
	return nil
}

// The numbers of fields in mpiup.proto.
const (
	frameSeq, frameAck, frameAge, frameOutput                         = 1, 2, 3, 33
	outputRank, outputStream, outputData, outputPartial, outputTimeNs = 1, 2, 3, 4, 5
)

// head is everything of an Output frame that comes before the bytes of its data, which is last.
func head(f *apiv1.Frame, o *apiv1.Output) []byte {
	in := make([]byte, 0, 48)
	in = number(in, outputRank, uint64(o.Rank))
	in = number(in, outputStream, uint64(o.Stream))
	in = number(in, outputPartial, protowire.EncodeBool(o.Partial))
	in = number(in, outputTimeNs, uint64(o.TimeNs))
	in = protowire.AppendTag(in, outputData, protowire.BytesType)
	in = protowire.AppendVarint(in, uint64(len(o.Data)))

	b := make([]byte, 0, 96)
	b = number(b, frameSeq, f.Seq)
	b = number(b, frameAck, f.Ack)
	b = number(b, frameAge, f.AgeMs)
	b = protowire.AppendTag(b, frameOutput, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(len(in)+len(o.Data)))
	return append(b, in...)
}

// number appends a field of a varint type; proto3 leaves out zeros.
func number(b []byte, field protowire.Number, v uint64) []byte {
	if v == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), v)
}

// output decodes b into f if it is an Output frame as head makes them, whatever the order of
// its fields; all else it leaves to the protobuf library. Data is a part of b.
func output(b []byte, f *apiv1.Frame) bool {
	var seq, ack, age uint64
	var body []byte
	ok := fields(b, func(field protowire.Number, v uint64, part []byte) bool {
		switch {
		case field == frameSeq && part == nil:
			seq = v
		case field == frameAck && part == nil:
			ack = v
		case field == frameAge && part == nil:
			age = v
		case field == frameOutput && part != nil && body == nil:
			body = part
		default:
			return false
		}
		return true
	})
	o := &apiv1.Output{}
	if !ok || body == nil || !outputFields(body, o) {
		return false
	}
	proto.Reset(f)
	f.Seq, f.Ack, f.AgeMs, f.Body = seq, ack, age, &apiv1.Frame_Output{Output: o}
	return true
}

func outputFields(b []byte, o *apiv1.Output) bool {
	return fields(b, func(field protowire.Number, v uint64, part []byte) bool {
		switch {
		case field == outputData && part != nil:
			o.Data = part
		case part != nil:
			return false
		case field == outputRank:
			o.Rank = uint32(v)
		case field == outputStream:
			o.Stream = apiv1.Stream(v)
		case field == outputPartial:
			o.Partial = protowire.DecodeBool(v)
		case field == outputTimeNs:
			o.TimeNs = int64(v)
		default:
			return false
		}
		return true
	})
}

// fields calls each with every field of a message: with a number, or with a part of b that is
// not nil. It returns false for what is malformed, of another type, or not wanted.
func fields(b []byte, each func(field protowire.Number, v uint64, part []byte) bool) bool {
	for len(b) > 0 {
		field, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return false
		}
		b = b[n:]
		var v uint64
		var part []byte
		switch kind {
		case protowire.VarintType:
			v, n = protowire.ConsumeVarint(b)
		case protowire.BytesType:
			part, n = protowire.ConsumeBytes(b)
		default:
			return false
		}
		if n < 0 || !each(field, v, part[:len(part):len(part)]) {
			return false
		}
		b = b[n:]
	}
	return true
}
