package rendezvous

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mpiup/mpiup/test/golden"
)

// Scripts of what nodes do, each with what the host answers: testdata/*.txt. "go test -update" writes the answers.
//
//	rules 1:3 [static] [restarts=N] [join=5s] [call=2s]
//	join ID NAME [nnodes=2] [id=x] [rank=N] [ranks=N] [role=x]
//	fail ID CODE: TEXT  |  leave ID: TEXT  |  ended ID CODE [echo] [final]: TEXT  |  gone ID: WHY  |  at TIME
func TestScripts(t *testing.T) {
	golden.Play(t, func(t *testing.T, out *strings.Builder) func(string) {
		return (&script{t: t, out: out}).do
	})
}

// script plays one register at a time.
type script struct {
	t   *testing.T
	out *strings.Builder
	g   *register
	now time.Duration
}

func (s *script) do(line string) {
	keys, text, _ := strings.Cut(line, ": ")
	words := strings.Fields(keys)
	id := 0
	if len(words) > 1 && words[0] != "rules" && words[0] != "at" {
		id = s.number(words[1])
	}
	switch words[0] {
	case "rules":
		s.now = 0
		s.g = newRegister(s.rules(words[1:]), 0)
	case "join":
		h := Hello{Name: words[2], RunID: []byte("none"), Least: s.g.Least, Most: s.g.Most, Number: -1, Ranks: 2, Role: []byte("default"),
			Port: 20000 + id, Patience: 60}
		for _, w := range words[3:] {
			name, value, _ := strings.Cut(w, "=")
			switch name {
			case "nnodes":
				h.Least, h.Most = s.nodes(value)
			case "id":
				h.RunID = []byte(value)
			case "rank":
				h.Number = s.number(value)
			case "ranks":
				h.Ranks = s.number(value)
			case "role":
				h.Role = []byte(value)
			}
		}
		from := fmt.Sprintf("10.0.0.%d", id)
		if id == hostID { // by its pipe
			from = ""
		}
		s.g.join(s.now, id, from, h)
	case "fail":
		s.hear(id, Message{End: &End{Round: s.g.round, Text: text, Code: s.number(words[2])}})
	case "leave":
		s.hear(id, Message{Leave: &Leave{Round: s.g.round, Text: text}})
	case "ended":
		e := Ended{Round: s.g.round, Code: s.number(words[2]), Text: text, Port: 21000 + id}
		for _, w := range words[3:] {
			e.Echo, e.Final = e.Echo || w == "echo", e.Final || w == "final"
		}
		s.hear(id, Message{Ended: &e})
	case "begin": // which no node says
		s.hear(id, Message{Begin: &Begin{}})
	case "gone":
		s.g.gone(s.now, id, text)
	case "at":
		d, err := time.ParseDuration(words[1])
		if err != nil {
			s.t.Fatal(err)
		}
		s.now = d
		s.g.tick(s.now)
	default:
		s.t.Fatalf("no word %q", line)
	}
	s.answers()
}

func (s *script) hear(id int, m Message) {
	if !s.g.hear(s.now, id, m) {
		fmt.Fprintln(s.out, "  nobody of mpiup's says that")
	}
}

// answers prints the orders, and sees that those who begin share out the ranks.
func (s *script) answers() {
	begun := 0
	ranks, world := 0, 0
	for _, o := range s.g.take() {
		switch m := o.msg; {
		case o.say != "":
			fmt.Fprintln(s.out, "  log:", o.say)
		case m.Welcome != nil:
			fmt.Fprintf(s.out, "  %d: welcome to %s\n", o.to, m.Welcome.Name)
		case m.Refusal != nil:
			fmt.Fprintf(s.out, "  %d: refused with %d: %s\n", o.to, m.Refusal.Code, m.Refusal.Text)
		case m.Begin != nil:
			b := m.Begin
			fmt.Fprintf(s.out, "  %d: begin round %d as node %d of %d, rank %d of %d, role rank %d of %d, at %s:%d, restart %d of %d\n", o.to, b.Round,
				b.Node, b.Nodes, b.FirstRank, b.World, b.FirstRoleRank, b.RoleWorld, b.MasterAddr, b.MasterPort, b.Restarts, b.MaxRestarts)
			begun++
			ranks += s.g.members[o.to].hello.Ranks
			world = b.World
		case m.End != nil:
			fmt.Fprintf(s.out, "  %d: end%s with %d: %s\n", o.to, again(m.End.Again), m.End.Code, m.End.Text)
		case m.Leave != nil:
			fmt.Fprintf(s.out, "  %d: leave: %s\n", o.to, m.Leave.Text)
		case m.Verdict != nil:
			fmt.Fprintf(s.out, "  %d: verdict%s %d, node %d: %s\n", o.to, again(m.Verdict.Again), m.Verdict.Code, m.Verdict.Node, m.Verdict.Text)
		}
	}
	if begun > 0 && (ranks != world || begun < s.g.Least || begun > s.g.Most) {
		s.t.Errorf("%d nodes begin with %d of %d ranks", begun, ranks, world)
	}
}

func again(yes bool) string {
	return map[bool]string{true: " (again)"}[yes]
}

func (s *script) rules(words []string) (r rules) {
	r = rules{RunID: []byte("none"), Join: 10 * time.Minute, LastCall: 30 * time.Second, Endpoint: "w0:29400"}
	r.Least, r.Most = s.nodes(words[0])
	for _, w := range words[1:] {
		name, value, _ := strings.Cut(w, "=")
		switch name {
		case "static":
			r.Static, r.MasterPort = true, 29500
		case "restarts":
			r.MaxRestarts = s.number(value)
		case "join", "call":
			d, err := time.ParseDuration(value)
			if err != nil {
				s.t.Fatal(err)
			}
			if name == "join" {
				r.Join = d
			} else {
				r.LastCall = d
			}
		}
	}
	return r
}

func (s *script) nodes(text string) (least, most int) {
	a, b, ranged := strings.Cut(text, ":")
	if !ranged {
		b = a
	}
	return s.number(a), s.number(b)
}

func (s *script) number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

func TestNamesGoByTheirNumbers(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{
		{"w2", "w10", -1}, {"w10", "w2", 1}, {"w02", "w2", 0}, {"a", "b", -1}, {"w", "w0", -1}, {"job-1-10", "job-2-1", -1}, {"", "", 0},
		{"10.0.0.9", "10.0.0.10", -1}, {"w99999999999999999999", "w100000000000000000000", -1},
	} {
		if got := byNumbers(tt.a, tt.b); got != tt.want {
			t.Errorf("%q and %q: %d", tt.a, tt.b, got)
		}
	}
}
