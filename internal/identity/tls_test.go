package identity

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mpiup/mpiup/test/cost"
	"go.uber.org/goleak"

	"github.com/mpiup/mpiup/test/credential"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// member is an identity of a test's job.
type member struct {
	key, scope string
	ahead      time.Duration // of the real clock
	old        time.Duration // age of its leaf
}

func (m member) load(t testing.TB, role Role, name string) *Identity {
	t.Helper()
	file := t.TempDir() + "/key"
	write(t, file, []byte(m.key+" 0123456789abcdef"))
	base := time.Now().Add(m.ahead - m.old)
	clock := func() time.Time { return base }
	i, err := Load(Options{KeyFile: file, Scope: m.scope, Role: role, Name: name, Root: t.TempDir(), Now: func() time.Time { return clock() }})
	if err != nil {
		t.Fatal(err)
	}
	i.Prepare() // mints the leaf, which now ages
	clock = func() time.Time { return base.Add(m.old) }
	return i
}

// meet connects client to server over loopback and returns both sides' results. The server
// sends one byte first, as HTTP/2 does.
func meet(t testing.TB, client, server *Identity) (*Conn, *Conn, error, error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	type accepted struct {
		conn *Conn
		err  error
	}
	done := make(chan accepted, 1)
	go func() {
		raw, err := l.Accept()
		if err != nil {
			done <- accepted{nil, err}
			return
		}
		conn, err := server.Accept(ctx, raw, server.ServerConfig("h2", "other"))
		if err == nil {
			_, err = conn.Write([]byte("!"))
		}
		done <- accepted{conn, err}
	}()
	raw, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c, cerr := client.Connect(ctx, raw, client.ClientConfig("h2"))
	s := <-done
	t.Cleanup(func() {
		if c != nil {
			c.Close()
		}
		if s.conn != nil {
			s.conn.Close()
		}
	})
	return c, s.conn, cerr, s.err
}

func TestMembersMeet(t *testing.T) {
	ours := member{key: "a", scope: "pi.team-a"}
	c, s, cerr, serr := meet(t, ours.load(t, RoleLauncher, "pi-launcher"), ours.load(t, RoleAgent, "pi-worker-0"))
	if cerr != nil || serr != nil {
		t.Fatal(cerr, serr)
	}
	agent, launcher := c.Peer(), s.Peer()
	if agent != (Peer{Name: "pi-worker-0", Role: RoleAgent}) || launcher != (Peer{Name: "pi-launcher", Role: RoleLauncher}) {
		t.Errorf("peers %+v, %+v", agent, launcher)
	}
	if err := Require(launcher, RoleLauncher); err != nil {
		t.Error(err)
	}
	if err := Require(agent, RoleLauncher); err == nil || !strings.Contains(err.Error(), "pi-worker-0") {
		t.Errorf("an agent passes as launcher: %v", err)
	}
	state := c.ConnectionState()
	if state.Version != tls.VersionTLS13 || state.CurveID != tls.X25519MLKEM768 || state.NegotiatedProtocol != "h2" {
		t.Errorf("version %x, curve %v, protocol %q", state.Version, state.CurveID, state.NegotiatedProtocol)
	}
	b := make([]byte, 4)
	if n, err := c.Read(b); err != nil || string(b[:n]) != "!" {
		t.Errorf("the first byte is lost: %q, %v", b[:n], err)
	}
}

