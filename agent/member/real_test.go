package member

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"math/big"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"
)

// testTLS is a throw-away identity that every process of a test makes alike.
func testTLS() (*tls.Config, error) {
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, DNSNames: []string{"test"},
		NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<33, 0), IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(nil, tmpl, tmpl, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, ServerName: "test",
		RootCAs: pool, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS13,
		NextProtos: []string{"mpiup-gossip/1"},
	}, nil
}

// realMember listens on a loopback address and makes a member that dials from there.
func realMember(name, addr string, seeds []string) (*Gossip, net.Listener, error) {
	conf, err := testTLS()
	if err != nil {
		return nil, nil, err
	}
	l, err := tls.Listen("tcp", addr, conf)
	if err != nil {
		return nil, nil, err
	}
	at := netip.MustParseAddrPort(l.Addr().String())
	d := &tls.Dialer{NetDialer: &net.Dialer{LocalAddr: &net.TCPAddr{IP: at.Addr().AsSlice()}}, Config: conf}
	g, err := New(Config{
		Self: Self{Name: name, Incarnation: "inc-" + name, Version: "v1", Protocol: 1, Addr: at, Slots: 2},
		Dial: func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
			return d.DialContext(ctx, "tcp", to.String())
		},
		Seeds:  func(context.Context) ([]netip.AddrPort, error) { return parseAddrs(seeds), nil },
		Verify: func(name string, _ uint64, _ string, proof []byte) bool { return string(proof) == said(name) },
	})
	if err != nil {
		l.Close()
	}
	return g, l, err
}

// serve does what the agent does: shakes hands, then hands over. It returns when l is closed.
func serve(l net.Listener, g *Gossip) {
	var shaking sync.WaitGroup
	defer shaking.Wait()
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		shaking.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			if c.(*tls.Conn).HandshakeContext(ctx) != nil {
				c.Close()
				return
			}
			g.Handle(c)
		})
	}
}

// startReal runs a member over real connections in this process.
func startReal(t *testing.T, name, addr string, seeds ...string) *node {
	t.Helper()
	g, l, err := realMember(name, addr, seeds)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() {
		if err := g.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	work.Go(func() { serve(l, g) })
	n := &node{Gossip: g, addr: netip.MustParseAddrPort(l.Addr().String())}
	n.stop = sync.OnceFunc(func() {
		cancel()
		l.Close()
		work.Wait()
	})
	t.Cleanup(n.stop)
	return n
}

// heard waits for a claim, of which no view tells: a new member has it a moment after it knows who is there.
func (n *node) heard(t *testing.T, name string, number uint64, incarnation string) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(time.Minute); ; {
		got, _, _ := n.Numbers(name, incarnation)
		if got == number {
			return
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("%s has heard of number %d of %q", n.addr, got, incarnation)
		}
	}
}

func TestRealConnections(t *testing.T) {
	for name, at := range map[string][2]string{"IPv4": {"127.0.72.1:0", "127.0.72.2:0"}, "IPv6": {"[::1]:0", "[::1]:0"}} {
		t.Run(name, func(t *testing.T) {
			a := startReal(t, "a", at[0])
			a.Claim("l", 3, "x", []byte(said("l")))
			b := startReal(t, "b", at[1], a.addr.String())
			for _, n := range []*node{a, b} {
				n.await(t, time.Minute, func(v *View) bool { return count(v, Alive) == 2 })
			}
			b.heard(t, "l", 3, "x")
			b.describeAs("new")
			a.await(t, time.Minute, func(v *View) bool { return len(v.ByName("b")) == 1 && v.ByName("b")[0].Digest == "new" })
			c := startReal(t, "c", at[1], b.addr.String())
			b.Claim("l", 4, "y", []byte(said("l")))
			c.await(t, time.Minute, func(v *View) bool { return count(v, Alive) == 3 })
			b.stop()
			a.await(t, time.Minute, func(v *View) bool { return count(v, Alive) == 2 })
		})
	}
}

// Verified peers that misbehave: what they send is refused and nothing is left of it.
func TestHostileConnections(t *testing.T) {
	a := startReal(t, "a", "127.0.73.1:0")
	me, _ := netip.MustParseAddrPort("127.0.73.2:9").MarshalBinary()
	hello := append([]byte{'P', byte(len(me))}, me...)
	for name, bytes := range map[string][]byte{
		"unknown kind":       {'X', 0, 0},
		"hello too long":     {'P', 200},
		"hello malformed":    {'P', 2, 1, 2},
		"frame of nothing":   append(hello, 0, 0),
		"frame too long":     append(hello, 0xff, 0xff),
		"stream of nonsense": append([]byte{'S'}, make([]byte, 4096)...),
	} {
		t.Run(name, func(t *testing.T) {
			conf, err := testTLS()
			if err != nil {
				t.Fatal(err)
			}
			c, err := tls.Dial("tcp", a.addr.String(), conf)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			c.Write(bytes) // an error: it has hung up already
			c.SetReadDeadline(time.Now().Add(30 * time.Second))
			if _, err := io.Copy(io.Discard, c); err != nil {
				var ne net.Error
				if errors.As(err, &ne) && ne.Timeout() {
					t.Error("the connection was kept")
				}
			}
		})
	}
	if n := len(a.View().Members); n != 1 {
		t.Errorf("%d members", n)
	}
}
