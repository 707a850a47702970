package pmix_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/pmi/kvs"
	"github.com/mpiup/mpiup/pmi/pmix"
	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
	"github.com/mpiup/mpiup/pmi/pmix/jobdata"
	"github.com/mpiup/mpiup/test/golden"
)

// dialogue is what went over all connections of a server, in order:
//
//	CONNECTION hello HEX
//	CONNECTION > TAG HEX       a request
//	CONNECTION < TAG STATUS    its answer; "data" for job data
//	CONNECTION < TAG STATUS HEX
type dialogue struct {
	whole bool // answers are written down whole, but for job data

	mu    sync.Mutex
	lines []string // guarded by mu
	conns int      // guarded by mu
}

func (d *dialogue) line(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}

// overhearing is a listener whose connections are written down.
type overhearing struct {
	net.Listener
	d *dialogue
}

func (o overhearing) Accept() (net.Conn, error) {
	c, err := o.Listener.Accept()
	if err != nil {
		return nil, err
	}
	o.d.mu.Lock()
	defer o.d.mu.Unlock()
	o.d.conns++
	return &overheard{Conn: c, d: o.d, n: o.d.conns}, nil
}

type overheard struct {
	net.Conn
	d       *dialogue
	n       int
	in      []byte // of the client, not yet a frame; only Read has it
	greeted bool
	hello   bfrops.Hello // only Read writes it, before there is anything to answer
}

func (c *overheard) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.in = append(c.in, p[:n]...)
	for len(c.in) >= bfrops.HeaderLen {
		size := int(binary.BigEndian.Uint32(c.in[8:]))
		if !c.greeted {
			size = int(binary.LittleEndian.Uint32(c.in[8:]))
		}
		if size += bfrops.HeaderLen; len(c.in) < size {
			break
		}
		if c.greeted {
			c.d.line("%d > %d %x", c.n, binary.BigEndian.Uint32(c.in[4:]), c.in[bfrops.HeaderLen:size])
		} else {
			c.d.line("%d hello %x", c.n, c.in[:size])
			c.hello, _ = bfrops.ReadHello(bytes.NewReader(c.in[:size])) // the server says what is wrong with it
		}
		c.greeted, c.in = true, c.in[size:]
	}
	return n, err
}

func (c *overheard) Write(p []byte) (int, error) {
	if tag := uint32(0); len(p) >= bfrops.HeaderLen { // else the handshake's answer
		if tag = binary.BigEndian.Uint32(p[4:]); tag != bfrops.TagEvent {
			outcome := outcomeOf(c.hello, p[bfrops.HeaderLen:])
			if c.d.whole && outcome != "data" {
				outcome += fmt.Sprintf(" %x", p[bfrops.HeaderLen:])
			}
			c.d.line("%d < %d %s", c.n, tag, outcome)
		}
	}
	return c.Conn.Write(p)
}

// outcomeOf is the status that an answer begins with; job data begins with a namespace.
func outcomeOf(h bfrops.Hello, payload []byte) string {
	d, err := bfrops.Find(h.Codec)
	if err != nil {
		return err.Error()
	}
	desc := h.Buffer == bfrops.FullyDesc
	if bfrops.One[string](bfrops.NewReader(d, desc, payload), bfrops.String) == h.Namespace {
		return "data"
	}
	return fmt.Sprint(bfrops.One[int64](bfrops.NewReader(d, desc, payload), bfrops.Status))
}

