// Package keyfile makes one secret of the content of a key file, whatever its encoding.
//
//	private key in PEM (SEC1, PKCS#1, PKCS#8, OpenSSH) or bare DER ──▶ type, curve, scalar ─┐
//	anything else, 16 bytes or more ──────────────────────────────────────────────────────┴▶ Material
//	public and encrypted keys, certificates, damaged PEM ──▶ an error: what everybody may read is no secret
//
// PURE: bytes in, a Key out; a Key does not change.
//
// It finds and reads no file, and derives nothing from the Material.
package keyfile

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/crypto/ssh"
)

const (
	minKey  = 16       // bytes of an opaque key file, after line ends are cut off
	MaxSize = 64 << 10 // bytes of any key file
)

// Key is the content of a key file.
type Key struct {
	Material []byte     // HKDF input: the same for one key in every encoding
	Private  func() any // the private key; nil for an opaque file
}

// Parse turns the content of a key file into HKDF input.
//
//	private key in PEM (SEC1, PKCS#1, PKCS#8, OpenSSH) or bare DER:
//	    type, curve and private scalar (RSA: the primes in order of size), each with its length,
//	    so one key gives one identity in every encoding
//	anything else: the bytes without line ends at the end, at least 16
//
// Public and encrypted keys, certificates and damaged PEM are refused: what everybody may
// read, or half a header, is no secret.
func Parse(data []byte) (Key, error) {
	if len(data) > MaxSize {
		return Key{}, fmt.Errorf("larger than %d KiB, which no key is", MaxSize>>10)
	}
	if bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("-----BEGIN")) {
		return parsePEM(data)
	}
	if _, _, _, _, err := ssh.ParseAuthorizedKey(data); err == nil {
		return Key{}, errors.New("a public key, which is no secret: name the private one")
	}
	if k, ok := parseQuickly(data); ok {
		return k, nil
	}
	if key := parseDER(data); key != nil {
		return normalise(key)
	}
	return opaque(data)
}

func parsePEM(data []byte) (Key, error) {
	var seen []string
	for rest := data; ; {
		var block *pem.Block
		block, rest = pem.Decode(rest)
		switch {
		case block == nil && seen == nil:
			return Key{}, errors.New("damaged PEM: it has a first line but no readable block, so a part is missing; copy it anew from where it was made")
		case block == nil:
			return Key{}, fmt.Errorf("no private key, only %s, which is no secret; name the private key's file", strings.Join(seen, ", "))
		case block.Type == "ENCRYPTED PRIVATE KEY" || strings.Contains(block.Headers["Proc-Type"], "ENCRYPTED"):
			return Key{}, errEncrypted
		case strings.HasSuffix(block.Type, "PRIVATE KEY"):
			return parseBlock(block)
		}
		if seen = append(seen, fmt.Sprintf("%.40q", block.Type)); len(seen) > 8 {
			return Key{}, errors.New("more than 8 PEM blocks and no private key among them")
		}
	}
}

var errEncrypted = errors.New("an encrypted private key, and mpiup asks for no passphrase: " +
	"use a key without one (mpiup keygen makes one)")

func parseBlock(block *pem.Block) (Key, error) {
	if k, ok := parseQuickly(block.Bytes); ok {
		return k, nil
	}
	key, err := ssh.ParseRawPrivateKey(pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes}))
	var locked *ssh.PassphraseMissingError
	if errors.As(err, &locked) {
		return Key{}, errEncrypted
	}
	if err != nil {
		// Hand-made files mix up the three block types; the content decides.
		if key = parseDER(block.Bytes); key == nil {
			return Key{}, fmt.Errorf("a %.40q block that cannot be read as a private key (%w); "+
				"any file of at least %d random bytes does as well", block.Type, err, minKey)
		}
	}
	return normalise(key)
}

// parseQuickly reads the two kinds that most jobs have: the operators', and mpiup keygen's.
func parseQuickly(der []byte) (Key, bool) {
	if k, ok := parseSEC1(der); ok {
		return k, true
	}
	return parseEd25519(der)
}

