package rendezvous

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/visible"
)

// rules are what the host's own command line says of the job.
type rules struct {
	Least, Most int
	RunID       []byte
	MaxRestarts int
	Join        time.Duration // how long the fewest are waited for
	LastCall    time.Duration // how long others are, when the fewest are there
	Endpoint    string        // for sentences
	MasterPort  int           // of a static rendezvous; 0: node 0 says
	Static      bool          // nobody can come once ranks run
}

// state is how far the job has come.
type state int

const (
	gathering state = iota
	running
	ending
	over
)

// member is a node as the host knows it.
type member struct {
	id    int
	hello Hello
	from  string // the address it came from, without a port

	node    int  // its number in the round that runs
	runs    bool // it has been told to begin, and has not said yet how its ranks ended
	in      bool // it takes part in this round
	outcome *Ended
}

// cause is what ended a round, or may have.
type cause struct {
	node  int
	text  string
	code  int
	echo  bool // its ranks say that they lost others; a cause that is none comes first
	final bool // nothing is to start again
}

// leaves says that the node's pod is being taken away.
func (c cause) leaves() bool { return c.final && c.code == job.ExitPreempted }

// order is what a register wants done.
type order struct {
	to   int // a member's id
	msg  Message
	drop bool   // the connection is closed behind msg; without msg at once
	say  string // a line for the log; then the rest is empty
}

// hostID is the id of the host's own node.
const hostID = 0

// register keeps who takes part in a job and how far it is. It knows no connection and no clock: what comes is told with the
// time, and orders come out. It belongs to one goroutine.
type register struct {
	rules
	members  map[int]*member
	hostName string // of the pod where the nodes meet; its own node joins first
	state    state
	round    int
	restarts int // after failures

	since    time.Duration // when this gathering began
	lastCall time.Duration // when it ends with those that are there; 0: too few are
	bound    time.Duration // when an ending round is judged without those that have not ended
	causes   []cause       // in the order of their arrival
	grows    string        // who came, for whom the round ends; "": nobody
	told     bool          // that nodes are waited for

	finishing bool // a node's ranks have ended well in this round

	orders []order
}

func newRegister(r rules, now time.Duration) *register {
	return &register{rules: r, members: map[int]*member{}, since: now}
}

// take hands the orders out.
func (g *register) take() []order {
	list := g.orders
	g.orders = nil
	return list
}

func (g *register) send(id int, m Message) { g.orders = append(g.orders, order{to: id, msg: m}) }

func (g *register) say(format string, args ...any) {
	g.orders = append(g.orders, order{say: fmt.Sprintf(format, args...)})
}

// refuse sends a caller away. The log has the reason, too: who can mend it may read only that.
func (g *register) refuse(id int, from string, h Hello, code int, text string) {
	g.orders = append(g.orders, order{to: id, msg: Message{Refusal: &Refusal{Code: code, Text: clip(text)}}, drop: true})
	g.say("%s (%s) is refused: %s", visible.Line(h.Name), from, text)
}

// join takes a node in, or refuses it.
func (g *register) join(now time.Duration, id int, from string, h Hello) {
	if id == hostID {
		g.hostName = visible.Line(h.Name)
	}
	host, caller := g.hostName, visible.Line(h.Name)
	no := func(code int, format string, args ...any) {
		g.refuse(id, from, h, code, fmt.Sprintf(format, args...))
	}

	switch {
	case g.state == over:
		no(job.ExitHosts, "the job at %s is over", g.Endpoint)
		return
	case !bytes.Equal(h.RunID, g.RunID):
		no(job.ExitUsage, "--rdzv-id is %s on %s and %s on %s: give all nodes of a job the same, and each job an endpoint of its own",
			word(g.RunID), host, word(h.RunID), caller)
		return
	case h.Least != g.Least || h.Most != g.Most:
		no(job.ExitUsage, "--nnodes is %s on %s and %s on %s: give all nodes the same",
			nodesText(g.Least, g.Most), host, nodesText(h.Least, h.Most), caller)
		return
	case g.Static && h.Number >= g.Most:
		no(job.ExitUsage, "--node-rank %d: with --nnodes %d the nodes are 0 to %d", h.Number, g.Most, g.Most-1)
		return
	case len(g.members) >= g.Most:
		no(job.ExitHosts, "the job at %s has all of its %s (--nnodes %s)", g.Endpoint, visible.Count(g.Most, "node"), nodesText(g.Least, g.Most))
		return
	case g.state == running && g.finishing:
		no(job.ExitHosts, "the job at %s is about to end: ranks of other nodes have ended well", g.Endpoint)
		return
	case g.ranks()+h.Ranks > maxRanks:
		no(job.ExitUsage, "the job at %s would have more than %d ranks", g.Endpoint, maxRanks)
		return
	}
	for _, m := range g.members {
		if g.Static && h.Number >= 0 && m.hello.Number == h.Number { // else it is a wish: torch's c10d looks at no numbers
			no(job.ExitUsage, "--node-rank %d is said by %s (%s), too: each node says one of its own", h.Number, visible.Line(m.hello.Name), m.from)
			return
		}
	}

	g.members[id] = &member{id: id, hello: h, from: from}
	g.send(id, Message{Welcome: &Welcome{Name: g.hostName}})
	switch g.state {
	case gathering:
		g.gathered(now)
	case running: // a node more than the job runs with, as torch has it: all ranks start again
		g.grows = fmt.Sprintf("%s (%s) has come", visible.Line(h.Name), from)
		g.say("%s: the ranks start again with one node more", g.grows)
		g.end(now, End{Text: g.grows, Again: true}, -1)
	}
}

