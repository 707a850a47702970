package ways

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/mpiup/mpiup/internal/job"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var token = Token{1, 2, 3}

func serving(t *testing.T) netip.AddrPort {
	t.Helper()
	at, stop := serve(t, job.Ports{}, loopback)
	t.Cleanup(stop)
	return at
}

var loopback = netip.MustParseAddr("127.0.0.1")

// serve is a server until stop has returned.
func serve(t *testing.T, ports job.Ports, at ...netip.Addr) (first netip.AddrPort, stop func()) {
	t.Helper()
	s, err := Listen(at, ports, token)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { s.Run(ctx) })
	return s.Addresses()[0], func() { cancel(); running.Wait() }
}

// The ports of MPI are few where a NetworkPolicy names them, and MPI libraries bind them without SO_REUSEADDR.
func TestPortsAreFreeAtOnce(t *testing.T) {
	free, stop := serve(t, job.Ports{}, loopback)
	stop()
	only := job.Ports{Low: free.Port(), High: free.Port()}
	at, stop := serve(t, only, loopback)
	if _, err := askWay(t.Context(), at, token, true); err != nil {
		t.Error(err)
	}
	stranger, err := net.Dial("tcp", at.String())
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	if _, err := stranger.Write(append(token[:], kindEcho)); err != nil {
		t.Fatal(err)
	}
	stop() // while somebody is connected
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Bind(fd, &unix.SockaddrInet4{Port: int(at.Port()), Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Errorf("port %d after the server has ended: %v", at.Port(), err)
	}
}

// It answers at the addresses it was given and at no other: hosts on loopback share a machine.
func TestListensWhereItIsTold(t *testing.T) {
	first, stop := serve(t, job.Ports{}, loopback)
	defer stop()
	if c, err := net.Dial("tcp", netip.AddrPortFrom(netip.MustParseAddr("127.0.0.2"), first.Port()).String()); err == nil {
		c.Close()
		t.Error("another address is answered")
	}
	_, stop = serve(t, job.Ports{Low: first.Port(), High: first.Port()}, netip.MustParseAddr("127.0.0.2"))
	stop()
}

func TestAsk(t *testing.T) {
	to := serving(t)
	w, err := askWay(t.Context(), to, token, true)
	if err != nil || w.RTT <= 0 || w.Rate < 1e5 || w.MTU < 1000 {
		t.Errorf("%+v, %v", w, err)
	}
	w, err = askWay(t.Context(), to, token, false)
	if err != nil || w.Rate != 0 {
		t.Errorf("without rate %+v, %v", w, err)
	}
}

func TestStrangersAreNotServed(t *testing.T) {
	to := serving(t)
	if _, err := askWay(t.Context(), to, Token{9}, false); err == nil {
		t.Error("another token is answered")
	}
	c, err := net.Dial("tcp", to.String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.Write([]byte(strings.Repeat("x", 64)))
	if n, _ := io.Copy(io.Discard, c); n != 0 {
		t.Errorf("a stranger got %d bytes", n)
	}
}

// A refused port, and one that takes connections and says nothing.
func TestWhatDoesNotPass(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := netip.MustParseAddrPort(l.Addr().String())
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	var accepting sync.WaitGroup
	accepting.Go(func() {
		c, err := l.Accept()
		if err == nil {
			c.Close()
		}
	})
	if _, err := askWay(ctx, at, token, false); err == nil || !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("a server that hangs up: %v", err)
	}
	accepting.Wait()
	l.Close()
	if _, err := askWay(ctx, at, token, false); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("a closed port: %v", err)
	}
}

// A way that loses what is larger than a packet of the network between.
func TestLargePacketsAreLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer ours.Close()
		defer theirs.Close()
		go io.CopyN(theirs, theirs, 1400) // and nothing more
		if err := large(ours); !errors.Is(err, ErrLarge) {
			t.Errorf("after 1,400 bytes: %v", err)
		}
	})
}

func TestListenStaysInItsRange(t *testing.T) {
	first, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	taken := uint16(first.Addr().(*net.TCPAddr).Port)
	if s, err := Listen([]netip.Addr{loopback}, job.Ports{Low: taken, High: taken}, token); err == nil || !strings.Contains(err.Error(), "is free") {
		t.Errorf("a taken port: %v, %v", s, err)
	}
}

// A host that is slow to answer answers: it is measured by the turns that passed, and accused only of one that did not.
func TestRoundTripOfABusyHost(t *testing.T) {
	for _, tt := range []struct {
		name     string
		answers  int
		each     time.Duration
		want     time.Duration
		deadline bool
	}{
		{"quick", 1000, time.Millisecond, time.Millisecond, false},
		{"busy", 1000, 200 * time.Millisecond, 200 * time.Millisecond, false},
		{"silent after a while", 10, 200 * time.Millisecond, 0, true},
		{"silent", 0, 0, 0, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				here, there := net.Pipe()
				var host sync.WaitGroup
				host.Go(func() {
					b := make([]byte, 1)
					for n := 0; ; n++ {
						if _, err := there.Read(b); err != nil {
							return
						}
						if n >= tt.answers {
							continue
						}
						time.Sleep(tt.each) // in virtual time
						if _, err := there.Write(b); err != nil {
							return
						}
					}
				})
				got, err := roundTrip(here)
				if got != tt.want || isTimeout(err) != tt.deadline {
					t.Errorf("%v, error %v, want %v", got, err, tt.want)
				}
				here.Close()
				host.Wait()
			})
		})
	}
}