func TestRefusals(t *testing.T) {
	ours := member{key: "a", scope: "pi.team-a"}
	for _, tt := range []struct {
		name           string
		client, server member
		role           Role   // of the server; "" is an agent
		want           string // what the client learns
		server2        string // part of the server's own error
	}{
		{name: "other secret", client: ours, server: member{key: "b", scope: "pi.team-a"},
			want: "holds the secret of another job, though of the same name", server2: "refuses our certificate"},
		{name: "other scope", client: ours, server: member{key: "a", scope: "default"},
			want: `holds the secret of another job (its job is "default", ours "pi.team-a")`, server2: "refuses our certificate"},
		{name: "clock 26 h ahead", client: ours, server: member{key: "a", scope: "pi.team-a", ahead: 26 * time.Hour},
			want: "26h00min apart", server2: "refuses our certificate"},
		{name: "clock 50 h behind", client: ours, server: member{key: "a", scope: "pi.team-a", ahead: -50 * time.Hour},
			want: "50h00min apart", server2: "refuses our certificate"},
		{name: "the server refuses our old certificate",
			client: member{key: "a", scope: "pi.team-a", old: 11 * time.Hour},
			server: member{key: "a", scope: "pi.team-a", ahead: 14 * time.Hour},
			want:   "it refuses our certificate for its dates: its clock read", server2: "not valid by our clock"},
		{name: "not an agent", client: ours, server: ours, role: RoleLauncher, want: "this needs agent"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			role := RoleAgent
			if tt.role != "" {
				role = tt.role
			}
			_, _, cerr, serr := meet(t, tt.client.load(t, RoleLauncher, "l"), tt.server.load(t, role, "w"))
			var r *Refusal
			if !errors.As(cerr, &r) || !strings.Contains(cerr.Error(), tt.want) {
				t.Errorf("client: %T %v, want %q", cerr, cerr, tt.want)
			}
			if serr == nil || !strings.Contains(serr.Error(), tt.server2) {
				t.Errorf("server: %v, want %q", serr, tt.server2)
			}
			t.Logf("client: host w: %v", cerr)
			t.Logf("server: client 10.0.0.1: %v", serr)
		})
	}
}

// The clock of one machine jumps while a job runs: what is connected stays, a new connection is refused by name while the clocks are too
// far apart, and none is any more once they are right, whatever leaf was made meanwhile.
func TestClockJumpsWhileAJobRuns(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/key", []byte("a 0123456789abcdef"))
	ca, certs := newCA("ca"), t.TempDir()
	ca.put(t, certs, ca.issue(uri("agent", "w")))
	for _, kind := range []string{"shared secret", "certificates"} {
		t.Run(kind, func(t *testing.T) {
			var ahead time.Duration
			var mu sync.Mutex
			jump := func(d time.Duration) { mu.Lock(); ahead = d; mu.Unlock() }
			jumping := func() time.Time { mu.Lock(); defer mu.Unlock(); return time.Now().Add(ahead) }
			var agent, launcher *Identity
			if kind == "certificates" {
				agent = credential.Must(Load(Options{TLSDir: certs, Role: RoleAgent, Root: t.TempDir(), Now: jumping}))
				l, _, err := ca.load(t, RoleLauncher, uri("launcher", "l"))
				if err != nil {
					t.Fatal(err)
				}
				launcher = l
			} else {
				o := Options{KeyFile: dir + "/key", Scope: "pi.team-a", Role: RoleAgent, Name: "w", Root: t.TempDir(), Now: jumping}
				agent = credential.Must(Load(o))
				o.Role, o.Name, o.Now = RoleLauncher, "l", nil
				launcher = credential.Must(Load(o))
			}
			old, theirs, cerr, serr := meet(t, launcher, agent)
			if cerr != nil || serr != nil {
				t.Fatal(cerr, serr)
			}
			for _, d := range []time.Duration{3 * year, -3 * year, 0, 10 * time.Minute, -10 * time.Minute, 0} {
				jump(d)
				_, _, cerr, serr := meet(t, launcher, agent)
				if refused := cerr != nil || serr != nil; refused != (d.Abs() > time.Hour) {
					t.Errorf("clock %v ahead: %v, %v", d, cerr, serr)
				}
				if cerr != nil && !strings.Contains(cerr.Error(), "clock") && !strings.Contains(cerr.Error(), "dates") {
					t.Errorf("clock %v ahead: the launcher does not say why: %v", d, cerr)
				}
				if _, err := theirs.Write([]byte("!")); err != nil {
					t.Errorf("clock %v ahead: the connection that stood: %v", d, err)
				}
				if _, err := io.ReadFull(old, make([]byte, 1)); err != nil {
					t.Errorf("clock %v ahead: the connection that stood: %v", d, err)
				}
			}
		})
	}
}

const year = 365 * 24 * time.Hour

// Clocks that are 12 h apart are never refused, whatever the leaves' age.
func TestSkewWithinHalfADayIsBorne(t *testing.T) {
	for _, ahead := range []time.Duration{-12 * time.Hour, 12 * time.Hour} {
		for _, old := range []time.Duration{0, 12*time.Hour - time.Minute} {
			a, b := member{key: "a", scope: "x", old: old}, member{key: "a", scope: "x", ahead: ahead, old: old}
			if _, _, cerr, serr := meet(t, a.load(t, RoleLauncher, "l"), b.load(t, RoleAgent, "w")); cerr != nil || serr != nil {
				t.Errorf("%v ahead, leaves %v old: %v, %v", ahead, old, cerr, serr)
			}
		}
	}
}

