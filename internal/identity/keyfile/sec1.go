package keyfile

import (
	"crypto/elliptic"
	"crypto/x509"
	"encoding/asn1"
	"math/big"
)

// sec1Key is ECPrivateKey of SEC 1, C.4, as far as it is needed here.
type sec1Key struct {
	Version int
	Scalar  []byte
	Curve   asn1.ObjectIdentifier `asn1:"optional,explicit,tag:0"`
	Public  asn1.BitString        `asn1:"optional,explicit,tag:1"`
}

// curves by the object identifiers of SEC 2, A.2.
var sec1Curves = []struct {
	oid   asn1.ObjectIdentifier
	curve elliptic.Curve
}{
	{asn1.ObjectIdentifier{1, 2, 840, 10045, 3, 1, 7}, elliptic.P256()},
	{asn1.ObjectIdentifier{1, 3, 132, 0, 34}, elliptic.P384()},
	{asn1.ObjectIdentifier{1, 3, 132, 0, 35}, elliptic.P521()},
}

// parseSEC1 reads the scalar of an EC key and nothing else. crypto/x509 also computes the public key.
// For P-521, the kind that the operators mount, that takes 12 ms: as long as the rest of a launcher's
// start. false: it is no such key, or not one that x509 would take.
func parseSEC1(der []byte) (Key, bool) {
	var k sec1Key
	if rest, err := asn1.Unmarshal(der, &k); err != nil || len(rest) > 0 || k.Version != 1 {
		return Key{}, false
	}
	for _, c := range sec1Curves {
		if !k.Curve.Equal(c.oid) {
			continue
		}
		p := c.curve.Params()
		scalar := new(big.Int).SetBytes(k.Scalar)
		if scalar.Sign() == 0 || scalar.Cmp(p.N) >= 0 {
			return Key{}, false
		}
		fixed := scalar.FillBytes(make([]byte, (p.N.BitLen()+7)/8))
		return Key{
			Material: join("private key", [][]byte{[]byte("ecdsa"), []byte(p.Name), fixed}),
			Private: func() any {
				key, err := x509.ParseECPrivateKey(der)
				if err != nil {
					return nil
				}
				return key
			},
		}, true
	}
	return Key{}, false
}
