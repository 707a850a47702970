package loopback

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mpiup/mpiup/pmi/client"
)

// pipes is a listener for connections in memory.
type pipes struct {
	conns  chan net.Conn
	fail   chan error
	closed chan struct{}
	close  func()
}

func newPipes() *pipes {
	p := &pipes{conns: make(chan net.Conn), fail: make(chan error), closed: make(chan struct{})}
	p.close = sync.OnceFunc(func() { close(p.closed) })
	return p
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case err := <-p.fail:
		return nil, err
	case <-p.closed:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { p.close(); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// knock connects, and waits in the listener's queue if it must.
func (p *pipes) knock(t testing.TB) net.Conn {
	t.Helper()
	ours, theirs := net.Pipe()
	select {
	case p.conns <- theirs:
	case <-p.closed:
		t.Error("the port is closed")
	}
	return ours
}

// open is a lobby at work: it admits who sends "hi" and answers "yes", then echoes.
type open struct {
	*pipes
	cancel context.CancelCauseFunc
	ended  chan error
	log    bytes.Buffer // complete once it has ended
}

func opened(t testing.TB, change func(*Config)) *open {
	o := &open{pipes: newPipes(), ended: make(chan error, 1)}
	cfg := Config{Name: "test", Admit: greet, Log: slog.New(slog.NewTextHandler(&o.log, nil))}
	if change != nil {
		change(&cfg)
	}
	var ctx context.Context
	ctx, o.cancel = context.WithCancelCause(t.Context())
	lb := New(cfg)
	go func() { o.ended <- lb.Run(ctx, o.pipes) }()
	return o
}

func greet(c net.Conn, _ client.Process) (func(context.Context), error) {
	word := make([]byte, 2)
	if _, err := io.ReadFull(c, word); err != nil {
		return nil, err
	}
	switch string(word) {
	case "hi":
		return func(context.Context) {
			c.Write([]byte("yes"))
			io.Copy(c, c)
		}, nil
	case "no": // it is turned away
		return func(context.Context) { c.Write([]byte("bye")) }, nil
	}
	return nil, errors.New("it does not know the word")
}

var errOver = errors.New("the job is over")

func (o *open) end(t testing.TB) {
	t.Helper()
	o.cancel(errOver)
	if err := <-o.ended; !errors.Is(err, errOver) {
		t.Errorf("it ended with %v", err)
	}
}

// comes in, with an answer to show for it.
func comesIn(t testing.TB, c net.Conn) {
	t.Helper()
	got := make([]byte, 3)
	c.Write([]byte("hi"))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != "yes" {
		t.Errorf("it got %q, %v", got, err)
	}
}

func TestOnlyWhoKnowsTheWordIsServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := opened(t, nil)
		good := o.knock(t)
		comesIn(t, good)
		bad := o.knock(t)
		bad.Write([]byte("??"))
		if b, err := io.ReadAll(bad); err != nil || len(b) != 0 {
			t.Errorf("a stranger gets %q, %v", b, err)
		}
		away := o.knock(t)
		away.Write([]byte("no"))
		if b, err := io.ReadAll(away); err != nil || string(b) != "bye" {
			t.Errorf("one that is turned away gets %q, %v", b, err)
		}
		time.Sleep(2 * stay) // the fake clock's: no deadline is left on one that is served
		if _, err := good.Write([]byte("x")); err != nil {
			t.Error(err)
		}
		if b := make([]byte, 1); !served(good, b) {
			t.Error("no echo")
		}
		o.end(t)
		if b, err := io.ReadAll(good); err != nil || len(b) != 0 {
			t.Errorf("after the end %q, %v", b, err)
		}
		if n := strings.Count(o.log.String(), "refused a test connection"); n != 1 {
			t.Errorf("the log: %s", o.log.String())
		}
	})
}

func served(c net.Conn, b []byte) bool {
	_, err := io.ReadFull(c, b)
	return err == nil
}

func TestASilentGuestHasFiveSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := opened(t, nil)
		defer o.end(t)
		begin := time.Now()
		c := o.knock(t)
		c.Write([]byte("h"))
		if b, err := io.ReadAll(c); err != nil || len(b) != 0 || time.Since(begin) != stay {
			t.Errorf("it gets %q, %v after %v", b, err, time.Since(begin))
		}
	})
}

// Check is asked before anything is read, and a slow one ends with the guest's time.
func TestCheckComesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		verdicts := make(chan error, 1)
		rank, told := client.Process{PID: 7, Start: 9}, make(chan client.Process, 1)
		o := opened(t, func(c *Config) {
			c.Admit = func(conn net.Conn, who client.Process) (func(context.Context), error) {
				told <- who
				return greet(conn, who)
			}
			c.Check = func(ctx context.Context, _ net.Conn) (client.Process, error) {
				select {
				case err := <-verdicts:
					return rank, err
				case <-ctx.Done():
					return client.Process{}, ctx.Err()
				}
			}
		})
		defer o.end(t)
		verdicts <- nil
		good := o.knock(t)
		comesIn(t, good)
		good.Close()
		if who := <-told; who != rank {
			t.Errorf("it was told that %+v had come", who)
		}
		verdicts <- errors.New("not one of ours")
		bad := o.knock(t)
		if _, err := bad.Write([]byte{0}); err == nil {
			t.Error("something was read")
		}
		begin := time.Now()
		slow := o.knock(t)
		if _, err := slow.Write([]byte{0}); err == nil || time.Since(begin) != stay {
			t.Errorf("read: %v after %v", err, time.Since(begin))
		}
	})
}

// Those who hold places without a word give way after a second each, oldest first, and only when
// others wait.
func TestSilentGuestsGiveWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := opened(t, nil)
		defer o.end(t)
		begin := time.Now()
		var first net.Conn
		for i := range places {
			c := o.knock(t)
			defer c.Close()
			if i == 0 {
				first = c
			}
		}
		c := o.knock(t)
		comesIn(t, c)
		if d := time.Since(begin); d != patience {
			t.Errorf("it got in after %v", d)
		}
		if b, err := io.ReadAll(first); err != nil || len(b) != 0 || time.Since(begin) != patience {
			t.Errorf("the oldest got %q, %v after %v", b, err, time.Since(begin))
		}
		c.Close()
	})
}

// 500 strangers that say nothing hold a rank up for as long as it takes to see eight times 64 of
// them out.
func TestARankAmongManySilentStrangers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := opened(t, nil)
		begin := time.Now()
		var wg sync.WaitGroup
		for range 500 {
			wg.Go(func() { io.Copy(io.Discard, o.knock(t)) })
		}
		synctest.Wait() // all are in the lobby or its queue
		c := o.knock(t)
		comesIn(t, c)
		if d := time.Since(begin); d > 8*patience {
			t.Errorf("it got in after %v", d)
		}
		o.end(t)
		c.Close()
		wg.Wait()
		if n := strings.Count(o.log.String(), "refused a test connection"); n != maxTold {
			t.Errorf("%d lines in the log", n)
		}
		if !strings.Contains(o.log.String(), "it gave way to another after 1s without saying who it is") ||
			!strings.Contains(o.log.String(), "further refused connections are logged at debug level only") {
			t.Error(o.log.String())
		}
	})
}

// With Check, the places of those whom it knows for strangers are free at once.
func TestRefusedStrangersHoldNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		strangers := sync.Map{}
		o := opened(t, func(c *Config) {
			c.Check = func(_ context.Context, conn net.Conn) (client.Process, error) {
				if _, ok := strangers.Load(conn); ok {
					return client.Process{}, errors.New("a stranger")
				}
				return client.Process{}, nil
			}
		})
		defer o.end(t)
		begin := time.Now()
		for range 500 {
			ours, theirs := net.Pipe()
			strangers.Store(theirs, true)
			o.conns <- theirs
			defer ours.Close()
		}
		c := o.knock(t)
		comesIn(t, c)
		c.Close()
		if d := time.Since(begin); d != 0 {
			t.Errorf("it got in after %v", d)
		}
	})
}

