package codec

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/mpiup/mpiup/internal/api/rpc"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
)

// A word with a byte that is no UTF-8, and how a text shows it.
const (
	latin1  = "caf\xe9 \xff"
	escaped = `caf\xe9 \xff`
)

// everyMessage calls f with each message that goes between a launcher and an agent, either way, that has a field of words:
// latin1 is in one field of it, or in one item of a list, and the rest is empty.
func everyMessage(t *testing.T, f func(m proto.Message, field protoreflect.FieldDescriptor)) {
	t.Helper()
	fields := 0
	var within func(top proto.Message, m protoreflect.Message, depth int)
	within = func(top proto.Message, m protoreflect.Message, depth int) {
		for i := range m.Descriptor().Fields().Len() {
			field := m.Descriptor().Fields().Get(i)
			var word protoreflect.Value
			switch {
			case field.Message() != nil && depth == 0: // one that holds its own kind
				continue
			case field.Message() != nil && field.IsList():
				within(top, m.Mutable(field).List().AppendMutable().Message(), depth-1)
				m.Clear(field)
				continue
			case field.Message() != nil:
				within(top, m.Mutable(field).Message(), depth-1)
				m.Clear(field)
				continue
			case field.Kind() == protoreflect.StringKind:
				word = protoreflect.ValueOfString(latin1)
			case field.Kind() == protoreflect.BytesKind:
				word = protoreflect.ValueOfBytes([]byte(latin1))
			default:
				continue
			}
			if field.IsList() {
				m.Mutable(field).List().Append(word)
			} else {
				m.Set(field, word)
			}
			fields++
			f(top, field)
			m.Clear(field)
		}
	}
	calls := rpc.File_agent_proto.Services().Get(0).Methods()
	for i := range calls.Len() {
		for _, of := range []protoreflect.MessageDescriptor{calls.Get(i).Input(), calls.Get(i).Output()} {
			top := messageType(t, of)
			within(top, top.ProtoReflect(), 5)
		}
	}
	if fields < 200 {
		t.Errorf("only %d fields were tried", fields)
	}
}

// messageType is an empty message of a description.
func messageType(t *testing.T, d protoreflect.MessageDescriptor) proto.Message {
	t.Helper()
	for _, m := range []proto.Message{&apiv1.Frame{}, &apiv1.HelloRequest{}, &apiv1.PeersRequest{}, &apiv1.ShutdownRequest{},
		&apiv1.CheckupRequest{}, &apiv1.AnswerRequest{}, &apiv1.AskRequest{}, &apiv1.RanksRequest{}} {
		if m.ProtoReflect().Descriptor() == d {
			return m
		}
	}
	return messageOf(t, d)
}

// over is a gRPC stream whose other side is itself, with Codec between as gRPC has it.
type over struct{ sent [][]byte }

func (o *over) SendMsg(m any) error {
	parts, err := Codec{}.Marshal(m)
	if err == nil {
		o.sent = append(o.sent, parts.Materialize())
	}
	return err
}

func (o *over) RecvMsg(m any) error {
	b := o.sent[0]
	o.sent = o.sent[1:]
	return Codec{}.Unmarshal(mem.BufferSlice{mem.SliceBuffer(b)}, m)
}

// carry is what arrives of a message: of a frame, over a session's stream.
func carry(t *testing.T, m proto.Message) (proto.Message, error) {
	t.Helper()
	if f, ok := m.(*apiv1.Frame); ok {
		stream := Stream{GRPC: &over{}}
		if err := stream.Send(f); err != nil {
			return nil, err
		}
		return stream.Recv()
	}
	parts, err := Codec{}.Marshal(m)
	if err != nil {
		return nil, err
	}
	got := m.ProtoReflect().New().Interface()
	return got, Codec{}.Unmarshal(parts, got)
}

