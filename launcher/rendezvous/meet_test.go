package rendezvous

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mpiup/mpiup/internal/identity"
	"github.com/mpiup/mpiup/internal/job"
)

// heard is what a node says to its user.
type heard struct {
	mu    sync.Mutex
	lines []string // guarded by mu
	more  chan struct{}
}

func (h *heard) say(format string, args ...any) {
	h.mu.Lock()
	h.lines = append(h.lines, fmt.Sprintf(format, args...))
	h.mu.Unlock()
	select {
	case h.more <- struct{}{}:
	default:
	}
}

// await waits until a line with that text has been said.
func (h *heard) await(t *testing.T, text string) {
	t.Helper()
	for {
		h.mu.Lock()
		said := slices.ContainsFunc(h.lines, func(l string) bool { return strings.Contains(l, text) })
		all := strings.Join(h.lines, "\n")
		h.mu.Unlock()
		if said {
			return
		}
		select {
		case <-h.more:
		case <-t.Context().Done():
			t.Fatalf("nobody says %q, but\n%s", text, all)
		}
	}
}

// certified is an identity by a key; "": none.
func certified(t *testing.T, key string, role identity.Role) *identity.Identity {
	t.Helper()
	if key == "" {
		return nil
	}
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte("a key of at least thirty-two bytes, "+key+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	id, err := identity.Load(identity.Options{KeyFile: file, Scope: "job", Role: role, Name: "w0", Env: func(string) string { return "" }, Root: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// node is what a torchrun of two nodes would say, with a key or without.
func node(t *testing.T, name, key string, port uint16) (Config, *heard) {
	t.Helper()
	h := &heard{more: make(chan struct{}, 1)}
	return Config{Host: "127.0.0.1", Port: port, Name: name, Join: time.Minute, LastCall: time.Minute, Say: h.say,
		Hello:      Hello{Name: name, RunID: []byte("none"), Least: 2, Most: 2, Number: -1, Ranks: 1, Patience: 30},
		Identity:   certified(t, key, identity.RoleLauncher),
		Serving:    func() (*identity.Identity, error) { return certified(t, key, identity.RoleAgent), nil },
		Interfaces: net.InterfaceAddrs,
		Lookup:     func(context.Context, string) ([]netip.Addr, error) { return nil, errors.New("no such name") },
	}, h
}

// hosting is a node that serves as the host.
func hosting(t *testing.T, key string) (*Session, *heard, uint16) {
	t.Helper()
	port := uint16(FreePort())
	c, said := node(t, "w0", key, port)
	s, err := Join(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Abandon)
	if !s.Hosts() {
		t.Fatal("the first is not the host")
	}
	return s, said, port
}

// Two nodes meet, run a round, and part, with a key and without.
func TestNodesMeet(t *testing.T) {
	for _, key := range []string{"", "k"} {
		t.Run("key "+key, func(t *testing.T) {
			t.Parallel()
			host, said, port := hosting(t, key)
			c, _ := node(t, "w1", key, port)
			other, err := Join(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			defer other.Close()
			if other.Hosts() {
				t.Error("the second is the host, too")
			}
			if key == "" {
				said.await(t, "without a key: whoever reaches that port can join")
			}

			a, err := host.Begin(t.Context())
			b, err2 := other.Begin(t.Context())
			if err != nil || err2 != nil || a.Node != 0 || b.Node != 1 || b.FirstRank != 1 || b.World != 2 || b.MasterAddr != "127.0.0.1" || b.MasterPort != a.MasterPort {
				t.Fatalf("%+v, %v; %+v, %v", a, err, b, err2)
			}

			other.Failing("rank 1 exited with code 3", 3)
			m, ok := host.Ordered(t.Context())
			if !ok || m.End == nil || m.End.Code != 3 || m.End.Text != "node 1 (w1) failed: rank 1 exited with code 3" {
				t.Errorf("the host's node is told %+v", m)
			}
			ends := make(chan Verdict)
			go func() {
				v, _ := other.Ended(t.Context(), Ended{Code: 3, Text: "rank 1 exited with code 3: x"})
				ends <- v
			}()
			v, err := host.Ended(t.Context(), Ended{Code: 143})
			if w := <-ends; err != nil || v != w || v.Code != 3 || v.Node != 1 || v.Text != "node 1 (w1) failed: rank 1 exited with code 3: x" {
				t.Errorf("%+v and %+v, %v", v, w, err)
			}
		})
	}
}

// When one side's torchrun is gone, the other knows at once.
func TestLostNodes(t *testing.T) {
	begin := func(t *testing.T) (host, other *Session) {
		host, _, port := hosting(t, "")
		c, _ := node(t, "w1", "", port)
		other, err := Join(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(other.Close)
		for _, s := range []*Session{host, other} {
			if _, err := s.Begin(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		return host, other
	}
	t.Run("the host", func(t *testing.T) {
		t.Parallel()
		host, other := begin(t)
		host.Abandon()
		m, _ := other.Ordered(t.Context())
		if m.End == nil || m.End.Code != job.ExitAgentLost || m.End.Text != "node 0 (w0), where the nodes met, is lost: its torchrun's connection ended" {
			t.Errorf("%+v", m.End)
		}
		if v, err := other.Ended(t.Context(), Ended{Code: 248}); err != nil || v.Code != job.ExitAgentLost || v.Again {
			t.Errorf("%+v, %v", v, err)
		}
	})
	t.Run("another", func(t *testing.T) {
		t.Parallel()
		host, other := begin(t)
		other.Abandon()
		m, _ := host.Ordered(t.Context())
		if m.End == nil || m.End.Code != job.ExitAgentLost || m.End.Text != "node 1 (w1) is lost: its torchrun's connection ended" {
			t.Errorf("%+v", m.End)
		}
	})
	t.Run("the host before all are there", func(t *testing.T) {
		t.Parallel()
		port := uint16(FreePort())
		var nodes []*Session
		for _, name := range []string{"w0", "w1"} {
			c, _ := node(t, name, "", port)
			c.Hello.Least, c.Hello.Most = 3, 3
			s, err := Join(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(s.Abandon)
			nodes = append(nodes, s)
		}
		nodes[0].Abandon()
		if _, err := nodes[1].Begin(t.Context()); !errors.Is(err, ErrAgain) {
			t.Errorf("%v", err)
		}
	})
}

// Whoever else comes to where nodes meet gets no further, and the log says who it was.
func TestStrangers(t *testing.T) {
	for name, tt := range map[string]struct {
		key, sends, said string
		refused          bool // with a frame
	}{
		"torch":               {"", "\x00\xce\xf7\x85\x3c\x07", "is not let in: PyTorch's own torchrun called: use one torchrun in all pods", false},
		"torch before 2.1":    {"", "\x01\x19\x00\x00\x00\x00\x00\x00\x00/torch.rendezvous.none", "PyTorch's own torchrun called", false},
		"torch, with a key":   {"k", "\x00\xce\xf7\x85\x3c\x07", "PyTorch's own torchrun called", false},
		"a probe":             {"", "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", "an HTTP request came", false},
		"anything":            {"", "SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n", "what it sent is of no torchrun", false},
		"TLS without a key":   {"", "\x16\x03\x01\x00\x05hello-hello-hello", "it has a key, and this pod has none", false},
		"no TLS, with a key":  {"k", greeting, "it has no key, and this pod has the job's", true},
		"TLS that is none":    {"k", "\x16\x03\x01\x00\x05hello-hello-hello", "is not let in", false},
		"a frame too long":    {"", greeting + "\xff\xff\xff\xff", "what it sent is of no torchrun", false},
		"no frame":            {"", greeting + "\x00\x00\x00\x02{}", "what it sent is of no torchrun", false},
		"another frame first": {"", greeting + "\x00\x00\x00\x1b{\"leave\":{\"round\":1,\"x\":1}}", "what it sent is of no torchrun", false},
		"a greeting cut":      {"", greeting[:5], "what it sent is of no torchrun", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, said, port := hosting(t, tt.key)
			conn, err := net.Dial("tcp", netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port).String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := io.WriteString(conn, tt.sends); err != nil {
				t.Fatal(err)
			}
			_ = conn.(*net.TCPConn).CloseWrite() // the host may have hung up already
			said.await(t, tt.said)
			answer, _ := io.ReadAll(conn) // its end may be a reset
			if tt.refused {
				m, err := readMessage(bytes.NewReader(answer))
				if err != nil || m.Refusal == nil || m.Refusal.Code != job.ExitTLS {
					t.Errorf("it is answered %q", answer)
				}
			}

			// The host goes on: a node comes, and all begin.
			c, _ := node(t, "w1", tt.key, port)
			s, err := Join(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if _, err := s.Begin(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// Callers that say nothing do not keep nodes out.
func TestSilentCallers(t *testing.T) {
	t.Parallel()
	_, _, port := hosting(t, "")
	at := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port).String()
	for range maxCallers + 50 {
		conn, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	c, _ := node(t, "w1", "", port)
	s, err := Join(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Begin(t.Context()); err != nil {
		t.Error(err)
	}
}

// What a node says that cannot take part.
func TestWhoIsNotLetIn(t *testing.T) {
	for name, tt := range map[string]struct {
		host, key string
		change    func(*Config)
		code      int
		text      string
	}{
		"another number of nodes": {"", "", func(c *Config) { c.Hello.Most = 3 }, job.ExitUsage, "--nnodes is 2 on w0 and 2:3 on w1"},
		"another run":             {"", "", func(c *Config) { c.Hello.RunID = []byte{'7'} }, job.ExitUsage, `--rdzv-id is "none" on w0 and "7" on w1`},
		"no key":                  {"k", "", func(*Config) {}, job.ExitTLS, "has the job's key, and this pod has none: mount the same key in all pods"},
		"a key":                   {"", "k", func(*Config) {}, job.ExitTLS, "has no key, and this pod has the job's: mount the same key in all pods"},
		"no name": {"", "", func(c *Config) { c.Host, c.Join = "nowhere", time.Second }, job.ExitResolve,
			"no torchrun lets this node in at nowhere:"},
		"nobody there": {"", "", func(c *Config) { no := false; c.Hosts, c.Port, c.Join = &no, 1, time.Second }, job.ExitConnect, "connection refused"},
		"several pods' name": {"", "", func(c *Config) {
			c.Host = "service"
			c.Lookup = func(context.Context, string) ([]netip.Addr, error) {
				return []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("192.0.2.1")}, nil
			}
		}, job.ExitUsage, "service has 2 addresses, of which 1 are this pod's: name one pod"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, port := hosting(t, tt.host)
			c, _ := node(t, "w1", tt.key, port)
			tt.change(&c)
			s, err := Join(t.Context(), c)
			var wrong *Error
			if !errors.As(err, &wrong) || wrong.Code != tt.code || !strings.Contains(wrong.Text, tt.text) {
				t.Errorf("%v, %+v", s, err)
			}
		})
	}
}

// A store of torch's is known by its answer, as torch since 2.1 and before gives it; what else listens is waited out.
func TestMeetingTorchsStore(t *testing.T) {
	for name, tt := range map[string]struct {
		answers func(question []byte) []byte
		torch   bool
	}{
		"torch 1.13": {func(q []byte) []byte {
			if q[0] == 6 {
				return []byte{1, 0, 0, 0, 0, 0, 0, 0}
			}
			return nil
		}, true},
		"torch 2": {func(q []byte) []byte {
			if bytes.Equal(q, []byte("\x00\xce\xf7\x85\x3c\x07")) {
				return []byte{3, 0, 0, 0, 0, 0, 0, 0}
			}
			return nil
		}, true},
		"another server":     {func([]byte) []byte { return nil }, false},
		"one that says much": {func([]byte) []byte { return []byte("220 mail.example.org ESMTP\r\n") }, false},
	} {
		for _, key := range []string{"", "k"} {
			t.Run(name+key, func(t *testing.T) {
				t.Parallel()
				l, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				defer l.Close()
				go func() {
					for {
						conn, err := l.Accept()
						if err != nil {
							return
						}
						go func() {
							defer conn.Close()
							question := make([]byte, 64)
							if n, err := conn.Read(question); err == nil {
								_, _ = conn.Write(tt.answers(question[:n]))
							}
						}()
					}
				}()
				c, _ := node(t, "w1", key, uint16(l.Addr().(*net.TCPAddr).Port))
				c.Join = 3 * time.Second
				_, err = Join(t.Context(), c)
				if err == nil || strings.Contains(err.Error(), "PyTorch's own torchrun listens there") != tt.torch {
					t.Error(err)
				}
			})
		}
	}
}

// With a static rendezvous the host leaves the port to rank 0, while the nodes stay connected.
func TestRankZeroHasTheStaticPort(t *testing.T) {
	t.Parallel()
	port := uint16(FreePort())
	yes, no := true, false
	c, _ := node(t, "w0", "", port)
	c.Static, c.Hosts = true, &yes
	host, err := Join(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer host.Abandon()
	d, _ := node(t, "w1", "", port)
	d.Static, d.Hosts = true, &no
	other, err := Join(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if b, err := other.Begin(t.Context()); err != nil || b.MasterPort != int(port) {
		t.Fatalf("%+v, %v", b, err)
	}
	l, err := net.Listen("tcp", netip.AddrPortFrom(netip.IPv4Unspecified(), port).String())
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	other.Leaving("its torchrun got SIGTERM")
	if m, ok := host.Ordered(t.Context()); !ok || m.Leave == nil {
		t.Errorf("%+v", m)
	}
}

// The host may know itself as localhost, as PyTorchJob's master does, and the others by its name: ranks of each meet rank 0 by the name that
// its own pod was told.
func TestHostThatIsCalledLocalhost(t *testing.T) {
	t.Parallel()
	port := uint16(FreePort())
	yes, no := true, false
	var begun []Begin
	var all []*Session
	for i, name := range []string{"localhost", "127.0.0.5"} {
		c, _ := node(t, fmt.Sprint("w", i), "", port)
		c.Host, c.Static = name, true
		if c.Hosts = &no; i == 0 {
			c.Hosts = &yes
		}
		s, err := Join(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Abandon)
		all = append(all, s)
	}
	for _, s := range all {
		b, err := s.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		begun = append(begun, b)
	}
	if begun[0].MasterAddr != "localhost" || begun[1].MasterAddr != "127.0.0.5" {
		t.Errorf("ranks meet at %s and %s", begun[0].MasterAddr, begun[1].MasterAddr)
	}
}
