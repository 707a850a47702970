package badinput

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mpiup/mpiup/internal/identity"
	"github.com/mpiup/mpiup/test/lab"
)

// load is what an agent holds.
type load struct{ goroutines, descriptors, sessions, rssMB int }

func loadOf(t testing.TB, a *lab.Loopback) (l load) {
	t.Helper()
	c := http.Client{Timeout: bound, Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := c.Get("http://" + a.Addr + ":7612/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	for s := bufio.NewScanner(r.Body); s.Scan(); {
		name, value, _ := strings.Cut(s.Text(), " ")
		n, _ := strconv.Atoi(value)
		switch name {
		case "go_goroutines":
			l.goroutines = n
		case "mpiup_sessions":
			l.sessions = n
		}
	}
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", a.Pid))
	if err != nil {
		t.Fatal(err)
	}
	l.descriptors = len(fds)
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", a.Pid))
	if err != nil {
		t.Fatal(err)
	}
	if _, rest, ok := strings.Cut(string(status), "VmRSS:"); ok {
		kb, _ := strconv.Atoi(strings.Fields(rest)[0])
		l.rssMB = kb >> 10
	}
	return l
}

// open makes n connections that stay open until the test ends.
func open(t *testing.T, addr string, n int) []net.Conn {
	t.Helper()
	conns := make([]net.Conn, n)
	for i := range conns {
		c, err := net.DialTimeout("tcp", addr, bound)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		conns[i] = c
	}
	return conns
}

func loaded(t *testing.T, keyFile string, role identity.Role) *identity.Identity {
	t.Helper()
	id, err := identity.Load(identity.Options{KeyFile: keyFile, Role: role, Name: "hostile"})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// TestHostileClients: whatever comes to the ports, jobs run meanwhile and nothing stays behind.
func TestHostileClients(t *testing.T) {
	otherKey := filepath.Join(t.TempDir(), "key")
	if err := keygen(otherKey); err != nil {
		t.Fatal(err)
	}
	member, stranger := loaded(t, key, identity.RoleLauncher), loaded(t, otherKey, identity.RoleLauncher)
	noise := make([]byte, 1<<20)
	rand.Read(noise)
	each := func(n int, f func(t *testing.T, c net.Conn)) func(*testing.T, string) {
		return func(t *testing.T, addr string) {
			var wg sync.WaitGroup
			for _, c := range open(t, addr, n) {
				wg.Go(func() { f(t, c) })
			}
			wg.Wait()
		}
	}
	handshake := func(id *identity.Identity, alpn string, then func(net.Conn)) func(*testing.T, string) {
		return each(20, func(t *testing.T, c net.Conn) {
			cfg := id.ClientConfig(alpn)
			cfg.VerifyConnection = nil // it takes any agent
			s := tls.Client(c, cfg)
			ctx, cancel := context.WithTimeout(context.Background(), bound)
			defer cancel()
			if s.HandshakeContext(ctx) == nil {
				s.SetDeadline(time.Now().Add(2 * time.Second))
				then(s)
			}
			s.Close()
		})
	}
	write := func(data []byte) func(net.Conn) {
		return func(c net.Conn) { c.Write(data); io.Copy(io.Discard, c) }
	}
	preface := "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	for _, tt := range []struct {
		name string
		port string
		do   func(t *testing.T, addr string)
	}{
		{"half-open", port, func(t *testing.T, addr string) { open(t, addr, 1500) }},
		{"a byte now and then", port, each(100, func(_ *testing.T, c net.Conn) {
			for _, b := range []byte{0x16, 3, 1, 0x10, 0, 1} {
				c.Write([]byte{b})
			}
		})},
		{"giant ClientHello", port, each(20, func(_ *testing.T, c net.Conn) {
			c.Write(append([]byte{0x16, 3, 1, 0x40, 0, 1, 0xff, 0xff, 0xff}, noise...))
			c.(*net.TCPConn).CloseWrite()
		})},
		{"noise", port, each(20, func(_ *testing.T, c net.Conn) { c.Write(noise) })},
		{"HTTP", port, each(20, func(_ *testing.T, c net.Conn) { c.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n")) })},
		{"TLS without certificate", port, each(20, func(_ *testing.T, c net.Conn) {
			tls.Client(c, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}).Handshake()
		})},
		{"TLS of another job", port, handshake(stranger, "h2", write(noise))},
		{"member with an unknown protocol", port, handshake(member, "h3", write(noise))},
		{"member with noise for HTTP/2", port, handshake(member, "h2", write(noise))},
		{"member with noise after the preface", port, handshake(member, "h2", write(append([]byte(preface), noise...)))},
		{"member that says nothing", port, handshake(member, "h2", func(c net.Conn) { io.Copy(io.Discard, c) })},
		{"member with noise for gossip", port, handshake(member, "mpiup-gossip/1", write(noise))},
		{"member with zeros for gossip", port, handshake(member, "mpiup-gossip/1", write(make([]byte, 1<<20)))},
		{"HTTP port flooded", "7612", func(t *testing.T, addr string) { open(t, addr, 500) }},
		{"HTTP port with long headers", "7612", each(20, func(_ *testing.T, c net.Conn) {
			c.Write(append([]byte("GET / HTTP/1.1\r\nX: "), bytes.Repeat([]byte("x"), 1<<20)...))
		})},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a := startGossiping(t)
			runs(t, a)
			before := loadOf(t, a)
			t.Run("meanwhile", func(t *testing.T) {
				tt.do(t, net.JoinHostPort(a.Addr, tt.port))
				runs(t, a)
				c := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
				if r, err := c.Get("http://" + a.Addr + ":7612/healthz"); err != nil || r.StatusCode != http.StatusOK {
					t.Errorf("/healthz: %v %v", r, err)
				}
			})
			recovers(t, a, before)
		})
	}
}

func startGossiping(t *testing.T) *lab.Loopback {
	t.Helper()
	return startAgent(t, nil, "--no-gossip=false")
}

// runs a job on the agent.
func runs(t *testing.T, a *lab.Loopback) {
	t.Helper()
	e := mpiup(t, nil, "run", "--wait", "20", "--host", a.Addr+":1", "echo", "still here")
	e.check(t, 0)
	if e.Stdout != "still here\n" {
		t.Errorf("stdout %q", e.Stdout)
	}
}

// recovers waits until the agent holds no more than before, with room for what comes and goes.
func recovers(t *testing.T, a *lab.Loopback, before load) {
	t.Helper()
	var now load
	defer func() { t.Logf("before %+v, after %+v", before, now) }()
	lab.Eventually(t, "the agent holds what it held before", func() bool {
		now = loadOf(t, a)
		return now.goroutines <= before.goroutines+5 && now.descriptors <= before.descriptors+5 && now.sessions <= before.sessions
	})
	if now.rssMB > before.rssMB+150 {
		t.Errorf("it grew from %d to %d MB", before.rssMB, now.rssMB)
	}
	if log := a.Log.String(); strings.Contains(log, "panic") || len(log) > 256<<10 {
		t.Errorf("log of %d bytes: %.4000s", len(log), log)
	}
}
