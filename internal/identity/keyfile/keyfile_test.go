package keyfile

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/fips140"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/test/cost"
	"github.com/mpiup/mpiup/test/credential"
	"github.com/mpiup/mpiup/test/need"
	"golang.org/x/crypto/ssh"
)

func TestOneKeyInEveryEncoding(t *testing.T) {
	ec := credential.Must(ecdsa.GenerateKey(elliptic.P521(), rand.Reader))
	rs := credential.Must(rsa.GenerateKey(rand.Reader, 2048))
	_, ed, _ := ed25519.GenerateKey(rand.Reader)
	openssh := func(key any) []byte {
		return pem.EncodeToMemory(credential.Must(ssh.MarshalPrivateKey(key, "a comment")))
	}
	sec1, pkcs1 := credential.Must(x509.MarshalECPrivateKey(ec)), x509.MarshalPKCS1PrivateKey(rs)
	seen := map[string]string{}
	for name, encodings := range map[string]map[string][]byte{
		"ecdsa": {
			"SEC1":            credential.PEM("EC PRIVATE KEY", sec1),
			"SEC1 after text": append([]byte("\n"), credential.PEM("EC PRIVATE KEY", sec1)...),
			"with parameters": append(credential.PEM("EC PARAMETERS", []byte{6, 5, 43, 129, 4, 0, 35}), credential.PEM("EC PRIVATE KEY", sec1)...),
			"PKCS#8":          credential.PEM("PRIVATE KEY", credential.Must(x509.MarshalPKCS8PrivateKey(ec))),
			"mislabelled":     credential.PEM("PRIVATE KEY", sec1),
			"OpenSSH":         openssh(ec),
			"DER":             sec1,
		},
		"rsa": {
			"PKCS#1":  credential.PEM("RSA PRIVATE KEY", pkcs1),
			"PKCS#8":  credential.PEM("PRIVATE KEY", credential.Must(x509.MarshalPKCS8PrivateKey(rs))),
			"OpenSSH": openssh(rs),
			"CRLF":    bytes.ReplaceAll(credential.PEM("RSA PRIVATE KEY", pkcs1), []byte("\n"), []byte("\r\n")),
			"DER":     pkcs1,
		},
		"ed25519": {
			"PKCS#8":  credential.PEM("PRIVATE KEY", credential.Must(x509.MarshalPKCS8PrivateKey(ed))),
			"OpenSSH": openssh(ed),
		},
	} {
		var first []byte
		for enc, data := range encodings {
			k, err := Parse(data)
			if err != nil {
				t.Errorf("%s %s: %v", name, enc, err)
				continue
			}
			if first == nil {
				first = k.Material
			}
			if !bytes.Equal(first, k.Material) {
				t.Errorf("%s: %s gives another identity", name, enc)
			}
		}
		if other, ok := seen[string(first)]; ok {
			t.Errorf("%s and %s are the same", name, other)
		}
		seen[string(first)] = name
	}
}

func TestOpaqueKey(t *testing.T) {
	a := credential.Must(Parse([]byte("correct horse battery staple")))
	b := credential.Must(Parse([]byte("correct horse battery staple\r\n")))
	c := credential.Must(Parse([]byte("correct horse battery staplE")))
	if !bytes.Equal(a.Material, b.Material) || bytes.Equal(a.Material, c.Material) {
		t.Error("line ends count, or letters do not")
	}
}