// ranks are those of all members.
func (g *register) ranks() (n int) {
	for _, m := range g.members {
		n += m.hello.Ranks
	}
	return n
}

// gathered begins a round if it may.
func (g *register) gathered(now time.Duration) {
	switch n := len(g.members); {
	case n >= g.Most:
		g.begin(now)
	case n < g.Least:
		g.lastCall = 0
	case g.Static && g.round > 0: // nobody else can come
		g.begin(now)
	case g.lastCall == 0:
		g.lastCall = now + min(g.LastCall, max(g.since+g.Join-now, 0))
		if g.lastCall <= now {
			g.begin(now)
		}
	}
}

// begin numbers the members and lets them start their ranks.
func (g *register) begin(now time.Duration) {
	g.state = running
	g.round++
	g.lastCall = 0
	g.causes = nil
	g.grows = ""
	g.finishing = false
	list := numbered(g.inOrder())

	world := g.ranks()
	ofRole := map[string]int{}
	for _, m := range list {
		ofRole[string(m.hello.Role)] += m.hello.Ranks
	}
	addr, port := g.master(list[0])
	hostNode := max(slices.IndexFunc(list, func(m *member) bool { return m.id == hostID }), 0)

	first := 0
	firstOfRole := map[string]int{}
	for i, m := range list {
		role := string(m.hello.Role)
		m.node, m.runs, m.in = i, true, true
		m.outcome = nil
		g.send(m.id, Message{Begin: &Begin{
			Round: g.round, Nodes: len(list), Node: i,
			World: world, FirstRank: first, RoleWorld: ofRole[role], FirstRoleRank: firstOfRole[role],
			HostNode: hostNode, MasterAddr: addr, MasterPort: port, Restarts: g.restarts, MaxRestarts: g.MaxRestarts,
		}})
		first += m.hello.Ranks
		firstOfRole[role] += m.hello.Ranks
	}
	if g.told {
		g.say("%s, %s: the ranks begin", visible.Count(len(list), "node"), visible.Count(world, "rank"))
	}
}

// master is where rank 0 is to listen, which is on node 0. Where that is the host, each node meets it by the name by which it reached
// the host: the host's own may be "localhost", as PyTorchJob has it in a master's pod.
func (g *register) master(first *member) (addr string, port int) {
	return cmp.Or(first.hello.Address, first.from), cmp.Or(g.MasterPort, first.hello.Port)
}

// numbered are the members in the order of their numbers: those that asked for one that is there have it, the host is 0 unless it
// asked for another, and the others follow by their names, as a set's pods are numbered.
func numbered(members []*member) []*member {
	list := make([]*member, len(members))
	var rest []*member
	for _, m := range members {
		want := m.hello.Number
		if m.id == hostID && want < 0 {
			want = 0
		}
		if want >= 0 && want < len(list) && (list[want] == nil || m.id == hostID) {
			if other := list[want]; other != nil {
				rest = append(rest, other)
			}
			list[want] = m
			continue
		}
		rest = append(rest, m)
	}
	slices.SortFunc(rest, func(a, b *member) int {
		return cmp.Or(byNumbers(a.hello.Name, b.hello.Name), byNumbers(a.from, b.from), cmp.Compare(a.id, b.id))
	})
	for i := range list {
		if list[i] == nil {
			list[i], rest = rest[0], rest[1:]
		}
	}
	return list
}

// byNumbers compares names so that w2 comes before w10.
func byNumbers(a, b string) int {
	digits := func(s string) int {
		return len(s) - len(strings.TrimLeft(s, "0123456789"))
	}
	for a != "" && b != "" {
		if n, m := digits(a), digits(b); n > 0 && m > 0 {
			x, y := strings.TrimLeft(a[:n], "0"), strings.TrimLeft(b[:m], "0")
			if c := cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y)); c != 0 {
				return c
			}
			a, b = a[n:], b[m:]
			continue
		}
		if a[0] != b[0] {
			return cmp.Compare(a[0], b[0])
		}
		a, b = a[1:], b[1:]
	}
	return cmp.Compare(len(a), len(b))
}