// Whatever field of whatever message has a byte that is no UTF-8: the message arrives. A field of bytes has the same bytes
// there, and a text has the byte's escape; who sends keeps its own message as it was.
func TestEveryByteArrives(t *testing.T) {
	everyMessage(t, func(m proto.Message, field protoreflect.FieldDescriptor) {
		want := proto.Clone(m)
		if field.Kind() == protoreflect.StringKind {
			want = readable(m)
			if text := want.ProtoReflect().Interface(); !strings.Contains(textOf(text, field), escaped) {
				t.Errorf("%s: %v", field.FullName(), text)
			}
		}
		before := proto.Clone(m)
		got, err := carry(t, m)
		if err != nil {
			t.Errorf("%s: %v", field.FullName(), err)
			return
		}
		if !proto.Equal(got, want) {
			t.Errorf("%s arrives as %v, want %v", field.FullName(), got, want)
		}
		if !proto.Equal(m, before) {
			t.Errorf("%s of the sender's message was changed", field.FullName())
		}
	})
}

// textOf is the value of a field somewhere in a message.
func textOf(m proto.Message, field protoreflect.FieldDescriptor) (text string) {
	var find func(m protoreflect.Message)
	find = func(m protoreflect.Message) {
		m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
			switch {
			case f.Message() != nil && f.IsList():
				find(v.List().Get(0).Message())
			case f.Message() != nil:
				find(v.Message())
			case f == field && f.IsList():
				text = v.List().Get(0).String()
			case f == field:
				text = v.String()
			}
			return true
		})
	}
	find(m.ProtoReflect())
	return text
}

// What Linux, a program or a file may have written is bytes, by the words that such fields go by.
func TestWordsOfLinuxAreBytes(t *testing.T) {
	linux := map[string]bool{"argv": true, "env": true, "wdir": true, "path": true, "program": true, "programs": true,
		"key": true, "service": true, "services": true, "hostfile": true, "add_hostfile": true, "look_in": true,
		"term": true, "net": true, "checkpoint_dir": true}
	messages := apiv1.File_mpiup_proto.Messages()
	for i := range messages.Len() {
		for j := range messages.Get(i).Fields().Len() {
			field := messages.Get(i).Fields().Get(j)
			if linux[string(field.Name())] && field.Kind() == protoreflect.StringKind {
				t.Errorf("%s is a string: Linux's words are bytes", field.FullName())
			}
		}
	}
}

// A peer that sends a text with such a byte all the same, as a hostile one may, is told of the field, once: no reconnect
// would help.
func TestUnreadableFrame(t *testing.T) {
	everyMessage(t, func(m proto.Message, field protoreflect.FieldDescriptor) {
		f, ok := m.(*apiv1.Frame)
		if !ok || field.Kind() != protoreflect.StringKind {
			return
		}
		b, err := proto.Marshal(readable(f))
		if err != nil {
			t.Fatal(err)
		}
		b = []byte(strings.ReplaceAll(string(b), escaped, "caf\xe9\xe9\xe9\xe9 \xff\xff\xff\xff"))
		_, err = Stream{GRPC: &over{sent: [][]byte{b}}}.Recv()
		var unfit *Unfit
		if !errors.As(err, &unfit) || unfit.Sent || !strings.Contains(err.Error(), "field "+fieldName(field)+":") {
			t.Errorf("%s: %v", field.FullName(), err)
		}
	})
}

// Bytes that are no frame at all are unfit, too; an error of gRPC's stays what it is.
func TestUnreadableBytes(t *testing.T) {
	var unfit *Unfit
	if _, err := (Stream{GRPC: &over{sent: [][]byte{{0xff}}}}).Recv(); !errors.As(err, &unfit) {
		t.Errorf("%v", err)
	}
	broken := errors.New("the connection broke")
	stream := Stream{GRPC: breaks{broken}}
	if _, err := stream.Recv(); !errors.Is(err, broken) || errors.As(err, &unfit) {
		t.Errorf("%v", err)
	}
	if err := stream.Send(&apiv1.Frame{}); !errors.Is(err, broken) || errors.As(err, &unfit) {
		t.Errorf("%v", err)
	}
}

// breaks is a gRPC stream that has broken.
type breaks struct{ err error }

func (b breaks) SendMsg(any) error { return b.err }
func (b breaks) RecvMsg(any) error { return b.err }
