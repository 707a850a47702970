package identity

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/mpiup/mpiup/internal/bounded"
)

// The files of --tls-dir, as cert-manager and SPIFFE's helpers write them, and their bound.
const (
	certFile = "tls.crt"
	keyFile  = "tls.key"
	caFile   = "ca.crt"
	maxFile  = 256 << 10 // bytes
)

// fileSource is certificate files, looked at before each handshake (three stat calls) and
// read again when they changed. New files that cannot be used leave the old ones in use and
// are logged once.
type fileSource struct {
	dir  string
	role Role
	now  func() time.Time
	log  *slog.Logger
	ca   *x509.Certificate // first of ca.crt at the start: the job id follows from it

	mu       sync.Mutex
	tried    [3]stamp // guarded by mu: the files as last looked at
	complain string   // guarded by mu: what was logged last
	have     material // guarded by mu
	self     Peer     // guarded by mu
}

// stamp changes when a file is written in place, or replaced, or when a symbolic link on the
// way to it (the kubelet's ..data) is pointed elsewhere.
type stamp struct {
	dev, ino     uint64
	size         int64
	mtime, ctime syscall.Timespec
}

// generation is one consistent set of files.
type generation struct {
	material
	self Peer
	ca   *x509.Certificate
}

func (s *fileSource) open() error {
	at, g, err := s.read(s.now())
	if err != nil {
		return fmt.Errorf("--tls-dir %s: %w", s.dir, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tried, s.have, s.self, s.ca = at, g.material, g.self, g.ca
	return nil
}

func (s *fileSource) current(now time.Time) (material, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, err := s.stamps()
	if err == nil && at == s.tried {
		return s.have, nil
	}
	var g generation
	if err == nil {
		at, g, err = s.read(now)
	}
	s.tried = at
	if err != nil {
		if err.Error() != s.complain {
			s.complain = err.Error()
			s.log.Error("new certificate files cannot be used, the old ones stay", "dir", s.dir, "error", err)
		}
		return s.have, nil
	}
	s.have, s.self, s.complain = g.material, g.self, ""
	s.log.Info("read new certificate files", "dir", s.dir, "until", g.leaf.Leaf.NotAfter)
	return s.have, nil
}

func (s *fileSource) peer(leaf *x509.Certificate) (Peer, error) {
	p, err := certificatePeer(leaf)
	if err != nil {
		return Peer{}, err
	}
	s.mu.Lock()
	own := s.self.group
	s.mu.Unlock()
	if p.group != own {
		return Peer{}, fmt.Errorf("its certificate is of the group %.100q, ours of %.100q", p.group, own)
	}
	return p, nil
}

func (s *fileSource) stamps() (at [3]stamp, err error) {
	for i, name := range []string{certFile, keyFile, caFile} {
		if at[i], err = stampOf(filepath.Join(s.dir, name)); err != nil {
			return at, err
		}
	}
	return at, nil
}

// read returns a set of files that did not change while it was read.
func (s *fileSource) read(now time.Time) (at [3]stamp, g generation, err error) {
	for range 3 {
		if at, err = s.stamps(); err != nil {
			return at, g, err
		}
		g, err = s.load(now)
		after, serr := s.stamps()
		if serr == nil && after == at {
			return at, g, err
		}
	}
	return at, g, fmt.Errorf("the files change while they are read: %w", cmp.Or(err, errors.New("try again")))
}

func (s *fileSource) load(now time.Time) (generation, error) {
	var data [3][]byte
	for i, name := range []string{certFile, keyFile, caFile} {
		path := filepath.Join(s.dir, name)
		var err error
		if data[i], err = bounded.Regular(path, maxFile); err != nil {
			return generation{}, unreadable(path, path, err)
		}
	}
	pair, err := tls.X509KeyPair(data[0], data[1])
	if err != nil {
		return generation{}, fmt.Errorf("%s and %s: %w", certFile, keyFile, err)
	}
	roots, err := parseRoots(data[2])
	if err != nil {
		return generation{}, fmt.Errorf("%s: %w", caFile, err)
	}
	g := generation{material: material{leaf: &pair, roots: x509.NewCertPool()}, ca: roots[0]}
	for _, c := range roots {
		g.roots.AddCert(c)
	}
	g.self, err = s.check(&pair, g.roots, now)
	if err != nil {
		return generation{}, fmt.Errorf("%s: %w", certFile, err)
	}
	return g, nil
}

// check finds out here what peers would refuse later.
func (s *fileSource) check(pair *tls.Certificate, roots *x509.CertPool, now time.Time) (Peer, error) {
	between := x509.NewCertPool()
	for _, der := range pair.Certificate[1:] {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return Peer{}, err
		}
		between.AddCert(c)
	}
	uses := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if s.role == RoleAgent { // agents dial each other, too
		uses = append(uses, x509.ExtKeyUsageServerAuth)
	}
	for _, use := range uses {
		chains, err := pair.Leaf.Verify(x509.VerifyOptions{
			Roots: roots, Intermediates: between, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{use}})
		if err != nil {
			return Peer{}, fmt.Errorf("peers with this ca.crt would refuse it: %w", err)
		}
		if err := approved(chains...); err != nil {
			return Peer{}, err
		}
	}
	p, err := certificatePeer(pair.Leaf)
	if err != nil {
		return Peer{}, err
	}
	if s.role == RoleLauncher { // agents may let other agents start things (agent/policy)
		return p, nil
	}
	return p, Require(p, s.role)
}

func parseRoots(data []byte) ([]*x509.Certificate, error) {
	var roots []*x509.Certificate
	for len(data) > 0 {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("it holds a %.40q block, and only certificates belong there", block.Type)
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		roots = append(roots, c)
	}
	if roots == nil {
		return nil, errors.New("it holds no certificate")
	}
	return roots, nil
}
