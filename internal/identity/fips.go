package identity

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/fips140"
	"crypto/rsa"
	"crypto/x509"
	"fmt"
)

// approvedKeys are the keys of certificates that count in FIPS 140-3 mode. They are those of crypto/tls, which says so only
// of chains that it verifies itself; servers' we do.
const approvedKeys = "RSA of 2048 bits or more, ECDSA on P-256, P-384 or P-521, and Ed25519"

// approved is an error in FIPS 140-3 mode (GODEBUG=fips140=on or only) where each chain has a key that is not approved.
func approved(chains ...[]*x509.Certificate) error {
	if !fips140.Enabled() {
		return nil
	}
	var first error
	for _, chain := range chains {
		err := approvedChain(chain)
		if err == nil {
			return nil
		}
		if first == nil {
			first = err
		}
	}
	return first
}

func approvedChain(chain []*x509.Certificate) error {
	for n, c := range chain {
		what := unapproved(c.PublicKey)
		if what == "" {
			continue
		}
		whose := "its certificate's key"
		if n > 0 {
			whose = fmt.Sprintf("the key of %.100q, which issued its certificate,", c.Subject.String())
		}
		return fmt.Errorf("%s is %s, and FIPS 140-3 mode takes only %s", whose, what, approvedKeys)
	}
	return nil
}

// ifFIPS is a part of a sentence that is true in FIPS 140-3 mode only.
func ifFIPS(text string) string {
	if fips140.Enabled() {
		return text
	}
	return ""
}

// unapproved names a key that is not approved; "" for one that is.
func unapproved(key any) string {
	switch k := key.(type) {
	case *rsa.PublicKey:
		if bits := k.N.BitLen(); bits < 2048 {
			return fmt.Sprintf("RSA of %d bits", bits)
		}
	case *ecdsa.PublicKey:
		if c := k.Curve; c != elliptic.P256() && c != elliptic.P384() && c != elliptic.P521() {
			return "ECDSA on " + c.Params().Name
		}
	case ed25519.PublicKey:
	default:
		return fmt.Sprintf("of the type %T", key)
	}
	return ""
}
