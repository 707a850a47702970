package codec

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/mpiup/mpiup/internal/api/rpc"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/test/cost"
)

// toAgents are the frames that no agent sends.
var toAgents = map[string]bool{"open": true, "launch": true, "input": true, "signal": true, "stop": true, "resize": true, "fence_result": true, "name_result": true,
	"bye": true, "spawn_result": true, "gone": true, "copy_data": true, "job_over": true, "abort_noted": true, "ask_waits": true, "proceed": true, "hold": true}

// fields calls f with each field that an agent can send.
func eachField(f func(protoreflect.FieldDescriptor)) {
	seen := map[protoreflect.FullName]bool{}
	var walk func(m protoreflect.MessageDescriptor)
	walk = func(m protoreflect.MessageDescriptor) {
		if seen[m.FullName()] {
			return
		}
		seen[m.FullName()] = true
		for i := range m.Fields().Len() {
			field := m.Fields().Get(i)
			if m.Name() == "Frame" && toAgents[string(field.Name())] {
				continue
			}
			f(field)
			if field.Message() != nil {
				walk(field.Message())
			}
		}
	}
	calls := rpc.File_agent_proto.Services().Get(0).Methods()
	for i := range calls.Len() {
		walk(calls.Get(i).Output())
	}
}

// What an agent can send is in the table, each field of text, bytes or a list, and the table has nothing else.
func TestEachFieldHasARule(t *testing.T) {
	there := map[string]bool{}
	eachField(func(f protoreflect.FieldDescriptor) {
		text := f.Kind() == protoreflect.StringKind
		if !text && f.Kind() != protoreflect.BytesKind && !f.IsList() {
			return
		}
		there[fieldName(f)] = true
		switch is, ok := rules[fieldName(f)]; {
		case !ok:
			t.Errorf("%s: may an agent write what it likes there? Say in rules.go how long it is, or that it is data", fieldName(f))
		case is.data == (is.text > 0 || is.most > 0):
			t.Errorf("%s is both data and bounded, or neither", fieldName(f))
		case is.text > 0 && !text && f.Kind() != protoreflect.BytesKind, is.most > 0 && !f.IsList(), text && !is.data && is.text == 0, f.IsList() && !is.data && is.most == 0:
			t.Errorf("%s: the rule is for another type", fieldName(f))
		}
	})
	for is := range rules {
		if !there[is] {
			t.Errorf("%s is no field that an agent sends", is)
		}
	}
}

var long = strings.Repeat("z", 100_000)

// hostile has control characters, a change of direction and a second line in each field of text, and no end.
func hostile(m protoreflect.Message, depth int) {
	for i := range m.Descriptor().Fields().Len() {
		f := m.Descriptor().Fields().Get(i)
		const words = "x\u009b2J\u202e\r\n\x1b]0;y\x07\xff"
		text, name := protoreflect.ValueOfString(words+long), protoreflect.ValueOfBytes([]byte(words+long))
		switch {
		case f.IsList() && f.Message() != nil && depth > 0:
			for range 3 {
				hostile(m.Mutable(f).List().AppendMutable().Message(), depth-1)
			}
		case f.IsList() && f.Kind() == protoreflect.StringKind:
			for range 70 {
				m.Mutable(f).List().Append(text)
			}
		case f.IsList():
		case f.Message() != nil && depth > 0:
			hostile(m.Mutable(f).Message(), depth-1)
		case f.Kind() == protoreflect.StringKind:
			m.Set(f, text)
		case f.Kind() == protoreflect.BytesKind && rules[fieldName(f)].text > 0:
			m.Set(f, name)
		}
	}
}