func TestKeyRefused(t *testing.T) {
	private, authorized := credential.Operator()
	ec := credential.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	var legacy *pem.Block
	fips140.WithoutEnforcement(func() { // by MD5
		//lint:ignore SA1019 such files exist and are refused by name
		legacy = credential.Must(x509.EncryptPEMBlock(rand.Reader, "EC PRIVATE KEY", credential.Must(x509.MarshalECPrivateKey(ec)), []byte("x"), x509.PEMCipherAES128))
	})
	for _, tt := range []struct {
		name string
		data []byte
		want string
	}{
		{"empty", nil, "only 0 bytes"},
		{"short", []byte("fifteen bytes..\n"), "only 15 bytes"},
		{"zeros", make([]byte, 32), "one byte repeated"},
		{"huge", bytes.Repeat([]byte("ab"), MaxSize), "larger than 64 KiB"},
		{"half a PEM", private[:len(private)/2], "damaged PEM"},
		{"PEM header only", []byte("-----BEGIN EC PRIVATE KEY-----\n"), "damaged PEM"},
		{"bytes in PEM", credential.PEM("PRIVATE KEY", []byte("no key at all")), "cannot be read as a private key"},
		{"ssh public key", authorized, "a public key"},
		{"PEM public key", credential.PEM("PUBLIC KEY", credential.Must(x509.MarshalPKIXPublicKey(&ec.PublicKey))), `"PUBLIC KEY"`},
		{"certificate", credential.PEM("CERTIFICATE", []byte("x")), "no secret"},
		{"encrypted PKCS#8", credential.PEM("ENCRYPTED PRIVATE KEY", []byte("x")), "encrypted private key"},
		{"encrypted legacy", pem.EncodeToMemory(legacy), "encrypted private key"},
		{"encrypted OpenSSH", pem.EncodeToMemory(credential.Must(ssh.MarshalPrivateKeyWithPassphrase(ec, "", []byte("x")))), "encrypted private key"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := Parse(tt.data); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}

// What ssh-keygen and openssl write, and turn into each other, is read alike.
func TestRealTools(t *testing.T) {
	need.Program(t, "ssh-keygen", "openssh-client")
	need.Program(t, "openssl", "openssl")
	for _, kind := range [][]string{{"-t", "ecdsa", "-b", "521"}, {"-t", "rsa", "-b", "2048"}} {
		dir := t.TempDir()
		file := filepath.Join(dir, "id")
		tool := func(name string, args ...string) {
			t.Helper()
			if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
				t.Fatalf("%s %v: %v\n%s", name, args, err, out)
			}
		}
		tool("ssh-keygen", append(kind, "-q", "-N", "", "-f", file)...)
		want := credential.Must(Parse(credential.Must(os.ReadFile(file))))
		tool("ssh-keygen", "-p", "-q", "-m", "PEM", "-N", "", "-P", "", "-f", file)
		tool("openssl", "pkcs8", "-topk8", "-nocrypt", "-in", file, "-out", file+".p8")
		for _, f := range []string{file, file + ".p8"} {
			if k := credential.Must(Parse(credential.Must(os.ReadFile(f)))); !bytes.Equal(k.Material, want.Material) {
				t.Errorf("%v: %s differs", kind, f)
			}
		}
		if !want.AuthorizedBy(credential.Must(os.ReadFile(file + ".pub"))) {
			t.Errorf("%v: public half not recognised", kind)
		}
	}
}

func FuzzKey(f *testing.F) {
	private, authorized := credential.Operator()
	f.Add(private)
	f.Add(authorized)
	f.Add([]byte("sixteen bytes and more"))
	f.Add(pem.EncodeToMemory(credential.Must(ssh.MarshalPrivateKey(ed25519.NewKeyFromSeed(make([]byte, 32)), ""))))
	f.Fuzz(func(t *testing.T, data []byte) {
		defer cost.Watch(t, cost.Parser, len(data))()
		if p, err := PublicOf(data); err == nil && (p.Line == "" || strings.ContainsAny(p.Line+p.Comment, "\r\n")) {
			t.Errorf("%+v", p)
		}
		k, err := Parse(data)
		if err == nil && len(k.Material) < minKey {
			t.Errorf("%d bytes of material from %q", len(k.Material), data)
		}
		if err == nil && k.Private != nil {
			k.AuthorizedBy(data)
		}
	})
}