// What a real rank that spawns another, and the other, said. -update records it with the Open MPI
// that is there; that of 5.0.7 was recorded in a tree of Debian 13.
func TestSpawnDialogues(t *testing.T) {
	if golden.Updating() {
		j := &trial{hosts: 1, perHost: 1, dialogue: &dialogue{}}
		j.run(t, program(t, "spawned"), "self").clean(t)
		text := "# Open MPI 4.1.4 with libpmix 4.2.2: rank 0 spawns one process with MPI_COMM_SELF\n"
		if err := os.WriteFile("testdata/openmpi-4.1.4-spawn.dialogue", []byte(text+strings.Join(j.dialogue.lines, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	replayAll(t, "testdata/openmpi-*.dialogue", replayDialogue)
}

// actor is a client of a dialogue.
type actor struct {
	nc      net.Conn
	hello   bfrops.Hello
	answers map[uint32]chan []byte // by tag
}

func replayDialogue(t *testing.T, text string) {
	var hellos []bfrops.Hello
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); f[0] != "#" && f[1] == "hello" {
			h, err := bfrops.ReadHello(bytes.NewReader(unhex(t, f[2])))
			if err != nil {
				t.Fatal(err)
			}
			hellos = append(hellos, h)
		}
	}
	l, stop := stage(t, hellos)
	defer stop()
	actors := map[string]*actor{}
	var readers sync.WaitGroup
	defer readers.Wait()
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if f[0] == "#" {
			continue
		}
		a := actors[f[0]]
		switch f[1] {
		case "hello":
			a = enter(t, l, unhex(t, f[2]))
			actors[f[0]] = a
			defer a.nc.Close()
			readers.Go(a.listen)
		case ">":
			(&raw{t, a.nc}).send(number(t, f[2]), unhex(t, f[3]))
		case "<":
			select {
			case got := <-a.answers[number(t, f[2])]:
				if outcome := outcomeOf(a.hello, got); outcome != f[3] || len(f) > 4 && hex.EncodeToString(got) != f[4] {
					t.Errorf("%s, answered %s %x", strings.TrimSpace(line), outcome, got)
				}
			case <-time.After(20 * time.Second):
				t.Fatalf("no answer: %s", line)
			}
		}
	}
}

// stage is a server of the first job that clients say hello from, which spawns the next.
func stage(t *testing.T, hellos []bfrops.Hello) (*pipes, func()) {
	l := newPipes()
	var namespaces []string
	sizes := map[string]int{}
	for _, h := range hellos {
		if sizes[h.Namespace] == 0 {
			namespaces = append(namespaces, h.Namespace)
		}
		sizes[h.Namespace] = max(sizes[h.Namespace], int(h.Rank)+1)
	}
	var srv *pmix.Server
	engine := kvs.New(kvs.Run{})
	var spaces []*kvs.Space
	add := func(number int) {
		ranks := make([]int, sizes[namespaces[number]])
		for r := range ranks {
			ranks[r] = r
		}
		e, err := engine.Add(kvs.Job{Number: number, Base: number, KVSName: "test", Size: len(ranks), Local: ranks})
		if err != nil {
			t.Fatal(err)
		}
		spaces = append(spaces, e)
		j := pmix.Job{Job: jobdata.Job{Namespace: namespaces[number], Hosts: []jobdata.Host{{Name: "w0", Ranks: ranks}}}, Space: e}
		if number > 0 {
			j.SpawnedBy = &job.Process{}
		}
		if err := srv.Add(j); err != nil {
			t.Error(err)
		}
	}
	srv, err := pmix.New(pmix.Config{Machine: jobdata.Machine{Address: "127.0.0.1:1"}, Engine: engine, Spawn: func(context.Context, int, job.Spawn) (int, error) {
		add(1)
		return 1, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	add(0)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { srv.Run(ctx, l) })
	return l, func() {
		cancel()
		wg.Wait()
		for _, e := range spaces {
			e.Close(nil)
		}
	}
}

func enter(t *testing.T, l *pipes, hello []byte) *actor {
	h, err := bfrops.ReadHello(bytes.NewReader(hello))
	if err != nil {
		t.Fatal(err)
	}
	a := &actor{nc: l.dial(t), hello: h, answers: map[uint32]chan []byte{}}
	for tag := range uint32(1000) {
		a.answers[tag] = make(chan []byte, 1)
	}
	if _, err := a.nc.Write(hello); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 8)
	if _, err := io.ReadFull(a.nc, answer); err != nil || binary.BigEndian.Uint32(answer) != 0 {
		t.Fatalf("answer %x, %v", answer, err)
	}
	return a
}

func (a *actor) listen() {
	for {
		f, err := bfrops.ReadFrame(a.nc)
		if err != nil {
			return
		}
		if c := a.answers[f.Tag]; c != nil && f.Tag != bfrops.TagEvent {
			c <- f.Payload
		}
	}
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func number(t *testing.T, s string) (n uint32) {
	t.Helper()
	if _, err := fmt.Sscan(s, &n); err != nil {
		t.Fatal(err)
	}
	return n
}