// serve answers one connection on loopback with f and returns the address.
func serve(t *testing.T, f func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		raw, err := l.Accept()
		if err != nil {
			return
		}
		defer raw.Close()
		f(raw)
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return l.Addr().String()
}

func TestStrangers(t *testing.T) {
	ours := member{key: "a", scope: "x"}.load(t, RoleLauncher, "l")
	foreign := newCA("web").issue(leafSpec{dns: "web.example"})
	first := func(s string) func(net.Conn) {
		return func(c net.Conn) {
			if _, err := io.WriteString(c, s); err == nil {
				_, _ = io.CopyN(io.Discard, c, 1)
			}
		}
	}
	overTLS := func(cfg *tls.Config) func(net.Conn) {
		return func(c net.Conn) { _ = tls.Server(c, cfg).Handshake() }
	}
	for _, tt := range []struct {
		name   string
		server func(net.Conn)
		plain  bool // no Refusal
		want   string
	}{
		{"ssh", first("SSH-2.0-OpenSSH_9.2p1\r\n"), false, "an SSH server"},
		{"http", first("HTTP/1.1 400 Bad Request\r\n\r\n"), false, "a plain HTTP server"},
		{"rubbish", first("\x00\x01\x02\x03\x04\x05\x06\x07"), false, "does not speak TLS"},
		{"foreign CA", overTLS(&tls.Config{Certificates: []tls.Certificate{foreign}, NextProtos: []string{"h2"}}), false, `is from "CN=web" and not of this job`},
		{"TLS 1.2", overTLS(&tls.Config{Certificates: []tls.Certificate{foreign}, MaxVersion: tls.VersionTLS12}), false, "something else listens there"},
		{"other ALPN", overTLS(&tls.Config{Certificates: []tls.Certificate{foreign}, NextProtos: []string{"imap"}}), false, "no protocol of mpiup's"},
		{"closes at once", func(c net.Conn) { // and takes what comes, which a plain close would answer with a reset
			_ = c.(*net.TCPConn).CloseWrite()
			_, _ = io.Copy(io.Discard, c)
		}, true, "EOF"},
		{"resets", func(c net.Conn) {
			_ = c.(*net.TCPConn).SetLinger(0)
			_, _ = io.ReadFull(c, make([]byte, 5))
		}, true, "reset"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			raw, err := net.Dial("tcp", serve(t, tt.server))
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			_, err = ours.Connect(ctx, raw, ours.ClientConfig("h2"))
			var r *Refusal
			if got := errors.As(err, &r); got == tt.plain || err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%T %v, want %q", err, err, tt.want)
			}
		})
	}
}

func TestSilentServerEndsWithTheContext(t *testing.T) {
	ours := member{key: "a", scope: "x"}
	agent := ours.load(t, RoleAgent, "w")
	block := make(chan struct{})
	for name, server := range map[string]func(net.Conn){
		"before the handshake": func(net.Conn) { <-block },
		"after the handshake": func(c net.Conn) {
			_ = tls.Server(c, agent.ServerConfig("h2")).Handshake()
			<-block
		},
	} {
		t.Run(name, func(t *testing.T) {
			raw, err := net.Dial("tcp", serve(t, server))
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			l := ours.load(t, RoleLauncher, "l")
			_, err = l.Connect(ctx, raw, l.ClientConfig("h2"))
			var r *Refusal
			if !errors.Is(err, context.DeadlineExceeded) || errors.As(err, &r) {
				t.Errorf("error %v", err)
			}
			block <- struct{}{}
		})
	}
}

