package keyfile

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/asn1"
	"testing"

	"github.com/mpiup/mpiup/test/credential"
)

func TestSEC1AsX509ReadsIt(t *testing.T) {
	for _, curve := range []elliptic.Curve{elliptic.P256(), elliptic.P384(), elliptic.P521()} {
		der := credential.Must(x509.MarshalECPrivateKey(credential.Must(ecdsa.GenerateKey(curve, rand.Reader))))
		quick, ok := parseSEC1(der)
		slow := credential.Must(normalise(parseDER(der)))
		if !ok || !bytes.Equal(quick.Material, slow.Material) {
			t.Errorf("%s: two identities from one key", curve.Params().Name)
		}
		if key, ok := quick.Private().(*ecdsa.PrivateKey); !ok || !key.Equal(slow.Private()) {
			t.Errorf("%s: another private key", curve.Params().Name)
		}
	}
}

// What x509 refuses, or reads in its own way, is left to it.
func TestSEC1LeftToX509(t *testing.T) {
	p521 := asn1.ObjectIdentifier{1, 3, 132, 0, 35}
	order := elliptic.P521().Params().N.Bytes()
	for _, tt := range []struct {
		name string
		key  sec1Key
	}{
		{"zero", sec1Key{Version: 1, Scalar: make([]byte, 66), Curve: p521}},
		{"the order", sec1Key{Version: 1, Scalar: order, Curve: p521}},
		{"version", sec1Key{Version: 2, Scalar: []byte{1}, Curve: p521}},
		{"curve", sec1Key{Version: 1, Scalar: []byte{1}, Curve: asn1.ObjectIdentifier{1, 3, 132, 0, 10}}},
		{"no curve", sec1Key{Version: 1, Scalar: []byte{1}}},
	} {
		if _, ok := parseSEC1(credential.Must(asn1.Marshal(tt.key))); ok {
			t.Errorf("%s: taken", tt.name)
		}
	}
}

// BenchmarkOperatorKey is what every start of a launcher or agent pays.
func BenchmarkOperatorKey(b *testing.B) {
	private, _ := credential.Operator()
	for b.Loop() {
		if _, err := Parse(private); err != nil {
			b.Fatal(err)
		}
	}
}
