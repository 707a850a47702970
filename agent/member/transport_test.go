package member

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mpiup/mpiup/test/cost"
)

var self, peer = netip.MustParseAddrPort("10.0.0.1:7000"), netip.MustParseAddrPort("10.0.0.2:7000")

// far is one end of a pipe, which comes from an address.
type far struct {
	net.Conn
	at netip.AddrPort
}

func (f far) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(f.at) }

// opened is a transport that connects to nobody.
func opened() *Transport {
	t := newTransport(transportConfig{Self: self, Sent: func([]byte) {}, Heard: func([]byte) {}, Log: slog.New(slog.DiscardHandler),
		Connect: func(context.Context, netip.AddrPort) (net.Conn, error) { return nil, errors.New("nobody is there") }})
	t.Open()
	return t
}

func (t *Transport) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.taken
}

// One address gets a bounded number of connections, and a half-open one is ended.
func TestTooManyConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := opened()
		for range 2 * maxPerIP {
			ours, theirs := net.Pipe()
			defer theirs.Close()
			tr.Handle(far{ours, peer})
		}
		synctest.Wait()
		if n := tr.count(); n != maxPerIP {
			t.Errorf("%d taken", n)
		}
		time.Sleep(helloTime) // virtual: none said a word
		synctest.Wait()
		if n := tr.count(); n != 0 {
			t.Errorf("%d left", n)
		}
		if err := tr.Shutdown(); err != nil {
			t.Error(err)
		}
	})
}

// A packet that cannot be sent is lost and is no error, and a closed transport takes nothing.
func TestLostPackets(t *testing.T) {
	tr := opened()
	if _, err := tr.WriteTo([]byte("x"), peer.String()); err != nil {
		t.Error(err)
	}
	if _, err := tr.WriteTo(make([]byte, maxPacket+1), peer.String()); err == nil {
		t.Error("a packet that is too long is sent")
	}
	if _, err := tr.WriteTo([]byte("x"), "host:7000"); err == nil {
		t.Error("a packet is sent to a name")
	}
	if err := tr.Shutdown(); err != nil {
		t.Error(err)
	}
	ours, theirs := net.Pipe()
	tr.Handle(far{ours, peer})
	if _, err := theirs.Read(make([]byte, 1)); err == nil {
		t.Error("a connection is kept after the end")
	}
	if _, err := tr.DialTimeout(peer.String(), time.Second); !errors.Is(err, errClosed) {
		t.Errorf("a stream after the end: %v", err)
	}
}

// spoken is a connection on which all was said before.
type spoken struct {
	*bytes.Reader
	net.Conn
}

func (s *spoken) Read(b []byte) (int, error)       { return s.Reader.Read(b) }
func (s *spoken) Write(b []byte) (int, error)      { return len(b), nil }
func (s *spoken) SetReadDeadline(time.Time) error  { return nil }
func (s *spoken) SetWriteDeadline(time.Time) error { return nil }
func (s *spoken) Close() error                     { return nil }

// FuzzAccepted takes any bytes for what a peer says on a connection it made.
func FuzzAccepted(f *testing.F) {
	hello, err := peer.MarshalBinary()
	if err != nil {
		f.Fatal(err)
	}
	hello = append([]byte{'P', byte(len(hello))}, hello...)
	f.Add(append(hello, 0, 2, 0, 1))
	f.Add(append(hello, 255, 255, 1))
	f.Add([]byte("S\x06"))
	f.Fuzz(func(t *testing.T, said []byte) {
		defer cost.Watch(t, cost.Bound{Fixed: 4 << 20, PerByte: 512}, len(said))()
		tr := opened()
		tr.Handle(far{&spoken{Reader: bytes.NewReader(said)}, peer})
		if err := tr.Shutdown(); err != nil || tr.count() != 0 {
			t.Errorf("%v, %d connections left", err, tr.count())
		}
	})
}
