package codec

import (
	"fmt"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/mpiup/mpiup/internal/visible"
)

// readable is a copy of a message in which each byte of its texts that is no UTF-8 is its escape. The message itself may be
// read by others meanwhile, and sent again.
func readable(m proto.Message) proto.Message {
	m = proto.Clone(m)
	escapeTexts(m.ProtoReflect())
	return m
}

// escapeTexts makes UTF-8 of all fields of type string.
func escapeTexts(m protoreflect.Message) {
	m.Range(func(field protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch text := field.Kind() == protoreflect.StringKind; {
		case field.IsList() && (text || field.Message() != nil):
			list := v.List()
			for i := range list.Len() {
				if text {
					list.Set(i, protoreflect.ValueOfString(visible.UTF8(list.Get(i).String())))
				} else {
					escapeTexts(list.Get(i).Message())
				}
			}
		case field.Message() != nil && !field.IsMap(): // the protocol has no maps
			escapeTexts(v.Message())
		case text:
			m.Set(field, protoreflect.ValueOfString(visible.UTF8(v.String())))
		}
		return true
	})
}

// unreadable is why b is no message, with the field at fault where it is a text: the protobuf library does not name it.
func unreadable(b []byte, of protoreflect.MessageDescriptor, err error) error {
	if field := badText(b, of); field != nil {
		return fmt.Errorf("field %s: %w", fieldName(field), err)
	}
	return err
}

// badText is the first field of type string that has no UTF-8; nil: there is none, or something else is wrong before.
func badText(b []byte, of protoreflect.MessageDescriptor) (bad protoreflect.FieldDescriptor) {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return nil
		}
		b = b[n:]

		if n = protowire.ConsumeFieldValue(number, kind, b); n < 0 {
			return nil
		}
		field := of.Fields().ByNumber(number)
		if field != nil && kind == protowire.BytesType {
			part, _ := protowire.ConsumeBytes(b)
			switch {
			case field.Message() != nil:
				bad = badText(part, field.Message())
			case field.Kind() == protoreflect.StringKind && !utf8.Valid(part):
				bad = field
			}
			if bad != nil {
				return bad
			}
		}
		b = b[n:]
	}
	return nil
}
