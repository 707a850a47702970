package pmix_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mpiup/mpiup/pmi/kvs"
	"github.com/mpiup/mpiup/pmi/pmix"
	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
	"github.com/mpiup/mpiup/pmi/pmix/ptl"
	"github.com/mpiup/mpiup/pmi/spawn"
)

// dialogue is what went over all connections of a server, in order:
//
//	CONNECTION hello HEX
//	CONNECTION > TAG HEX       a request
//	CONNECTION < TAG STATUS    its answer; "data" for job data
type dialogue struct {
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
}

func (c *overheard) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.in = append(c.in, p[:n]...)
	for len(c.in) >= ptl.HeaderLen {
		size := int(binary.BigEndian.Uint32(c.in[8:]))
		if !c.greeted {
			size = int(binary.LittleEndian.Uint32(c.in[8:]))
		}
		if size += ptl.HeaderLen; len(c.in) < size {
			break
		}
		if c.greeted {
			c.d.line("%d > %d %x", c.n, binary.BigEndian.Uint32(c.in[4:]), c.in[ptl.HeaderLen:size])
		} else {
			c.d.line("%d hello %x", c.n, c.in[:size])
		}
		c.greeted, c.in = true, c.in[size:]
	}
	return n, err
}

func (c *overheard) Write(p []byte) (int, error) {
	if tag := uint32(0); len(p) >= ptl.HeaderLen { // else the handshake's answer
		if tag = binary.BigEndian.Uint32(p[4:]); tag != ptl.TagEvent {
			c.d.line("%d < %d %s", c.n, tag, outcomeOf(p[ptl.HeaderLen:]))
		}
	}
	return c.Conn.Write(p)
}

// outcomeOf is the status that an answer begins with; job data begins with a namespace.
func outcomeOf(payload []byte) string {
	if name := bfrops.NewReader(bfrops.Canonical(), false, payload); bfrops.One[string](name, bfrops.String) != "" && name.Err() == nil {
		return "data"
	}
	return fmt.Sprint(bfrops.One[int64](bfrops.NewReader(bfrops.Canonical(), false, payload), bfrops.Status))
}

// What a real rank that spawns another, and the other, said. -update records it with the Open MPI
// that is there; that of 5.0.7 was recorded in a tree of Debian 13.
func TestSpawnDialogues(t *testing.T) {
	if flag.Lookup("update").Value.String() == "true" {
		j := &job{hosts: 1, perHost: 1, dialogue: &dialogue{}}
		j.run(t, program(t, "spawned"), "self").clean(t)
		text := "# Open MPI 4.1.4 with libpmix 4.2.2: rank 0 spawns one process with MPI_COMM_SELF\n"
		if err := os.WriteFile("testdata/openmpi-4.1.4-spawn.dialogue", []byte(text+strings.Join(j.dialogue.lines, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	replayAll(t, "testdata/*.dialogue", replayDialogue)
}

// actor is a client of a dialogue.
type actor struct {
	nc      net.Conn
	answers map[uint32]chan string // by tag
}

func replayDialogue(t *testing.T, text string) {
	hellos := map[string]ptl.Hello{}
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); f[0] != "#" && f[1] == "hello" {
			h, err := ptl.ReadHello(bytes.NewReader(unhex(t, f[2])))
			if err != nil {
				t.Fatal(err)
			}
			hellos[f[0]] = h
		}
	}
	l, stop := stage(t, []string{hellos["1"].Namespace, hellos["2"].Namespace})
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
				if got != f[3] {
					t.Errorf("%s, answered %s", strings.TrimSpace(line), got)
				}
			case <-time.After(20 * time.Second):
				t.Fatalf("no answer: %s", line)
			}
		}
	}
}

// stage is a server of a job of one rank, which spawns another of one rank.
func stage(t *testing.T, namespaces []string) (*pipes, func()) {
	l := newPipes()
	var srv *pmix.Server
	var engines []*kvs.Engine
	add := func(number int) {
		e, err := kvs.New(kvs.Config{KVSName: "test", Size: 1, Local: []int{0}})
		if err != nil {
			t.Fatal(err)
		}
		engines = append(engines, e)
		j := pmix.Job{Number: number, Base: number, Namespace: namespaces[number], Hosts: []pmix.Host{{Name: "w0", Ranks: []int{0}}}, Engine: e}
		if number > 0 {
			j.Parent = &pmix.Parent{}
		}
		if err := srv.Add(j); err != nil {
			t.Error(err)
		}
	}
	srv, err := pmix.New(pmix.Config{Address: "127.0.0.1:1", Spawn: func(context.Context, int, spawn.Request) (int, error) {
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
		for _, e := range engines {
			e.Close(nil)
		}
	}
}

func enter(t *testing.T, l *pipes, hello []byte) *actor {
	a := &actor{nc: l.dial(t), answers: map[uint32]chan string{}}
	for tag := range uint32(1000) {
		a.answers[tag] = make(chan string, 1)
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
		f, err := ptl.ReadFrame(a.nc)
		if err != nil {
			return
		}
		if c := a.answers[f.Tag]; c != nil && f.Tag != ptl.TagEvent {
			c <- outcomeOf(f.Payload)
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
