package apiv1

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/mpiup/mpiup/internal/layout"
	"github.com/mpiup/mpiup/test/cost"
)

// message is two cores of one package, the first with two threads, without caches.
func message() *Machine {
	return &Machine{Cpu: []uint32{0, 2, 1}, Core: []uint32{1, 1, 2}, Numa: []uint32{0, 0, 1}, Package: []uint32{1, 1, 1}, Exclusive: true}
}

func TestRoundTrip(t *testing.T) {
	l, err := UnpackMachine(message())
	if err != nil {
		t.Fatal(err)
	}
	if got := l.Draw(l.Objects(layout.Core)[0]); got != "[BB/.]" || !l.Exclusive || len(l.Objects(layout.NUMA)) != 1 || l.Objects(layout.L3) != nil {
		t.Errorf("%s, %d NUMA nodes", got, len(l.Objects(layout.NUMA)))
	}
	if d := cmp.Diff(message(), PackMachine(l), protocmp.Transform()); d != "" {
		t.Error(d)
	}
	if l, err := UnpackMachine(PackMachine(nil)); l != nil || err != nil {
		t.Error(l, err)
	}
}

func TestUnpackRefuses(t *testing.T) {
	for _, tt := range []struct {
		spoil func(*Machine)
		want  string
	}{
		{func(m *Machine) { m.Cpu = nil }, "with 3 numbers of its core"},
		{func(m *Machine) { *m = Machine{} }, "without a usable CPU"},
		{func(m *Machine) { m.Cpu[1] = 1 }, "CPU 1 is out of range or there twice"},
		{func(m *Machine) { m.Cpu[1] = 1 << 31 }, "CPU 8192 is out of range"},
		{func(m *Machine) { m.Package = m.Package[:2] }, "a machine of 3 CPUs with 2 numbers of its package"},
		{func(m *Machine) { m.Cpu = make([]uint32, 8193) }, "8192 are possible"},
	} {
		m := message()
		tt.spoil(m)
		if _, err := UnpackMachine(m); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v, not %s", err, tt.want)
		}
	}
}

// A machine of 128 hardware threads is small beside what opens a session anyway.
func TestSize(t *testing.T) {
	var threads []layout.Thread
	for i := range 128 {
		var th layout.Thread
		th.CPU = i/2 + i%2*64
		for _, k := range layout.Kinds() {
			th.In[k] = i / 2
		}
		th.In[layout.L3], th.In[layout.NUMA], th.In[layout.Package] = i/8, i/32, i/64
		threads = append(threads, th)
	}
	l, err := layout.New(threads)
	if err != nil {
		t.Fatal(err)
	}
	if n := proto.Size(PackMachine(l)); n > 1100 {
		t.Errorf("%d bytes", n)
	}
}

func FuzzUnpack(f *testing.F) {
	seed, err := proto.Marshal(message())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Fuzz(func(t *testing.T, b []byte) {
		defer cost.Watch(t, cost.Parser, len(b))()
		var m Machine
		if proto.Unmarshal(b, &m) != nil {
			return
		}
		l, err := UnpackMachine(&m)
		if err != nil || l == nil {
			return
		}
		again, err := UnpackMachine(PackMachine(l))
		if err != nil || again.Draw(l.CPUs()) != l.Draw(l.CPUs()) || again.Locality(l.CPUs()) != l.Locality(l.CPUs()) {
			t.Errorf("%v: %s", err, l.Draw(l.CPUs()))
		}
		for _, k := range layout.Kinds() {
			for _, o := range l.Objects(k) {
				if !l.CPUs().Covers(o) || o.Empty() {
					t.Errorf("%s %s of %s", k, o, l.CPUs())
				}
			}
		}
	})
}