// hear takes what a member says. Of a round that is over nothing counts; false: a node of mpiup's would not say it.
func (g *register) hear(now time.Duration, id int, msg Message) bool {
	m := g.members[id]
	switch {
	case m == nil:
		return false
	case msg.End != nil:
		if msg.End.Round == g.round && m.runs {
			g.failing(now, m, *msg.End)
		}
	case msg.Leave != nil:
		if msg.Leave.Round == g.round && m.runs {
			g.leaving(now, m, *msg.Leave)
		}
	case msg.Ended != nil:
		if msg.Ended.Round == g.round && m.runs {
			g.ended(now, m, *msg.Ended)
		}
	default:
		return false
	}
	return true
}

// name is a member as sentences have it.
func (m *member) name() string {
	return fmt.Sprintf("node %d (%s)", m.node, cmp.Or(visible.Line(m.hello.Name), m.from))
}

// blames says that a node has been found to fail already.
func (g *register) blames(node int) bool {
	return slices.ContainsFunc(g.causes, func(c cause) bool { return c.node == node })
}

// failing: a node ends its ranks, since some of them failed.
func (g *register) failing(now time.Duration, m *member, e End) {
	if g.blames(m.node) {
		return
	}
	g.causes = append(g.causes, cause{node: m.node, text: m.name() + " failed: " + e.Text, code: e.Code})
	g.end(now, End{Text: g.causes[0].text, Code: g.causes[0].code, Again: g.restarts < g.MaxRestarts}, m.node)
}

// leaving: a node's pod is taken away. All ranks have their time.
func (g *register) leaving(now time.Duration, m *member, l Leave) {
	if g.blames(m.node) {
		return
	}
	c := cause{node: m.node, text: m.name() + " is being taken away: " + l.Text, code: job.ExitPreempted, final: true}
	at := slices.IndexFunc(g.causes, func(c cause) bool { return !c.leaves() })
	if at < 0 {
		at = len(g.causes)
	}
	g.causes = slices.Insert(g.causes, at, c) // a failure that is known already may come of it
	if g.state != running {
		return
	}
	g.ends(now)
	for _, other := range g.inOrder() {
		if other != m && other.runs {
			g.send(other.id, Message{Leave: &Leave{Round: g.round, Text: clip(c.text)}})
		}
	}
}

// ended: all ranks of a node have.
func (g *register) ended(now time.Duration, m *member, e Ended) {
	m.runs = false
	m.outcome = &e
	m.hello.Port = e.Port
	g.finishing = g.finishing || e.Code == 0
	if e.Code != 0 && g.grows == "" {
		g.blame(m, e)
		if g.state == running {
			c := g.causes[len(g.causes)-1]
			g.end(now, End{Text: c.text, Code: c.code, Again: g.restarts < g.MaxRestarts && !c.final}, m.node)
		}
	}
	g.conclude(now)
}

// blame notes how a node's ranks failed, in the place of what it had said when it began to end them.
func (g *register) blame(m *member, e Ended) {
	c := cause{node: m.node, text: m.name() + " failed: " + e.Text, code: e.Code, echo: e.Echo, final: e.Final}
	at := slices.IndexFunc(g.causes, func(c cause) bool { return c.node == m.node })
	switch {
	case at >= 0 && g.causes[at].leaves(): // how they end then is no failure of theirs
	case at >= 0:
		g.causes[at] = c
	case g.state == running:
		g.causes = append(g.causes, c)
	}
}

// gone: a member's connection has ended.
func (g *register) gone(now time.Duration, id int, why string) {
	m := g.members[id]
	if m == nil {
		return
	}
	if m.runs {
		c := cause{node: m.node, text: fmt.Sprintf("%s is lost: %s", m.name(), why), code: job.ExitAgentLost}
		g.causes = append(g.causes, c)
		m.runs = false
		delete(g.members, id)
		g.end(now, End{Text: c.text, Code: c.code, Again: g.restarts < g.MaxRestarts}, -1)
		g.conclude(now)
		return
	}
	delete(g.members, id)
	if g.state == gathering {
		g.gathered(now)
	}
}

// ends is the step from running to ending.
func (g *register) ends(now time.Duration) {
	g.state = ending
	patience := 1
	for _, m := range g.members {
		if m.runs {
			patience = max(patience, m.hello.Patience)
		}
	}
	g.bound = now + time.Duration(patience)*time.Second
}

// end has all nodes end their ranks, but one that does so already.
func (g *register) end(now time.Duration, e End, but int) {
	if g.state != running {
		return
	}
	g.ends(now)
	e.Round = g.round
	e.Text = clip(e.Text)
	for _, m := range g.inOrder() {
		if m.runs && m.node != but {
			g.send(m.id, Message{End: &e})
		}
	}
}

