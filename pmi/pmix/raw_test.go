package pmix_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	who "github.com/mpiup/mpiup/pmi/client"
	"github.com/mpiup/mpiup/pmi/kvs"
	"github.com/mpiup/mpiup/pmi/pmix"
	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
	"github.com/mpiup/mpiup/pmi/pmix/jobdata"
)

// pipes is a listener in memory, so that time can be faked.
type pipes struct {
	conns chan net.Conn
	over  chan struct{}
	once  sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), over: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.over:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.over) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p *pipes) dial(t testing.TB) net.Conn {
	ours, theirs := net.Pipe()
	select {
	case p.conns <- theirs:
	case <-p.over:
		t.Fatal("the listener is closed")
	}
	return ours
}

const secret = "job-0123456789abcdef"

// lab is one server of a job of two ranks, both here, and what it told.
type lab struct {
	pipes *pipes
	srv   *pmix.Server
	space *kvs.Space
	stop  func()

	mu     sync.Mutex
	events []string
	errs   []error
}

func (l *lab) event(s string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, s)
}

func (l *lab) told() ([]string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.events), errors.Join(l.errs...)
}

func newLab(t testing.TB, change func(*pmix.Config)) *lab {
	return newLabOf(t, secret, []int{0, 1}, change)
}

func newLabOf(t testing.TB, namespace string, ranks []int, change func(*pmix.Config)) *lab {
	engine := kvs.New(kvs.Run{})
	e, err := engine.Add(kvs.Job{KVSName: "test", Size: len(ranks), Local: ranks})
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{pipes: newPipes(), space: e}
	cfg := pmix.Config{Machine: jobdata.Machine{Address: "127.0.0.1:1"}, Engine: engine, Hooks: pmix.Hooks{
		OnInit:     func(r int, _ who.Process) { l.event("init " + string(rune('0'+r))) },
		OnFinalize: func(r int) { l.event("finalize " + string(rune('0'+r))) },
		OnError: func(id int, err error) {
			err = fmt.Errorf("rank %d %w", id, err)
			l.mu.Lock()
			l.errs = append(l.errs, err)
			l.mu.Unlock()
		},
	}}
	if change != nil {
		change(&cfg)
	}
	if l.srv, err = pmix.New(cfg); err != nil {
		t.Fatal(err)
	}
	if err := l.srv.Add(pmix.Job{Space: e, Job: jobdata.Job{Namespace: namespace, Hosts: []jobdata.Host{{Name: "w0", Ranks: ranks}}}}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := l.srv.Run(ctx, l.pipes); err != context.Canceled {
			t.Errorf("Run: %v", err)
		}
	})
	l.stop = sync.OnceFunc(func() {
		cancel()
		wg.Wait()
		e.Close(nil)
	})
	return l
}

// hello is a client's handshake.
func hello(h bfrops.Hello) []byte {
	var b []byte
	text := func(s string) { b = append(append(b, s...), 0) }
	number := func(n uint32) { b = binary.BigEndian.AppendUint32(b, n) }
	text(h.Security)
	number(8)
	b = append(append(b, make([]byte, 8)...), h.Kind)
	text(h.Namespace)
	number(h.Rank)
	text(h.Version)
	text(h.Codec)
	b = append(b, h.Buffer)
	text(h.Store)
	head := append(bytes.Repeat([]byte{0xff}, 8), 0, 0, 0, 0, 0, 0, 0, 0)
	binary.LittleEndian.PutUint32(head[8:], uint32(len(b)))
	return append(head, b...)
}

func good(rank uint32) bfrops.Hello {
	return bfrops.Hello{Security: "native", Namespace: secret, Rank: rank, Version: "4.2.2", Codec: "v41", Buffer: 1, Store: "hash"}
}

// raw is a client that sends what it is told.
type raw struct {
	t  testing.TB
	nc net.Conn
}

func (l *lab) connect(t testing.TB, rank uint32) *raw {
	t.Helper()
	return l.greet(t, l.pipes.dial(t), rank)
}

// greet is the handshake on a connection.
func (l *lab) greet(t testing.TB, nc net.Conn, rank uint32) *raw {
	t.Helper()
	nc.SetDeadline(time.Now().Add(30 * time.Second))
	answer := make([]byte, 8)
	if _, err := nc.Write(hello(good(rank))); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(nc, answer); err != nil || binary.BigEndian.Uint32(answer) != 0 {
		t.Fatalf("answer %x, %v", answer, err)
	}
	return &raw{t, nc}
}

func (c *raw) send(tag uint32, payload []byte) {
	c.t.Helper()
	frame := append(make([]byte, bfrops.HeaderLen), payload...)
	bfrops.FinishFrame(frame, tag)
	if _, err := c.nc.Write(frame); err != nil {
		c.t.Fatal(err)
	}
}

func (c *raw) receive(tag uint32) *bfrops.Reader {
	c.t.Helper()
	f, err := bfrops.ReadFrame(c.nc)
	if err != nil || f.Tag != tag {
		c.t.Fatalf("tag %d, %v", f.Tag, err)
	}
	return bfrops.NewReader(bfrops.Canonical(), false, f.Payload)
}

// ask sends a command and returns the status of its answer.
func (c *raw) ask(tag uint32, command int, more func(*bfrops.Writer)) int {
	c.t.Helper()
	c.send(tag, request(command, more))
	return int(bfrops.One[int64](c.receive(tag), bfrops.Status))
}

func request(command int, more func(*bfrops.Writer)) []byte {
	w := bfrops.NewWriter(bfrops.Canonical(), false, nil)
	w.Group(bfrops.Command, uint64(command))
	if more != nil {
		more(w)
	}
	b, _ := w.Bytes()
	return b
}
