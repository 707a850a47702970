package attack

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/mpiup/mpiup/test/lab"
)

var bin string // the binary under attack

func TestMain(m *testing.M) {
	os.Exit(lab.Main(m, func(dir string) (err error) { bin, err = lab.Binary(dir); return err }, nil))
}

const (
	bound = 90 * time.Second // for any command, on a slow and busy machine
	port  = 16748            // the agent's default
)

// site is a job's certificates.
type site struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{t: t, key: newKey(t)}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &s.key.PublicKey, s.key)
	if err == nil {
		s.cert, err = x509.ParseCertificate(der)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// files is a --tls-dir whose certificate says uri.
func (s *site) files(uri string) (dir string) {
	s.t.Helper()
	u, err := url.Parse(uri)
	if err != nil {
		s.t.Fatal(err)
	}
	k := newKey(s.t)
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(2), NotBefore: s.cert.NotBefore, NotAfter: s.cert.NotAfter, URIs: []*url.URL{u},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, s.cert, &k.PublicKey, s.key)
	if err != nil {
		s.t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		s.t.Fatal(err)
	}
	dir = s.t.TempDir()
	for name, block := range map[string]*pem.Block{
		"tls.crt": {Type: "CERTIFICATE", Bytes: der},
		"tls.key": {Type: "PRIVATE KEY", Bytes: private},
		"ca.crt":  {Type: "CERTIFICATE", Bytes: s.cert.Raw},
	} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			s.t.Fatal(err)
		}
	}
	return dir
}

func startAgent(t *testing.T, env []string, args ...string) *lab.Loopback {
	t.Helper()
	return lab.NewLoopback(t, bin, env, args...)
}

// mpiup runs the binary to its end.
func mpiup(t *testing.T, args ...string) lab.Result {
	t.Helper()
	c := exec.Command(bin, args...)
	c.Dir, c.Env = t.TempDir(), []string{"PATH=/usr/bin:/bin", "HOME=" + t.TempDir()}
	return lab.Run(t, bound, c)
}