// Clients that are no members: the agent refuses each, and says why.
func TestStrangeClients(t *testing.T) {
	agent := member{key: "a", scope: "x"}.load(t, RoleAgent, "w")
	foreign := newCA("web").issue(leafSpec{uris: []string{"mpiup://g/launcher/l"}})
	launcher := member{key: "a", scope: "x"}.load(t, RoleLauncher, "l")
	noALPN := launcher.ClientConfig()
	for _, tt := range []struct {
		name   string
		client func(net.Conn)
		want   string
	}{
		{"no certificate", func(c net.Conn) {
			_, _ = io.Copy(io.Discard, tls.Client(c, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}))
		}, "it shows no certificate"},
		{"foreign certificate", func(c net.Conn) {
			send := func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &foreign, nil }
			_, _ = io.Copy(io.Discard, tls.Client(c, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}, GetClientCertificate: send}))
		}, `is from "CN=web"`},
		{"plain HTTP", func(c net.Conn) { fmt.Fprint(c, "GET / HTTP/1.1\r\n\r\n") }, "does not speak TLS"},
		{"no ALPN", func(c net.Conn) { _, _ = io.Copy(io.Discard, tls.Client(c, noALPN)) }, "without naming a protocol"},
		{"nothing", func(c net.Conn) { c.Close() }, "EOF"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			result := make(chan error, 1)
			raw, err := net.Dial("tcp", serve(t, func(c net.Conn) {
				_, err := agent.Accept(context.Background(), c, agent.ServerConfig("h2"))
				result <- err
			}))
			if err != nil {
				t.Fatal(err)
			}
			defer raw.Close()
			tt.client(raw)
			if err := <-result; err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}

func TestExplain(t *testing.T) {
	id := member{key: "a", scope: "x"}.load(t, RoleLauncher, "l")
	if err := id.Explain(nil, nil); err != nil {
		t.Error(err)
	}
	plain := errors.New("read: connection reset by peer")
	if id.Explain(plain, nil) != plain {
		t.Error("a network error is changed")
	}
	for text, want := range map[string]string{
		`rpc error: code = Unavailable desc = connection error: desc = "error reading server preface: remote error: tls: unknown certificate authority"`: "of another job",
		`remote error: tls: expired certificate`: "as expired or not valid yet",
		`remote error: tls: bad certificate`:     "the role, group or usage does not fit",
		`remote error: tls: internal error`:      "it ended the TLS handshake",
	} {
		var r *Refusal
		err := id.Explain(errors.New(text), nil)
		if !errors.As(err, &r) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		} else if again := id.Explain(fmt.Errorf("host a: %w", r), nil); again.Error() != "host a: "+r.Error() {
			t.Errorf("explained twice: %v", again)
		}
	}
}

func FuzzCertificate(f *testing.F) {
	ours := member{key: "a", scope: "x"}.load(f, RoleAgent, "w")
	m := credential.Must(ours.source.current(ours.now()))
	f.Add(m.leaf.Certificate[0])
	f.Add(newCA("c").issue(leafSpec{uris: []string{"spiffe://td/ns/a/sa/x-launcher"}, ou: "mpiup-agent", cn: "h"}).Certificate[0])
	f.Fuzz(func(t *testing.T, der []byte) {
		defer cost.Watch(t, cost.Parser, len(der))()
		leaf, err := x509.ParseCertificate(der)
		if err != nil {
			return
		}
		for _, read := range []func(*x509.Certificate) (Peer, error){sharedPeer, certificatePeer} {
			if p, err := read(leaf); err == nil && (!goodName(p.Name) || !isRole(string(p.Role))) {
				t.Errorf("peer %+v", p)
			}
		}
		for _, reason := range []x509.InvalidReason{x509.Expired, x509.IncompatibleUsage} {
			_ = ours.judge(leaf, x509.CertificateInvalidError{Cert: leaf, Reason: reason}).Error()
		}
		_ = ours.judge(leaf, x509.UnknownAuthorityError{Cert: leaf}).Error()
	})
}

// A certificate that says agent to one reading and launcher to another: there is one reading, whose result is carried on.
func TestCertificateHasOneReading(t *testing.T) {
	ca := newCA("ca")
	agent, _, err := ca.load(t, RoleAgent, leafSpec{ou: "mpiup-agent", o: "g", cn: "w"})
	if err != nil {
		t.Fatal(err)
	}
	two, _, err := ca.load(t, RoleAgent, leafSpec{ou: "mpiup-agent", o: "g", cn: "x", uris: []string{"mpiup-shared:launcher/l"}})
	if err != nil {
		t.Fatal(err)
	}
	_, s, cerr, serr := meet(t, two, agent)
	if cerr != nil || serr != nil {
		t.Fatal(cerr, serr)
	}
	_, info, err := Transport().ServerHandshake(s)
	if err != nil {
		t.Fatal(err)
	}
	who := info.(AuthInfo).Peer
	if who.Role != RoleAgent || who.Name != "x" || !who.RoleProven || Require(who, RoleLauncher) == nil {
		t.Errorf("the certificate of agent x is taken for that of %s %s", who.Role, who.Name)
	}
}