// Whatever an agent sends, its text is short and visible afterwards, in every message; vetting again changes nothing.
func TestTextIsShortAndVisible(t *testing.T) {
	calls := rpc.File_agent_proto.Services().Get(0).Methods()
	check := func(m protoreflect.ProtoMessage) {
		Vet(m)
		var see func(m protoreflect.Message)
		see = func(m protoreflect.Message) {
			m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
				is := rules[fieldName(f)]
				var texts []string
				switch {
				case f.IsList() && f.Message() != nil:
					for i := range v.List().Len() {
						see(v.List().Get(i).Message())
					}
				case f.IsList() && f.Kind() == protoreflect.StringKind:
					for i := range v.List().Len() {
						texts = append(texts, v.List().Get(i).String())
					}
				case f.IsList():
				case f.Message() != nil:
					see(v.Message())
				case f.Kind() == protoreflect.StringKind:
					texts = []string{v.String()}
				case f.Kind() == protoreflect.BytesKind:
					texts = []string{string(v.Bytes())}
				}
				for _, s := range texts {
					if is.text > 0 && (visible.Line(s) != s || len(s) > is.text) {
						t.Errorf("%s is %d bytes, %.40q", fieldName(f), len(s), s)
					}
				}
				return true
			})
		}
		see(m.ProtoReflect())
		again := proto.Clone(m)
		Vet(again)
		if !proto.Equal(m, again) {
			t.Errorf("%T changes when it is vetted again", m)
		}
	}
	for i := range calls.Len() {
		out := calls.Get(i).Output()
		if out.Name() != "Frame" {
			m := messageOf(t, out)
			hostile(m.ProtoReflect(), 3)
			check(m)
			continue
		}
		for k := range out.Fields().Len() {
			body := out.Fields().Get(k)
			if body.Message() == nil || toAgents[string(body.Name())] {
				continue
			}
			f := &apiv1.Frame{}
			hostile(f.ProtoReflect().Mutable(body).Message(), 3)
			VetFrame(f)
			check(f)
		}
	}
}

func messageOf(t *testing.T, d protoreflect.MessageDescriptor) protoreflect.ProtoMessage {
	t.Helper()
	for _, m := range []protoreflect.ProtoMessage{&apiv1.HelloReply{}, &apiv1.PeersReply{}, &apiv1.ShutdownReply{}, &apiv1.CheckupReply{}, &apiv1.AnswerReply{},
		&apiv1.AskReply{}, &apiv1.RanksReply{}} {
		if m.ProtoReflect().Descriptor() == d {
			return m
		}
	}
	t.Fatalf("%s is not among them", d.FullName())
	return nil
}

// Frames that are not looked at have no text.
func TestFramesOfDataHaveNoText(t *testing.T) {
	for _, body := range []string{"output", "credit", "heartbeat", "started", "fence_enter", "copy_credit", "fetch_request", "fetch_result", "name_request", "event", "rendezvous"} {
		d := (&apiv1.Frame{}).ProtoReflect().Descriptor().Fields().ByName(protoreflect.Name(body)).Message()
		for i := range d.Fields().Len() {
			if f := d.Fields().Get(i); f.Message() != nil || rules[fieldName(f)].text > 0 {
				t.Errorf("%s has text", fieldName(f))
			}
		}
	}
}

// What data is passes as it is, since ranks read it.
func TestDataStaysAsItIs(t *testing.T) {
	f := &apiv1.Frame{Body: &apiv1.Frame_SpawnRequest{SpawnRequest: &apiv1.SpawnRequest{Apps: []*apiv1.SpawnApp{{App: &apiv1.App{Argv: []string{"a\n\x1b"}, Env: []string{"X=\u202e"}}}}}}}
	want := proto.Clone(f)
	if VetFrame(f); !proto.Equal(f, want) {
		t.Errorf("%v, want %v", f, want)
	}
}

func FuzzFrame(f *testing.F) {
	b, _ := proto.Marshal(&apiv1.Frame{Body: &apiv1.Frame_Exited{Exited: &apiv1.Exited{Text: "x\u009b"}}})
	f.Add(b)
	b, _ = proto.Marshal(&apiv1.Frame{Body: &apiv1.Frame_Opened{Opened: &apiv1.Opened{Host: &apiv1.HelloReply{Node: "n\u202e", Uses: []*apiv1.Use{{}, nil}}}}})
	f.Add(b)
	f.Fuzz(func(t *testing.T, text []byte) {
		var m apiv1.Frame
		if proto.Unmarshal(text, &m) != nil {
			return
		}
		defer cost.Watch(t, cost.Parser, len(text))()
		VetFrame(&m)
	})
}
