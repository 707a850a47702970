package keyfile

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"errors"
	"strings"

	"golang.org/x/crypto/ssh"
)

// Public is the public half of a key in a file, as ssh-keygen shows it.
type Public struct {
	Line        string // "TYPE BASE64"
	Comment     string // of a public key's line
	Fingerprint string // SHA256:...
	Kind        string // "RSA", "ECDSA" or "ED25519"
	Bits        int
	Private     bool // the file holds the private half
}

// PublicOf reads a private key in PEM, or the first public key of a file of lines.
func PublicOf(data []byte) (p Public, err error) {
	var key ssh.PublicKey
	if bytes.Contains(data, []byte("-----BEGIN ")) {
		private, err := ssh.ParseRawPrivateKey(data)
		if errors.As(err, new(*ssh.PassphraseMissingError)) {
			return p, errEncrypted
		}
		signer, is := private.(crypto.Signer)
		if err != nil || !is {
			return p, errors.New("no private key that ssh uses")
		}
		if key, err = ssh.NewPublicKey(signer.Public()); err != nil {
			return p, err
		}
		p.Private = true
	} else if key, p.Comment, _, _, err = ssh.ParseAuthorizedKey(data); err != nil {
		return p, errors.New("neither a private key nor a line with a public one")
	}
	p.Line, p.Fingerprint = strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key))), ssh.FingerprintSHA256(key)
	p.Kind, p.Bits = "ED25519", 256
	if c, ok := key.(ssh.CryptoPublicKey); ok {
		switch k := c.CryptoPublicKey().(type) {
		case *rsa.PublicKey:
			p.Kind, p.Bits = "RSA", k.N.BitLen()
		case *ecdsa.PublicKey:
			p.Kind, p.Bits = "ECDSA", k.Params().BitSize
		}
	}
	return p, nil
}
