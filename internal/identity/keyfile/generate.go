package keyfile

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/pem"
	"fmt"
	"strings"

	"golang.org/x/crypto/ssh"
)

// Pair is a new key as OpenSSH keeps it in two files.
type Pair struct {
	Private     []byte // openssh-key-v1 in PEM, without a passphrase
	Public      []byte // "TYPE BASE64 COMMENT" and a line's end
	Fingerprint string // SHA256:...
}

// Generate makes a key pair: of the kind "rsa" (2048 to 16384 bits, 0: 3072), "ecdsa" (256, 384 or 521, 0: 256) or
// "ed25519", which has one size.
func Generate(kind string, bits int, comment string) (Pair, error) {
	key, err := generate(kind, bits)
	if err != nil {
		return Pair{}, err
	}
	block, err := ssh.MarshalPrivateKey(key, comment)
	if err != nil {
		return Pair{}, fmt.Errorf("encode the private key: %w", err)
	}
	public, err := ssh.NewPublicKey(key.Public())
	if err != nil {
		return Pair{}, fmt.Errorf("encode the public key: %w", err)
	}
	line := strings.TrimSuffix(string(ssh.MarshalAuthorizedKey(public)), "\n")
	return Pair{pem.EncodeToMemory(block), []byte(strings.TrimSpace(line+" "+comment) + "\n"), ssh.FingerprintSHA256(public)}, nil
}

func generate(kind string, bits int) (crypto.Signer, error) {
	switch kind {
	case "rsa":
		if bits == 0 {
			bits = 3072 // ssh-keygen(1)
		}
		if bits < 2048 || bits > 16384 {
			return nil, fmt.Errorf("an RSA key of %d bits: use 2048 to 16384", bits)
		}
		return rsa.GenerateKey(rand.Reader, bits)
	case "ecdsa":
		curve, ok := map[int]elliptic.Curve{0: elliptic.P256(), 256: elliptic.P256(), 384: elliptic.P384(), 521: elliptic.P521()}[bits]
		if !ok {
			return nil, fmt.Errorf("an ECDSA key of %d bits: use 256, 384 or 521", bits)
		}
		return ecdsa.GenerateKey(curve, rand.Reader)
	case "ed25519":
		_, key, err := ed25519.GenerateKey(rand.Reader)
		return key, err
	}
	return nil, fmt.Errorf("keys of the kind %.20q are not made here: use rsa, ecdsa or ed25519", kind)
}
