package identity

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"testing"

	"github.com/mpiup/mpiup/internal/identity/keyfile"
)

func pemOf(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestKeygenMakesAKey(t *testing.T) {
	var a, b bytes.Buffer
	if err := Keygen(&a); err != nil {
		t.Fatal(err)
	}
	if err := Keygen(&b); err != nil {
		t.Fatal(err)
	}
	ka, kb := must(keyfile.Parse(a.Bytes())), must(keyfile.Parse(b.Bytes()))
	if ka.Private == nil || bytes.Equal(ka.Material, kb.Material) {
		t.Error("no key, or twice the same")
	}
	block, _ := pem.Decode(a.Bytes()) // x509's plain form, which keyfile reads quickly
	if !bytes.Equal(block.Bytes, must(x509.MarshalPKCS8PrivateKey(ka.Private()))) {
		t.Errorf("another form: %x", block.Bytes)
	}
}
