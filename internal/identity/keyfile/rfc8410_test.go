package keyfile

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"testing"

	"github.com/mpiup/mpiup/test/credential"
)

func TestEd25519AsX509ReadsIt(t *testing.T) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der := credential.Must(x509.MarshalPKCS8PrivateKey(private))
	quick, ok := parseEd25519(der)
	slow := credential.Must(normalise(parseDER(der)))
	if !ok || !bytes.Equal(quick.Material, slow.Material) {
		t.Error("two identities from one key")
	}
	if key, ok := quick.Private().(ed25519.PrivateKey); !ok || !key.Equal(private) {
		t.Error("another private key")
	}
	for _, other := range [][]byte{nil, der[:len(der)-1], append(bytes.Clone(der), 0), der[1:]} {
		if _, ok := parseEd25519(other); ok {
			t.Errorf("%x: taken", other)
		}
	}
}