func parseDER(der []byte) crypto.PrivateKey {
	if len(der) == 0 || der[0] != 0x30 { // an ASN.1 SEQUENCE
		return nil
	}
	if k, err := x509.ParsePKCS8PrivateKey(der); err == nil {
		return k
	}
	if k, err := x509.ParseECPrivateKey(der); err == nil {
		return k
	}
	if k, err := x509.ParsePKCS1PrivateKey(der); err == nil {
		return k
	}
	return nil
}

func normalise(key crypto.PrivateKey) (Key, error) {
	var parts [][]byte
	switch k := key.(type) {
	case *ecdsa.PrivateKey:
		scalar, err := k.Bytes()
		if err != nil {
			return Key{}, fmt.Errorf("an EC key that cannot be used: %w", err)
		}
		parts = [][]byte{[]byte("ecdsa"), []byte(k.Curve.Params().Name), scalar}
	case *rsa.PrivateKey:
		if len(k.Primes) != 2 {
			return Key{}, fmt.Errorf("an RSA key of %d primes, and only 2 are supported", len(k.Primes))
		}
		p, q := k.Primes[0], k.Primes[1]
		if p.Cmp(q) < 0 {
			p, q = q, p
		}
		parts = [][]byte{[]byte("rsa"), p.Bytes(), q.Bytes()}
	case ed25519.PrivateKey:
		parts = [][]byte{[]byte("ed25519"), k.Seed()}
	case *ed25519.PrivateKey: // as x/crypto/ssh returns it
		return normalise(*k)
	default:
		der, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			return Key{}, fmt.Errorf("a key of a kind that is not supported: %w", err)
		}
		parts = [][]byte{[]byte("pkcs8"), der}
	}
	return Key{Material: join("private key", parts), Private: func() any { return key }}, nil
}

func opaque(data []byte) (Key, error) {
	body := bytes.TrimRight(data, "\r\n")
	if len(body) < minKey {
		return Key{}, fmt.Errorf("only %d bytes, and a key has at least %d (mpiup keygen makes one)", len(body), minKey)
	}
	if bytes.Count(body, body[:1]) == len(body) {
		return Key{}, errors.New("one byte repeated, which is no secret (mpiup keygen makes one)")
	}
	return Key{Material: join("opaque", [][]byte{body})}, nil
}

// join makes one byte string of parts. No two lists of parts give the same one.
func join(kind string, parts [][]byte) []byte {
	out := []byte("mpiup/1 " + kind + "\x00")
	for _, p := range parts {
		out = binary.BigEndian.AppendUint32(out, uint32(len(p)))
		out = append(out, p...)
	}
	return out
}

// AuthorizedBy says whether an authorized_keys file names this key. An operator writes the file from
// the key beside it. ok is also true if the file names no readable key, or this key is
// opaque: the file says nothing then.
func (k Key) AuthorizedBy(authorized []byte) (ok bool) {
	named, others := k.among(authorized, false)
	return named || !others
}

// NamedIn says whether an authorized_keys file names this key without a restriction (command="...", from="..."). An
// opaque key is named nowhere.
func (k Key) NamedIn(authorized []byte) bool {
	named, _ := k.among(authorized, true)
	return named
}

// among looks through an authorized_keys file. others says that it has keys and that this one could be compared with them.
func (k Key) among(authorized []byte, unrestricted bool) (named, others bool) {
	if k.Private == nil {
		return false, false
	}
	signer, err := ssh.NewSignerFromKey(k.Private())
	if err != nil {
		return false, false
	}
	own := signer.PublicKey().Marshal()
	for len(authorized) > 0 {
		pub, _, options, rest, err := ssh.ParseAuthorizedKey(authorized)
		if err != nil {
			break
		}
		if others = true; bytes.Equal(pub.Marshal(), own) && (len(options) == 0 || !unrestricted) {
			return true, true
		}
		authorized = rest
	}
	return false, others
}
