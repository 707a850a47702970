package identity

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"time"
)

// curves: the hybrid key exchange first, so that a recording made today is of no use to a
// later quantum computer: stdin, stdout and environments pass here. On a slow, shared core it
// costs about 0.3 ms a side, of 0.9 ms, and 2.3 KB a handshake (BenchmarkHandshake). The plain
// curve is for peers without it; Go's larger hybrids are left out, every mpiup has these two.
var curves = []tls.CurveID{tls.X25519MLKEM768, tls.X25519}

// ServerConfig is for an agent's listener: TLS 1.3 only, a client certificate of this job
// required and verified, and, when alpn is given, one of these protocols. Each handshake
// takes the certificates of the moment.
//
// Session tickets are off: connections last as long as runs, so a ticket saves nothing, and it
// would carry a peer past the check of its dates.
func (i *Identity) ServerConfig(alpn ...string) *tls.Config {
	cfg := i.base(alpn)
	cfg.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		m, err := i.source.current(i.now())
		if err != nil {
			return nil, err
		}
		c := i.base(alpn)
		c.Certificates = []tls.Certificate{*m.hinted(hello.ServerName)}
		c.ClientAuth = tls.RequireAndVerifyClientCert
		c.ClientCAs = m.roots
		c.VerifyConnection = func(cs tls.ConnectionState) error {
			if len(alpn) > 0 && cs.NegotiatedProtocol == "" {
				return &Refusal{text: "it speaks TLS without naming a protocol (ALPN), as no mpiup does"}
			}
			who, err := i.checkPeer(cs.PeerCertificates[0])
			if to, ok := hello.Context().Value(whoKey{}).(*Peer); ok {
				*to = who
			}
			return err
		}
		return c, nil
	}
	return cfg
}

// ClientConfig is for connections to agents: TLS 1.3 only, our certificate sent, the peer's
// chain verified and its role an agent's. Names are not checked: a pod's address and DNS name
// say nothing that its job and role do not say better. Connect adds what one connection needs while the job has two keys.
func (i *Identity) ClientConfig(alpn ...string) *tls.Config {
	cfg := i.base(alpn)
	// Verification is ours, below: the standard one insists on a DNS name.
	cfg.InsecureSkipVerify = true
	cfg.VerifyConnection = func(cs tls.ConnectionState) error {
		m, err := i.source.current(i.now())
		if err == nil {
			_, _, err = i.verifyServer(cs, m)
		}
		return err
	}
	cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		m, err := i.source.current(i.now())
		return m.leaf, err
	}
	return cfg
}

func (i *Identity) base(alpn []string) *tls.Config {
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		CurvePreferences:       curves,
		NextProtos:             alpn,
		SessionTicketsDisabled: true,
		// Go begins with records of one packet, which serves pages that a browser shows in parts;
		// here they would be a thousand system calls before output flows.
		DynamicRecordSizingDisabled: true,
		Time:                        i.now,
	}
}