// conclude judges a round of which all nodes' ranks have ended.
func (g *register) conclude(now time.Duration) {
	for _, m := range g.members {
		if m.runs {
			return
		}
	}
	c, failed := g.guilty()
	v := Verdict{Round: g.round, Node: -1}
	switch {
	case failed && !c.final && g.restarts < g.MaxRestarts && !(g.Static && len(g.members) < g.Least):
		g.restarts++
		v.Code, v.Text, v.Node, v.Again = c.code, clip(c.text), c.node, true
	case failed:
		v.Code, v.Text, v.Node = c.code, clip(c.text), c.node
	case g.grows != "":
		v.Text, v.Again = clip(g.grows), true
	}
	for _, m := range g.inOrder() {
		if m.in {
			g.send(m.id, Message{Verdict: &v})
		}
		m.in = false
	}
	g.bound = 0
	if v.Again {
		g.state = gathering
		g.since = now
		g.gathered(now)
		return
	}
	g.finish(v)
}

// guilty is the cause that counts: the first but for those that only lost others, where any is left then.
func (g *register) guilty() (cause, bool) {
	if len(g.causes) == 0 {
		return cause{}, false
	}
	if at := slices.IndexFunc(g.causes, func(c cause) bool { return !c.echo }); at >= 0 {
		return g.causes[at], true
	}
	return g.causes[0], true
}

// finish lets all go that are there, those too that came too late to take part.
func (g *register) finish(v Verdict) {
	g.state = over
	for _, m := range g.inOrder() {
		if m.outcome == nil { // it waits for a round that will not be
			code := cmp.Or(v.Code, job.ExitHosts)
			text := cmp.Or(v.Text, "all other nodes' ranks have ended")
			g.send(m.id, Message{Verdict: &Verdict{Round: g.round, Code: code, Text: text, Node: v.Node}})
		}
	}
}

// inOrder are the members by their ids, so that orders have one order.
func (g *register) inOrder() []*member {
	list := make([]*member, 0, len(g.members))
	for _, m := range g.members {
		list = append(list, m)
	}
	slices.SortFunc(list, func(a, b *member) int { return cmp.Compare(a.id, b.id) })
	return list
}

// quiet is how long nodes are waited for before the log says so.
const quiet = 5 * time.Second

// tick does what is due.
func (g *register) tick(now time.Duration) {
	switch {
	case g.state == gathering && g.lastCall > 0 && now >= g.lastCall:
		g.begin(now)
	case g.state == gathering && now >= g.since+g.Join:
		g.tooFew()
	case g.state == gathering && !g.told && now >= g.since+quiet:
		g.told = true
		g.say("%s; %s are waited for at %s for %v (--rdzv-conf join_timeout)", g.here(), nodesText(g.Least, g.Most), g.Endpoint, g.Join)
	case g.state == ending && g.bound > 0 && now >= g.bound:
		for _, m := range g.inOrder() {
			if m.runs {
				m.runs = false
				m.outcome = &Ended{Code: job.ExitAgentLost}
				g.causes = append(g.causes, cause{node: m.node, text: m.name() + " does not say that its ranks have ended", code: job.ExitAgentLost})
			}
		}
		g.conclude(now)
	}
}

// waits says that tick has something to wait for.
func (g *register) waits() bool { return g.state == gathering || g.state == ending }

// here says who has come.
func (g *register) here() string {
	var names []string
	for _, m := range g.inOrder() {
		names = append(names, visible.Line(m.hello.Name))
	}
	const most = 8
	if len(names) > most {
		names = append(names[:most], fmt.Sprintf("%d more", len(names)-most))
	}
	return fmt.Sprintf("%s here (%s)", visible.Count(len(g.members), "node"), strings.Join(names, ", "))
}

// tooFew ends a job that has not got its nodes.
func (g *register) tooFew() {
	text := fmt.Sprintf("%s after %v (--rdzv-conf join_timeout), and --nnodes is %s: see what the torchrun of each other pod says, which comes to %s",
		g.here(), g.Join, nodesText(g.Least, g.Most), g.Endpoint)
	for _, m := range g.members {
		m.outcome = nil
	}
	g.finish(Verdict{Code: job.ExitHosts, Text: text, Node: -1})
}

// nodesText is --nnodes as it is written.
func nodesText(least, most int) string {
	if least == most {
		return fmt.Sprint(most)
	}
	return fmt.Sprintf("%d:%d", least, most)
}

// word is a word of a command line in a sentence.
func word(b []byte) string {
	const most = 60
	text := string(b[:min(len(b), most)])
	return fmt.Sprintf("%q", text)
}