// What passes does not end the port, anything else does.
func TestListenersThatFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := opened(t, nil)
		c := o.knock(t)
		comesIn(t, c)
		for _, err := range []error{syscall.ECONNABORTED, syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM} {
			o.fail <- &net.OpError{Op: "accept", Err: err}
		}
		d := o.knock(t)
		comesIn(t, d)
		d.Close()
		o.fail <- fmt.Errorf("accept: %w", syscall.EINVAL)
		if err := <-o.ended; !errors.Is(err, syscall.EINVAL) || !strings.HasPrefix(err.Error(), "test listener: ") {
			t.Errorf("it ended with %v", err)
		}
		if b, err := io.ReadAll(c); err != nil || len(b) != 0 {
			t.Errorf("one that was served gets %q, %v", b, err)
		}
	})
}

// The end comes while all places are taken and one more is at the door.
func TestEndWhileFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := opened(t, nil)
		for range places + 1 {
			defer o.knock(t).Close()
		}
		synctest.Wait()
		begin := time.Now()
		o.end(t)
		if d := time.Since(begin); d != 0 {
			t.Errorf("it took %v", d)
		}
	})
}

// watched tells of the accepts that fail.
type watched struct {
	net.Listener
	failed chan error // capacity 1
}

func (w watched) Accept() (net.Conn, error) {
	c, err := w.Listener.Accept()
	if err != nil {
		select {
		case w.failed <- err:
		default:
		}
	}
	return c, err
}

// Over real sockets, with more descriptors wanted than there are.
func TestDescriptorsRunOut(t *testing.T) {
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	lb := New(Config{Name: "test", Admit: greet})
	ended := make(chan error, 1)
	port := watched{l, make(chan error, 1)}
	go func() { ended <- lb.Run(ctx, port) }()
	first, err := net.Dial("tcp4", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	comesIn(t, first)

	// The next socket takes the last number that is allowed, so that accepting finds none.
	second, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	low := before
	low.Cur = uint64(second) + 1
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	err = syscall.Connect(second, &syscall.SockaddrInet4{Port: l.Addr().(*net.TCPAddr).Port, Addr: [4]byte{127, 0, 0, 1}})
	if err == nil {
		_, err = syscall.Write(second, []byte("hi"))
	}
	if why := <-port.failed; !errors.Is(why, syscall.EMFILE) {
		t.Errorf("accept: %v", why)
	}
	if e := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before); e != nil || err != nil {
		t.Fatal(e, err)
	}
	b := make([]byte, 3)
	if n, err := syscall.Read(second, b); err != nil || string(b[:n]) != "yes" {
		t.Errorf("%q, %v", b[:n], err)
	}
	syscall.Close(second)
	cancel(errOver)
	if err := <-ended; !errors.Is(err, errOver) {
		t.Error(err)
	}
}

// Ranks whose connections nobody has looked at yet, on a host that is late, hold their places for as long as that takes, and so do those
// that wait at the door: none of them was silent.
func TestWhoWaitsForUsIsNotSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looked := make(chan struct{})
		o := opened(t, func(c *Config) {
			c.Check = func(context.Context, net.Conn) (who client.Process, err error) {
				<-looked
				return who, nil
			}
		})
		defer o.end(t)
		var ranks sync.WaitGroup
		for range 3 * places {
			ranks.Go(func() {
				c := o.knock(t)
				defer c.Close()
				comesIn(t, c)
			})
		}
		time.Sleep(4 * stay) // virtual
		close(looked)
		ranks.Wait()
		if n := strings.Count(o.log.String(), "refused"); n != 0 {
			t.Errorf("%d were hung up on", n)
		}
	})
}
