package pmix_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	who "github.com/mpiup/mpiup/pmi/client"
	"github.com/mpiup/mpiup/pmi/pmix"
	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
)

// An agent that gets no CPU is late, and its rank has said in time who it is: it is answered, however late that is, and served.
func TestHandshakeOfAServerThatIsLate(t *testing.T) {
	for _, tt := range []struct {
		name string
		late func(*pmix.Config)
	}{
		{"the start of the rank is not noted yet", func(c *pmix.Config) { c.Hooks.OnInit = func(int, who.Process) { time.Sleep(6 * time.Second) } }},
		{"whose the connection is, is not known yet", func(c *pmix.Config) {
			c.Check = func(context.Context, net.Conn) (nobody who.Process, err error) {
				time.Sleep(6 * time.Second)
				return nobody, nil
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, tt.late)
				defer l.stop()
				rank := l.connect(t, 0)
				defer rank.nc.Close()
				if st := rank.ask(101, 5, nil); st != 0 {
					t.Errorf("FINALIZE is answered with %d", st)
				}
			})
		})
	}
}

// failing is a connection whose writes fail once they were counted down.
type failing struct {
	net.Conn
	left int
}

func (f *failing) Write(b []byte) (int, error) {
	if f.left--; f.left < 0 {
		return 0, errors.New("no buffer space available")
	}
	return f.Conn.Write(b)
}

// Who cannot be answered is hung up on, in whatever his question was, and the caller is told once that he left.
func TestWhoCannotBeAnsweredIsHungUpOn(t *testing.T) {
	for _, tt := range []struct {
		name     string
		answered int // writes that succeed, the handshake's first
		asks     []func(*raw)
	}{
		{"handshake", 0, nil},
		{"at once", 1, []func(*raw){func(c *raw) { c.send(101, request(0, nil)) }}},
		{"a barrier", 1, []func(*raw){func(c *raw) { c.send(101, request(cmdFence, alone)) }}},
		{"an unknown request", 1, []func(*raw){func(c *raw) { c.send(101, request(33, nil)) }}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, nil)
				defer l.stop()
				ours, theirs := net.Pipe()
				l.pipes.conns <- &failing{theirs, tt.answered}
				defer ours.Close()
				if _, err := ours.Write(hello(good(0))); err != nil {
					t.Fatal(err)
				}
				answer := make([]byte, 8)
				if tt.answered > 0 {
					if _, err := io.ReadFull(ours, answer); err != nil || binary.BigEndian.Uint32(answer) != 0 {
						t.Fatalf("the handshake is answered with %x, %v", answer, err)
					}
				}
				for _, ask := range tt.asks {
					ask(&raw{t, ours})
				}
				begin := time.Now()
				_ = ours.SetReadDeadline(begin.Add(time.Hour)) // virtual
				if b, err := io.ReadAll(ours); err != nil || len(b) != 0 || time.Since(begin) > time.Second {
					t.Errorf("it gets %x, %v after %v", b, err, time.Since(begin))
				}
				synctest.Wait()
				if _, err := l.told(); !errors.Is(err, pmix.ErrUnfinished) {
					t.Errorf("the caller is told %v", err)
				}
			})
		})
	}
}

// alone is a barrier of rank 0 with itself.
func alone(w *bfrops.Writer) {
	bfrops.PutCounted(w, bfrops.ProcType, []bfrops.Proc{{Namespace: secret, Rank: 0}})
	w.Infos(nil)
}

// A rank that has taken its leave and waits for no answer, since its server is late (libpmix waits for two seconds in PMIx_Finalize),
// has finalized: what it said before it went is read, though it cannot be answered.
func TestTheLastWordOfARankThatHasGone(t *testing.T) {
	late := make(chan struct{})
	l := newLab(t, func(c *pmix.Config) { c.Hooks.OnInit = func(int, who.Process) { <-late } })
	defer l.stop()
	port, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer port.Close()
	rank, err := net.Dial("tcp4", port.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	served, err := port.Accept()
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	l.pipes.conns <- &ended{Conn: served, over: over}
	said := hello(good(0))
	for tag, command := range []int{0, 0, 0, 5} {
		frame := append(make([]byte, bfrops.HeaderLen), request(command, nil)...)
		bfrops.FinishFrame(frame, uint32(100+tag))
		said = append(said, frame...)
	}
	if _, err := rank.Write(said); err != nil {
		t.Fatal(err)
	}
	rank.Close()
	close(late)
	<-over
	if _, err := l.told(); err != nil {
		t.Errorf("the caller is told %v", err)
	}
}

// ended is a connection that tells when it is closed.
type ended struct {
	net.Conn
	over chan struct{}
	once sync.Once
}

func (e *ended) Close() error {
	err := e.Conn.Close()
	e.once.Do(func() { close(e.over) })
	return err
}

func (e *ended) CloseWrite() error { return e.Conn.(*net.TCPConn).CloseWrite() }
