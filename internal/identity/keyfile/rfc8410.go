package keyfile

import (
	"bytes"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"io"
)

// pkcs8Ed25519 is a PKCS#8 Ed25519 key without attributes up to its 32 bytes of seed (RFC 8410, 7).
var pkcs8Ed25519 = []byte{
	0x30, 0x2e, // SEQUENCE
	0x02, 0x01, 0x00, // version
	0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, // 1.3.101.112
	0x04, 0x22, 0x04, 0x20, // OCTET STRING in an OCTET STRING
}

// parseEd25519 reads the seed of a key as Keygen writes it, and nothing else. crypto/x509 also computes the public
// key, for which each process makes a table first. false: the key has another form.
func parseEd25519(der []byte) (Key, bool) {
	seed, ok := bytes.CutPrefix(der, pkcs8Ed25519)
	if !ok || len(seed) != ed25519.SeedSize {
		return Key{}, false
	}
	return Key{
		Material: join("private key", [][]byte{[]byte("ed25519"), seed}),
		Private:  func() any { return ed25519.NewKeyFromSeed(seed) },
	}, true
}

// Keygen writes a fresh job secret, an Ed25519 key as PKCS#8 PEM.
func Keygen(w io.Writer) error {
	key, err := generate("ed25519", 0)
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return pem.Encode(w, &pem.Block{Type: "PRIVATE KEY", Bytes: der})
}
