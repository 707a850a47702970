package apiv1

import (
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Every message that a session carries has its Frame, which is one of that message.
func TestEveryMessageHasItsFrame(t *testing.T) {
	t.Parallel()
	bodies := (&Frame{}).ProtoReflect().Descriptor().Oneofs().ByName("body").Fields()
	for i := range bodies.Len() {
		body := bodies.Get(i)
		frame := (&Frame{}).ProtoReflect()
		m, ok := frame.NewField(body).Message().Interface().(interface {
			proto.Message
			Frame() *Frame
		})
		if !ok {
			t.Errorf("%s has no method Frame: add it to frame.go", body.Message().Name())
			continue
		}
		got := m.Frame().ProtoReflect()
		if !got.Has(body) || got.Get(body).Message().Interface() != protoreflect.ProtoMessage(m) {
			t.Errorf("the Frame of %s carries something else", body.Message().Name())
		}
	}
}