// verifyServer tells who the server is, and with which of our leaves we answer it.
func (i *Identity) verifyServer(cs tls.ConnectionState, m material) (Peer, *tls.Certificate, error) {
	leaf := cs.PeerCertificates[0]
	between := x509.NewCertPool()
	for _, c := range cs.PeerCertificates[1:] {
		between.AddCert(c)
	}
	chains, err := leaf.Verify(x509.VerifyOptions{
		Roots:         m.roots,
		Intermediates: between,
		CurrentTime:   i.now(),
		KeyUsages:     []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	if err != nil {
		return Peer{}, nil, i.judge(leaf, err)
	}
	if err := approved(chains...); err != nil {
		return Peer{}, nil, &Refusal{text: err.Error(), err: err}
	}
	who, err := i.checkPeer(leaf, RoleAgent)
	return who, m.under(chains), err
}

// checkPeer reads the peer's certificate, whose chain is verified, and demands one of roles. This is
// the only reading: what it finds is carried on with the connection (Conn.Peer).
func (i *Identity) checkPeer(leaf *x509.Certificate, roles ...Role) (Peer, error) {
	p, err := i.source.peer(leaf)
	if err == nil && len(roles) > 0 {
		err = Require(p, roles...)
	}
	if err != nil {
		return Peer{}, &Refusal{text: err.Error(), err: err}
	}
	return p, nil
}

// whoKey is the key under which Accept's context has the place for who called.
type whoKey struct{}

// Accept does the server's side of a handshake on a connection of cfg's listener. On failure it returns what Explain
// says and has closed raw, after a moment in which the client can read why. Closing with unread bytes sends a reset.
// That can overtake the alert and leave the client with "connection reset".
func (i *Identity) Accept(ctx context.Context, raw net.Conn, cfg *tls.Config) (*Conn, error) {
	conn, who := tls.Server(raw, cfg), Peer{}
	err := conn.HandshakeContext(context.WithValue(ctx, whoKey{}, &who))
	if err == nil {
		return &Conn{Conn: conn, who: who}, nil
	}
	if ctx.Err() == nil {
		linger(raw)
	}
	raw.Close()
	return nil, i.Explain(err, nil)
}

const (
	lingerTime  = 500 * time.Millisecond
	lingerBytes = 64 << 10
)

// linger sends FIN and reads what the peer still sends, for a bounded time and amount.
// Errors do not matter: the connection is given up anyway.
func linger(raw net.Conn) {
	half, ok := raw.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil || raw.SetDeadline(time.Now().Add(lingerTime)) != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, raw, lingerBytes)
}

// Conn is a handshaken connection, whose other side is proven.
type Conn struct {
	*tls.Conn
	who   Peer
	first []byte // read while waiting for the server; Read gives it out first
}

// Peer is who is at the other end, as the handshake found it.
func (c *Conn) Peer() Peer { return c.who }

// Read is for one goroutine at a time.
func (c *Conn) Read(p []byte) (int, error) {
	if len(c.first) > 0 && len(p) > 0 {
		n := copy(p, c.first)
		c.first = c.first[n:]
		return n, nil
	}
	return c.Conn.Read(p)
}

// Connect does the client's side of a handshake with an agent. In TLS 1.3 a client's
// handshake ends before the server has looked at the client's certificate, and a refusal
// comes with the first read. With "h2", where the server speaks first (its SETTINGS frame;
// grpc-go flushes it before it reads), Connect therefore waits for the first byte, so that
// its success means both sides agree. That costs no round trip: a call waits for SETTINGS
// anyway. The context's deadline bounds all of it.
//
// The error is a *Refusal when one side refused the other (or the peer is no mpiup), and the
// plain network error (reset, end of file, deadline) when the network failed, or why our own certificate cannot be
// had; raw is closed.
func (i *Identity) Connect(ctx context.Context, raw net.Conn, cfg *tls.Config) (*Conn, error) {
	m, err := i.source.current(i.now())
	if err != nil {
		raw.Close()
		return nil, err
	}
	c, ours := &Conn{}, m.leaf
	cfg = cfg.Clone()
	if len(m.each) > 0 { // the CA whose leaf we would rather see
		cfg.ServerName = m.each[0].hint
	}
	cfg.VerifyConnection = func(cs tls.ConnectionState) (err error) {
		c.who, ours, err = i.verifyServer(cs, m)
		return err
	}
	// TLS 1.3 has the client answer after the server has shown its certificate (RFC 8446, 2).
	cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return ours, nil }
	conn := tls.Client(raw, cfg)
	c.Conn = conn
	err = conn.HandshakeContext(ctx)
	if err == nil && conn.ConnectionState().NegotiatedProtocol == "h2" {
		err = c.confirm(ctx)
	}
	if err == nil {
		return c, nil
	}
	raw.Close()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("TLS handshake: %w (%v)", context.Cause(ctx), err)
	}
	var leaf *x509.Certificate
	if certs := conn.ConnectionState().PeerCertificates; len(certs) > 0 {
		leaf = certs[0]
	}
	return nil, i.Explain(err, leaf)
}

func (c *Conn) confirm(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = c.SetReadDeadline(time.Unix(1, 0)) })
	first := make([]byte, 1)
	n, err := io.ReadFull(c.Conn, first)
	if !stop() && err == nil {
		return ctx.Err()
	}
	c.first = first[:n]
	return err
}
