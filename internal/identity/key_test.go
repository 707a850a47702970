package identity

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"testing"

	"github.com/mpiup/mpiup/internal/identity/keyfile"

	"github.com/mpiup/mpiup/test/credential"
)

func TestKeygenMakesAKey(t *testing.T) {
	var a, b bytes.Buffer
	if err := keyfile.Keygen(&a); err != nil {
		t.Fatal(err)
	}
	if err := keyfile.Keygen(&b); err != nil {
		t.Fatal(err)
	}
	ka, kb := credential.Must(keyfile.Parse(a.Bytes())), credential.Must(keyfile.Parse(b.Bytes()))
	if ka.Private == nil || bytes.Equal(ka.Material, kb.Material) {
		t.Error("no key, or twice the same")
	}
	block, _ := pem.Decode(a.Bytes()) // x509's plain form, which keyfile reads quickly
	if !bytes.Equal(block.Bytes, credential.Must(x509.MarshalPKCS8PrivateKey(ka.Private()))) {
		t.Errorf("another form: %x", block.Bytes)
	}
}
