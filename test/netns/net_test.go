package netns_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mpiup/mpiup/test/netns"
)

// echo answers every connection on a host with what it gets, until the test ends.
func echo(t *testing.T, c *netns.Cluster, host, port string) {
	t.Helper()
	l, err := c.Listen(host, "tcp", net.JoinHostPort(c.Addr(host).String(), port))
	if err != nil {
		t.Fatal(err)
	}
	serveEcho(t, l)
}

func serveEcho(t *testing.T, l net.Listener) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
	})
}

// alive says whether a byte comes back within d.
func alive(conn net.Conn, d time.Duration) bool {
	_ = conn.SetDeadline(time.Now().Add(d))
	if _, err := conn.Write([]byte("x")); err != nil {
		return false
	}
	_, err := io.ReadFull(conn, make([]byte, 1))
	return err == nil
}

const (
	soon = 200 * time.Millisecond // long enough to be sure that nothing comes
	long = 30 * time.Second
)

func TestCutsAreUndone(t *testing.T) {
	c := up(t, netns.Config{Hosts: workers(2)})
	echo(t, c, "w1", "7")
	for _, tt := range []struct {
		name string
		cut  func() (func() error, error)
	}{
		{"cable", func() (func() error, error) { return c.CutLink("w1") }},
		{"there", func() (func() error, error) { return c.CutOneWay("w0", "w1") }},
		{"back", func() (func() error, error) { return c.CutOneWay("w1", "w0") }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			conn, err := c.Dial(t.Context(), "w0", "tcp", c.Addr("w1").String()+":7")
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if !alive(conn, long) {
				t.Fatal("no answer before the cut")
			}
			undo, err := tt.cut()
			if err != nil {
				t.Fatal(err)
			}
			if alive(conn, soon) {
				t.Error("an answer through the cut")
			}
			if err := undo(); err != nil {
				t.Fatal(err)
			}
			_ = conn.SetReadDeadline(time.Now().Add(long))
			if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
				t.Errorf("the byte sent meanwhile: %v", err)
			}
		})
	}
}

func TestReaddress(t *testing.T) {
	c := up(t, netns.Config{Hosts: workers(1)})
	old := c.Addr("w0")
	if err := c.Readdress("w0"); err != nil {
		t.Fatal(err)
	}
	if c.Addr("w0") == old {
		t.Fatal("the address is the old one")
	}
	echo(t, c, "w0", "7")
	conn, err := c.Dial(t.Context(), netns.Launcher, "tcp", c.Addr("w0").String()+":7")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if !alive(conn, long) {
		t.Error("no answer from the new address")
	}
}

func TestIPv6(t *testing.T) {
	for name, f := range map[string]netns.Family{"dual": netns.DualStack, "IPv6": netns.IPv6} {
		t.Run(name, func(t *testing.T) {
			c := up(t, netns.Config{Hosts: workers(2), Family: f, DNS: true})
			want := "fd77::2"
			if got := out(t, c, "w0", "getent ahostsv6 w1 | awk 'NR == 1 { print $1 }'"); got != want {
				t.Errorf("w1 is at %q, want %q", got, want)
			}
			l, err := c.Listen("w1", "tcp", "[fd77::2]:7")
			if err != nil {
				t.Fatal(err)
			}
			serveEcho(t, l)
			conn, err := c.Dial(t.Context(), "w0", "tcp", "[fd77::2]:7")
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if !alive(conn, long) {
				t.Error("no answer")
			}
		})
	}
}

func TestDNSOnHosts(t *testing.T) {
	c := up(t, netns.Config{Hosts: workers(2), DNS: true})
	lookup := func(name string) string {
		return out(t, c, "launcher", "getent ahostsv4 "+name+" | awk 'NR == 1 { print $1 }'")
	}
	if got := lookup("w1"); got != c.Addr("w1").String() {
		t.Errorf("w1 is at %q", got)
	}
	if q := c.DNS().Queries(); len(q) == 0 || !strings.HasSuffix(q[0], " "+c.FQDN("w1")+".") {
		t.Errorf("asked: %v", q)
	}
	c.DNS().Remove(c.FQDN("w1"))
	if got := lookup("w1"); got != "" {
		t.Errorf("w1 has no record and is at %q", got)
	}
	c.DNS().Set(c.FQDN("w1"), netip.MustParseAddr("10.77.9.9"))
	if got := lookup(c.FQDN("w1")); got != "10.77.9.9" {
		t.Errorf("w1 has a new record and is at %q", got)
	}
	c.DNS().Silent(true)
	if got := out(t, c, "launcher", "RES_OPTIONS='timeout:1 attempts:1 ndots:0' getent hosts w0.x.cluster.local. || echo none"); got != "none" {
		t.Errorf("a silent server said %q", got)
	}
}

