package identity

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// A proof lets a process believe one that it never meets. It holds that one's certificate with those
// between it and the CA, and a signature by its key.
//
//	uvarint  n, at most 4
//	n times  uvarint length, certificate (DER), the process's own first
//	         uvarint length, signature of "mpiup/1 statement" NUL kind NUL text
//
// A proof has no date: it holds as long as the job's CA does. So it may only say what can be old without harm (a number
// that only grows), or its text says when it was signed, and who verifies it asks about that time (VerifyAt).
const (
	// MaxProof bounds a proof, in bytes: three RSA certificates of 4096 bits fit.
	MaxProof = 8 << 10

	maxChain       = 4
	maxRSA         = 8192 // bits, as in crypto/tls: what a signature costs to check
	statementLabel = "mpiup/1 statement"
)

// Sign proves that this process says text. kind keeps statements of different meaning apart. It holds no NUL,
// so no part of it can be mistaken for one of text.
func (i *Identity) Sign(kind string, text []byte) (proof []byte, err error) {
	m, err := i.source.current(i.now())
	if err != nil {
		return nil, err
	}
	key, ok := m.leaf.PrivateKey.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("a key of type %T cannot sign", m.leaf.PrivateKey)
	}
	said := statement(kind, text)
	var signature []byte
	switch key.Public().(type) {
	case ed25519.PublicKey:
		signature, err = key.Sign(rand.Reader, said, crypto.Hash(0))
	case *rsa.PublicKey:
		sum := sha256.Sum256(said)
		signature, err = key.Sign(rand.Reader, sum[:], &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash, Hash: crypto.SHA256})
	default:
		sum := sha256.Sum256(said)
		signature, err = key.Sign(rand.Reader, sum[:], crypto.SHA256)
	}
	if err != nil {
		return nil, fmt.Errorf("sign a statement: %w", err)
	}
	chain := m.leaf.Certificate[:min(len(m.leaf.Certificate), maxChain)]
	proof = binary.AppendUvarint(nil, uint64(len(chain)))
	for _, part := range append(chain[:len(chain):len(chain)], signature) {
		proof = append(binary.AppendUvarint(proof, uint64(len(part))), part...)
	}
	if len(proof) > MaxProof {
		return nil, fmt.Errorf("a proof with our certificates has %d bytes, and %d are possible", len(proof), MaxProof)
	}
	return proof, nil
}

func statement(kind string, text []byte) []byte {
	return append([]byte(statementLabel+"\x00"+kind+"\x00"), text...)
}

var errProof = errors.New("malformed proof")

// Verify tells who says text, of that kind. Certificates must lead to the job's CA, as in a handshake.
func (i *Identity) Verify(kind string, text, proof []byte) (Peer, error) {
	return i.VerifyAt(kind, text, proof, time.Time{})
}

// VerifyAt is Verify of what was signed at a time, when the certificates must not have ended; zero: whenever they were valid.
func (i *Identity) VerifyAt(kind string, text, proof []byte, at time.Time) (Peer, error) {
	chain, signature, err := splitProof(proof)
	if err != nil {
		return Peer{}, err
	}
	leaf, between := chain[0], x509.NewCertPool()
	for n, c := range chain {
		if key, ok := c.PublicKey.(*rsa.PublicKey); ok && key.N.BitLen() > maxRSA {
			return Peer{}, fmt.Errorf("%w: an RSA key of %d bits", errProof, key.N.BitLen())
		}
		if n > 0 {
			between.AddCert(c)
		}
		if at.Before(c.NotBefore) { // all that are in the proof were valid at one time
			at = c.NotBefore
		}
	}
	m, err := i.source.current(i.now())
	if err != nil {
		return Peer{}, err
	}
	_, err = leaf.Verify(x509.VerifyOptions{Roots: m.roots, Intermediates: between, CurrentTime: at,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	if err != nil {
		return Peer{}, err
	}
	who, err := i.checkPeer(leaf)
	if err != nil {
		return Peer{}, err
	}
	how := x509.ECDSAWithSHA256
	switch leaf.PublicKey.(type) {
	case ed25519.PublicKey:
		how = x509.PureEd25519
	case *rsa.PublicKey:
		how = x509.SHA256WithRSAPSS
	case *ecdsa.PublicKey:
	default:
		return Peer{}, fmt.Errorf("%w: a key of type %T", errProof, leaf.PublicKey)
	}
	return who, leaf.CheckSignature(how, statement(kind, text), signature)
}

// splitProof takes a proof apart.
func splitProof(b []byte) (chain []*x509.Certificate, signature []byte, err error) {
	count, n := binary.Uvarint(b)
	if n <= 0 || len(b) > MaxProof || count == 0 || count > maxChain {
		return nil, nil, errProof
	}
	b = b[n:]
	for k := range count + 1 {
		size, n := binary.Uvarint(b)
		if n <= 0 || size > uint64(len(b)-n) {
			return nil, nil, errProof
		}
		part := b[n : n+int(size)]
		b = b[n+int(size):]
		if k == count {
			signature = part
			break
		}
		c, err := x509.ParseCertificate(part)
		if err != nil {
			return nil, nil, fmt.Errorf("%w: %w", errProof, err)
		}
		chain = append(chain, c)
	}
	if len(b) > 0 {
		return nil, nil, errProof
	}
	return chain, signature, nil
}
