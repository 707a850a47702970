// Package credential makes, for tests, what the processes of a job prove themselves with: ssh keys as operators make them, and
// certificates with their authority.
package credential

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// Must is v; it panics on an error, of which a test has none to expect.
func Must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// PEM is DER's text.
func PEM(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// Operator is a job's ssh secret as MPI Operator (newSSHAuthSecret) and Trainer make it, an ECDSA P-521 key: SEC1 in PEM, and
// its public half as a line of authorized_keys.
func Operator() (private, authorized []byte) {
	key := Must(ecdsa.GenerateKey(elliptic.P521(), rand.Reader))
	return PEM("EC PRIVATE KEY", Must(x509.MarshalECPrivateKey(key))), ssh.MarshalAuthorizedKey(Must(ssh.NewPublicKey(&key.PublicKey)))
}

// Volcano is a job's ssh secret as Volcano's ssh plugin makes it: RSA 2048, PKCS#1.
func Volcano() (private, authorized []byte) {
	key := Must(rsa.GenerateKey(rand.Reader, 2048))
	return PEM("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(key)), ssh.MarshalAuthorizedKey(Must(ssh.NewPublicKey(&key.PublicKey)))
}

// Authority is a CA for --tls-dir.
type Authority struct {
	Cert *x509.Certificate
	Key  *ecdsa.PrivateKey
}

// NewAuthority is a CA, valid since a year and for another.
func NewAuthority(name string) Authority {
	const year = 365 * 24 * time.Hour
	key := Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-year), NotAfter: time.Now().Add(year)}
	der := Must(x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key))
	return Authority{Must(x509.ParseCertificate(der)), key}
}

// Issue makes a certificate for both ends of a connection, with a key of its own. What says its names; dates and uses that
// it leaves out are those of an hour before and after now, and both.
func (a Authority) Issue(what x509.Certificate) tls.Certificate {
	key := Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	what.SerialNumber, what.KeyUsage = big.NewInt(2), x509.KeyUsageDigitalSignature
	if what.NotBefore.IsZero() {
		what.NotBefore = time.Now().Add(-time.Hour)
	}
	if what.NotAfter.IsZero() {
		what.NotAfter = time.Now().Add(time.Hour)
	}
	if what.ExtKeyUsage == nil {
		what.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}
	}
	der := Must(x509.CreateCertificate(rand.Reader, &what, a.Cert, &key.PublicKey, a.Key))
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: Must(x509.ParseCertificate(der))}
}

// Dir is a --tls-dir with a certificate and the authority that its owner trusts.
func (a Authority) Dir(t testing.TB, c tls.Certificate) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string][]byte{
		"tls.crt": PEM("CERTIFICATE", c.Certificate[0]),
		"tls.key": PEM("PRIVATE KEY", Must(x509.MarshalPKCS8PrivateKey(c.PrivateKey))),
		"ca.crt":  PEM("CERTIFICATE", a.Cert.Raw),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
