package rendezvous

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/mpiup/mpiup/test/cost"
)

// Whatever comes over a connection, a message is within the bounds that the register counts on, and goes there and back as it is.
func FuzzMessages(f *testing.F) {
	for _, m := range []Message{
		{Hello: &Hello{Name: "w1", RunID: []byte("none"), Least: 1, Most: 3, Number: -1, Ranks: 8, Port: 20000, Patience: 60}},
		{Welcome: &Welcome{Name: "w0"}},
		{Refusal: &Refusal{Code: 240, Text: "--nnodes is 2 on w0 and 3 on w1"}},
		{Begin: &Begin{Round: 1, Nodes: 2, Node: 1, World: 4, FirstRank: 2, RoleWorld: 4, FirstRoleRank: 2, MasterAddr: "w0", MasterPort: 20000}},
		{End: &End{Round: 1, Text: "node 1 (w1) failed", Code: 3, Again: true}},
		{Leave: &Leave{Round: 1, Text: "its torchrun got SIGTERM"}},
		{Ended: &Ended{Round: 1, Code: 1, Text: "x", Echo: true, Port: 1}},
		{Verdict: &Verdict{Round: 1, Code: 248, Text: "x", Node: 1}},
	} {
		b, err := m.frame()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte{0, 0, 0, 2, '{', '}'})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	f.Add(append([]byte{0, 0, 0x40, 0}, bytes.Repeat([]byte{'['}, 16<<10)...))
	f.Fuzz(func(t *testing.T, input []byte) {
		defer cost.Watch(t, cost.Parser, len(input))()
		m, err := readMessage(bytes.NewReader(input))
		if err != nil {
			return
		}
		b, err := m.frame()
		if err != nil {
			return // JSON that is longer than it came
		}
		again, err := readMessage(bytes.NewReader(b))
		if err != nil {
			t.Fatalf("%s is read, and %s is not", input, b)
		}
		if c, err := again.frame(); err != nil || !bytes.Equal(b, c) {
			t.Errorf("%s becomes %s, %v", b, c, err)
		}
	})
}

// The first bytes of a caller tell who it is, however they are cut, and no more than so many are asked for.
func FuzzCallers(f *testing.F) {
	f.Add([]byte(greeting))
	f.Add([]byte("\x00\xce\xf7\x85\x3c\x07"))
	f.Add([]byte("\x01\x19\x00\x00\x00\x00\x00\x00\x00/torch.rendezvous.none"))
	f.Add([]byte("GET / HTTP/1.1\r\n"))
	f.Add([]byte("\x16\x03\x01\x02\x00\x01"))
	f.Fuzz(func(t *testing.T, input []byte) {
		defer cost.Watch(t, cost.Parser, len(input))()
		first := input[:min(len(input), opening)]
		whole := callerOf(first, true)
		if whole == unknown || len(first) == opening && callerOf(first, false) == unknown {
			t.Errorf("%q: more is asked for than may come", first)
		}
		for n := range len(first) {
			if got := callerOf(first[:n], false); got != unknown && got != whole {
				t.Errorf("%q is of %d, and its first %d bytes of %d", first, whole, n, got)
			}
		}
	})
}

// Whatever nodes say in whatever order: a round has as many nodes as it may have, which share out the ranks; each node that was told
// to begin is told a verdict, unless it is gone; nothing is kept of those that are.
func FuzzRegister(f *testing.F) {
	f.Add([]byte{2, 0, 0, 1, 0, 2, 0, 31, 1, 40, 1, 40, 0})
	f.Add([]byte{0x93, 0, 0, 1, 0, 99, 9, 33, 1, 21, 1, 41, 0, 2, 0, 99, 40})
	f.Fuzz(func(t *testing.T, input []byte) {
		const perEvent = 64 << 10 // messages to all of few nodes
		defer cost.Watch(t, cost.Bound{Fixed: 2 << 20, PerByte: perEvent}, len(input))()
		if len(input) < 1 {
			return
		}
		most := int(input[0]&7) + 1
		least := min(int(input[0]>>3&7)+1, most)
		r := rules{Least: least, Most: most, RunID: []byte("none"), MaxRestarts: int(input[0] >> 6), Join: time.Minute, LastCall: 10 * time.Second,
			Static: input[0]&1 == 1}
		g := newRegister(r, 0)
		now := time.Duration(0)
		begun := map[int]bool{}

		look := func() {
			starting := map[int]*Begin{}
			for _, o := range g.take() {
				switch m := o.msg; {
				case m.Begin != nil:
					starting[o.to] = m.Begin
					begun[o.to] = true
				case m.Verdict != nil:
					delete(begun, o.to)
				}
				if o.say == "" && !o.msg.sound() {
					t.Fatalf("an order that nobody would take: %+v", o)
				}
			}
			if len(starting) == 0 {
				return
			}
			next := 0
			for node := range len(starting) {
				var b *Begin
				var m *member
				for id, begin := range starting {
					if begin.Node == node {
						b, m = begin, g.members[id]
					}
				}
				if b == nil || b.FirstRank != next || b.Nodes != len(starting) || b.Nodes < least || b.Nodes > most {
					t.Fatalf("node %d of %d begins as %+v", node, len(starting), b)
				}
				next += m.hello.Ranks
			}
		}

		for pair := range slices.Chunk(input[1:], 2) {
			id := int(pair[0] % 10)
			arg := 0
			if len(pair) > 1 {
				arg = int(pair[1])
			}
			switch pair[0] / 10 % 7 {
			case 0:
				if g.members[id] == nil {
					g.join(now, id, "10.0.0.1", Hello{Name: fmt.Sprint("w", id), RunID: []byte("none"), Least: least, Most: most, Number: arg%12 - 1,
						Ranks: arg%5 + 1, Port: 1, Patience: arg})
				}
			case 1:
				g.hear(now, id, Message{Leave: &Leave{Round: g.round - arg%2}})
			case 2:
				g.gone(now, id, "x")
				delete(begun, id)
			case 3:
				g.hear(now, id, Message{End: &End{Round: g.round - arg%2, Code: arg}})
			case 4:
				g.hear(now, id, Message{Ended: &Ended{Round: g.round, Code: arg % 4, Echo: arg&4 > 0, Final: arg&8 > 0, Port: 1}})
			default:
				now += time.Duration(arg) * time.Second
				g.tick(now)
			}
			look()
			if len(g.members) > most || len(g.causes) > 10 {
				t.Fatalf("%d members and %d causes", len(g.members), len(g.causes))
			}
		}
		now += time.Hour // ranks that do not end are given up, and others have their time
		g.tick(now)
		look()
		if g.state == ending || g.state != running && len(begun) > 0 {
			t.Errorf("state %d, and without a verdict are %v", g.state, begun)
		}
	})
}