func TestForwarderSpoilsConnections(t *testing.T) {
	c := up(t, netns.Config{Hosts: workers(1)})
	echo(t, c, "w0", "7")
	f, err := c.Forward("w0", 7)
	if err != nil {
		t.Fatal(err)
	}
	dial := func() net.Conn {
		conn, err := c.Dial(t.Context(), netns.Launcher, "tcp", f.Addr().String()+":7")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	conn := dial()
	if !alive(conn, long) {
		t.Fatal("no answer")
	}

	f.Stall()
	if alive(conn, soon) {
		t.Error("an answer while stalled")
	}
	f.Resume()
	_ = conn.SetReadDeadline(time.Now().Add(long))
	if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
		t.Errorf("the byte held: %v", err)
	}

	f.Delay(50 * time.Millisecond)
	start := time.Now()
	if !alive(conn, long) || time.Since(start) < 100*time.Millisecond {
		t.Errorf("with a delay of 50 ms each way an answer came after %v", time.Since(start))
	}
	f.Delay(0)

	read := func(conn net.Conn) error {
		_ = conn.SetReadDeadline(time.Now().Add(long))
		_, err := conn.Read(make([]byte, 1))
		return err
	}
	f.Reset()
	if err := read(conn); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("after Reset: %v", err)
	}
	conn = dial()
	if !alive(conn, long) {
		t.Error("no new connection after Reset")
	}
	f.CloseConns()
	if err := read(conn); err != io.EOF {
		t.Errorf("after CloseConns: %v", err)
	}
	f.Refuse()
	conn, err = c.Dial(t.Context(), netns.Launcher, "tcp", f.Addr().String()+":7")
	if err == nil {
		err = read(conn)
		conn.Close()
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("after Refuse: %v", err)
	}
}

func TestForwarderPassesEndsOn(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	f, err := netns.NewForwarder(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, tt := range []struct {
		name string
		end  func(*net.TCPConn)
		want error
	}{
		{"FIN", func(c *net.TCPConn) { c.CloseWrite() }, io.EOF},
		{"RST", func(c *net.TCPConn) { _ = c.SetLinger(0); c.Close() }, syscall.ECONNRESET},
	} {
		t.Run(tt.name, func(t *testing.T) {
			client, err := net.Dial("tcp", net.JoinHostPort(f.Addr().String(), portOf(f)))
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			server, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer server.Close()
			tt.end(client.(*net.TCPConn))
			_ = server.SetReadDeadline(time.Now().Add(long))
			if _, err := server.Read(make([]byte, 1)); !errors.Is(err, tt.want) {
				t.Errorf("the server saw %v, want %v", err, tt.want)
			}
		})
	}
}

func portOf(f *netns.Forwarder) string {
	_, port, _ := net.SplitHostPort(netip.AddrPortFrom(f.Addr(), uint16(f.Port())).String())
	return port
}

func TestDNSServerAlone(t *testing.T) {
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", pc.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	d := netns.NewDNS("cluster.local")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.Serve(ctx, pc, l) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	r := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, pc.LocalAddr().String())
	}}
	for i := range 600 { // too many for UDP
		d.Add("job.cluster.local", netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}))
	}
	addrs, err := r.LookupNetIP(ctx, "ip4", "JOB.cluster.local.")
	if err != nil || len(addrs) != 600 {
		t.Errorf("%d addresses, %v", len(addrs), err)
	}
	_, err = r.LookupNetIP(ctx, "ip4", "nobody.cluster.local.")
	if e := new(net.DNSError); !errors.As(err, &e) || !e.IsNotFound {
		t.Errorf("an unknown name: %v", err)
	}
}
