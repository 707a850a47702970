package apiv1_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/mpiup/mpiup/internal/api/rpc"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/test/golden"
)

// frozen has a line for each thing of the protocol that peers must agree on.
const frozen = "testdata/mpiup.txt"

// TestProtocolIsFrozen: builds of one protocol number mix, so what one of them has written every other reads.
// What is taken away or changed needs another number; what is added needs a thought, and -update.
func TestProtocolIsFrozen(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(frozen)
	if err != nil && !golden.Updating() {
		t.Fatal(err)
	}
	if why := misread(string(text), protocol()); why != "" {
		t.Fatal(why)
	}
	if golden.Updating() {
		golden.Is(t, frozen, protocol())
		return
	}
	if added := without(protocol(), string(text)); len(added) > 0 {
		t.Errorf("%s lacks what mpiup.proto now has:\n  %s\nIf a build without it does the right thing when it is sent this, write it down: go test ./internal/api/v1 -update.\n"+
			"If not, raise Protocol in gen.go from %d first.", frozen, strings.Join(added, "\n  "), apiv1.Protocol)
	}
}

// misread says what an older peer of the same protocol number would misread, "" where there is nothing.
func misread(frozen, now string) string {
	number, _, _ := strings.Cut(now, "\n")
	if before, _, _ := strings.Cut(frozen, "\n"); before != number {
		return "" // peers of another number are refused
	}
	lost := slices.DeleteFunc(without(frozen, now), func(l string) bool {
		name, empty := strings.CutSuffix(l, " {}")
		return empty && strings.Contains(now, "\n"+name+".") // it has got fields
	})
	if len(lost) == 0 {
		return ""
	}
	return fmt.Sprintf("mpiup.proto no longer has:\n  %s\nBuilds of %s misread that. Bring it back under its number and type, or raise Protocol in gen.go and run go test ./internal/api/v1 -update.",
		strings.Join(lost, "\n  "), number)
}

// without are the lines of a text that another lacks.
func without(text, other string) (lines []string) {
	has := maps.Collect(func(yield func(string, bool) bool) {
		for l := range strings.Lines(other) {
			yield(l, true)
		}
	})
	for l := range strings.Lines(text) {
		if !has[l] {
			lines = append(lines, strings.TrimSpace(l))
		}
	}
	return lines
}

// protocol is mpiup.proto, a line for each field, value and method.
func protocol() string {
	lines := []string{}
	file, calls := apiv1.File_mpiup_proto, rpc.File_agent_proto.Services()
	lines = append(lines, messages(file.Messages())...)
	lines = append(lines, enums(file.Enums())...)
	for i := range calls.Len() {
		s := calls.Get(i)
		for j := range s.Methods().Len() {
			m := s.Methods().Get(j)
			lines = append(lines, fmt.Sprintf("rpc %s(%s%s) %s%s", m.FullName(), stream(m.IsStreamingClient()), m.Input().Name(), stream(m.IsStreamingServer()), m.Output().Name()))
		}
	}
	return fmt.Sprintf("protocol %d\n", apiv1.Protocol) + strings.Join(lines, "\n") + "\n"
}

func messages(ms protoreflect.MessageDescriptors) (lines []string) {
	for i := range ms.Len() {
		m := ms.Get(i)
		if m.IsMapEntry() {
			continue
		}
		fields := make([]protoreflect.FieldDescriptor, m.Fields().Len())
		for j := range fields {
			fields[j] = m.Fields().Get(j)
		}
		slices.SortFunc(fields, func(a, b protoreflect.FieldDescriptor) int { return int(a.Number() - b.Number()) })
		for _, f := range fields {
			lines = append(lines, fmt.Sprintf("%s.%s = %d %s", m.Name(), f.Name(), f.Number(), typeOf(f)))
		}
		if len(fields) == 0 {
			lines = append(lines, fmt.Sprintf("%s {}", m.Name()))
		}
		lines = append(lines, messages(m.Messages())...)
		lines = append(lines, enums(m.Enums())...)
	}
	return lines
}

// typeOf is a field's type, with what changes its bytes or its meaning.
func typeOf(f protoreflect.FieldDescriptor) string {
	if f.IsMap() {
		return fmt.Sprintf("map<%s, %s>", typeOf(f.MapKey()), typeOf(f.MapValue()))
	}
	name := f.Kind().String()
	switch {
	case f.Message() != nil:
		name = string(f.Message().Name())
	case f.Enum() != nil:
		name = string(f.Enum().Name())
	}
	switch {
	case f.IsList():
		name = "repeated " + name
	case f.HasOptionalKeyword():
		name = "optional " + name
	case f.ContainingOneof() != nil:
		name += " of " + string(f.ContainingOneof().Name())
	}
	return name
}

func enums(es protoreflect.EnumDescriptors) (lines []string) {
	for i := range es.Len() {
		for j := range es.Get(i).Values().Len() {
			v := es.Get(i).Values().Get(j)
			lines = append(lines, fmt.Sprintf("%s.%s = %d", es.Get(i).Name(), v.Name(), v.Number()))
		}
	}
	return lines
}

func stream(yes bool) string {
	if yes {
		return "stream "
	}
	return ""
}

func TestMisread(t *testing.T) {
	t.Parallel()
	const before = "protocol 1\nA.x = 1 string\nA.y = 2 bool\n"
	for _, c := range []struct{ name, now, says string }{
		{"the same", before, ""},
		{"a field more", before + "A.z = 3 bool\n", ""},
		{"another type", "protocol 1\nA.x = 1 bytes\nA.y = 2 bool\n", "A.x = 1 string\nBuilds of protocol 1 misread that."},
		{"a field less", "protocol 1\nA.x = 1 string\n", "A.y = 2 bool"},
		{"a field less, another protocol", "protocol 2\nA.x = 1 string\n", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := misread(before, c.now); (got == "") != (c.says == "") || !strings.Contains(got, c.says) {
				t.Errorf("%q", got)
			}
		})
	}
}
