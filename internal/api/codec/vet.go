package codec

import (
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/visible"
)

// Vet makes what an agent sends safe to keep and to show, in one place, as it comes in: an agent may be hostile, and what it
// says ends in messages, tables, JSON, reports and files of the launcher's.
//
//	message ──each field, by the table──▶ text: cut at its bound, and visible as package visible has it, on one line
//	                                      data: as it is; whoever takes it apart bounds it
//	                                      list: no longer than the protocol says
//
// TestEachFieldHasARule holds the table against the protocol: a field of text, bytes or a list that an agent can send has a rule, or the
// test fails.
//
// The functions change the message and share nothing. The package does not judge: names are checked where they are taken (launcher/link).

// VetFrame vets what an agent sends in a session.
func VetFrame(f *apiv1.Frame) {
	switch f.GetBody().(type) {
	case *apiv1.Frame_Output, *apiv1.Frame_Credit, *apiv1.Frame_Heartbeat, *apiv1.Frame_Started, *apiv1.Frame_FenceEnter, *apiv1.Frame_CopyCredit,
		*apiv1.Frame_FetchRequest, *apiv1.Frame_FetchResult, *apiv1.Frame_NameRequest, *apiv1.Frame_Event, *apiv1.Frame_Rendezvous, *apiv1.Frame_Progress:
		return // nothing but numbers and data, and many of them: TestFramesOfDataHaveNoText
	}
	Vet(f)
}

// Vet vets what an agent answers.
func Vet(m protoreflect.ProtoMessage) { vetMessage(m.ProtoReflect()) }

func vetMessage(m protoreflect.Message) {
	m.Range(func(field protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		is := rules[fieldName(field)]
		switch {
		case field.IsList():
			vetList(m, field, v.List(), is)
		case field.Message() != nil:
			vetMessage(v.Message())
		case is.text > 0:
			if shown, changed := vetWord(field, v, is.text); changed {
				m.Set(field, shown)
			}
		}
		return true
	})
}

func vetList(m protoreflect.Message, field protoreflect.FieldDescriptor, l protoreflect.List, is rule) {
	if is.most > 0 && l.Len() > is.most {
		l = m.Mutable(field).List()
		l.Truncate(is.most)
	}
	for i := range l.Len() {
		switch {
		case field.Message() != nil:
			vetMessage(l.Get(i).Message())
		case is.text > 0:
			if shown, changed := vetWord(field, l.Get(i), is.text); changed {
				l.Set(i, shown)
			}
		}
	}
}

// vetWord is VetText of a field's value, or of an item of its list, and whether that changes it.
func vetWord(field protoreflect.FieldDescriptor, v protoreflect.Value, most int) (_ protoreflect.Value, changed bool) {
	if field.Kind() == protoreflect.BytesKind { // a name of Linux's that people are shown
		word := string(v.Bytes())
		text := VetText(word, most)
		return protoreflect.ValueOfBytes([]byte(text)), text != word
	}
	word := v.String()
	text := VetText(word, most)
	return protoreflect.ValueOfString(text), text != word
}

// VetText is s on one line and visible, in at most so many bytes, which are more than three. What was cut ends with "…".
func VetText(s string, most int) string {
	shown := visible.Line(s[:min(len(s), most)])
	if len(s) <= most && len(shown) <= most {
		return shown
	}
	const end = "…"
	return strings.ToValidUTF8(shown[:min(len(shown), most-len(end))], "") + end
}

// name is that of a field in the table.
func fieldName(field protoreflect.FieldDescriptor) string {
	return string(field.Parent().Name()) + "." + string(field.Name())
}
