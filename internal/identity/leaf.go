package identity

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"math/big"
	"net/url"
	"time"
)

const (
	// leafReach is how far a leaf reaches to either side of the minter's clock. The middle of
	// its validity is therefore that clock at minting.
	leafReach = 24 * time.Hour
	// leafRenew is the age at which a leaf is minted anew. Clocks may differ by
	// leafReach−leafRenew and are never refused.
	leafRenew = 12 * time.Hour
	// maxName bounds a name in a certificate, in bytes (a DNS name's bound, RFC 1035).
	maxName = 253
)

// mint makes a leaf: a fresh Ed25519 key, no subject, one URI that says role and name, no
// extended key usage (it serves both ways). The CA is not sent along, every peer has it.
func mint(ca *authority, role Role, name string, now time.Time) (*tls.Certificate, error) {
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	var serial [8]byte
	if _, err := rand.Read(serial[:]); err != nil {
		return nil, err
	}
	t := &x509.Certificate{
		SerialNumber: new(big.Int).SetUint64(binary.BigEndian.Uint64(serial[:])>>1 | 1),
		NotBefore:    now.Add(-leafReach),
		NotAfter:     now.Add(leafReach),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		URIs:         []*url.URL{{Scheme: sharedScheme, Opaque: string(role) + "/" + url.PathEscape(name)}},
	}
	der, err := x509.CreateCertificate(rand.Reader, t, ca.cert, pub, ca.key)
	if err != nil {
		return nil, err
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: parsed}, nil
}

// mintedAt is the minter's clock when a derived leaf was made.
func mintedAt(leaf *x509.Certificate) time.Time {
	return leaf.NotBefore.Add(leaf.NotAfter.Sub(leaf.NotBefore) / 2)
}
