package identity

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"math/big"
	"testing"
	"time"

	"github.com/mpiup/mpiup/test/cost"

	"github.com/mpiup/mpiup/test/credential"
)

func TestStatements(t *testing.T) {
	key, job := member{key: "a", scope: "x"}, member{key: "a", scope: "y"}
	ca, foreign := newCA("ca"), newCA("other")
	files := func(ca testCA, role Role, s leafSpec) *Identity {
		i, _, err := ca.load(t, role, s)
		if err != nil {
			t.Fatal(err)
		}
		return i
	}
	inTeam := func(team string) leafSpec { return leafSpec{uris: []string{"mpiup://" + team + "/launcher/l"}} }
	for _, tt := range []struct {
		name     string
		by, to   *Identity
		kind     string
		text     string
		change   func(proof []byte) []byte
		accepted bool
		role     Role
	}{
		{name: "one secret", by: key.load(t, RoleLauncher, "l"), to: key.load(t, RoleAgent, "w"), accepted: true, role: RoleLauncher},
		{name: "one secret, an agent's", by: key.load(t, RoleAgent, "l"), to: key.load(t, RoleAgent, "w"), accepted: true, role: RoleAgent},
		{name: "another job of the secret", by: job.load(t, RoleLauncher, "l"), to: key.load(t, RoleAgent, "w")},
		{name: "certificates", by: files(ca, RoleLauncher, uri("launcher", "l")), to: files(ca, RoleAgent, uri("agent", "w")), accepted: true, role: RoleLauncher},
		{name: "a worker's certificate", by: files(ca, RoleAgent, uri("agent", "l")), to: files(ca, RoleAgent, uri("agent", "w")), accepted: true, role: RoleAgent},
		{name: "another CA", by: files(foreign, RoleLauncher, uri("launcher", "l")), to: files(ca, RoleAgent, uri("agent", "w"))},
		{name: "another group", by: files(ca, RoleLauncher, inTeam("h")), to: files(ca, RoleAgent, uri("agent", "w"))},
		{name: "a secret to certificates", by: key.load(t, RoleLauncher, "l"), to: files(ca, RoleAgent, uri("agent", "w"))},
		{name: "another kind", kind: "else", by: key.load(t, RoleLauncher, "l"), to: key.load(t, RoleAgent, "w")},
		{name: "another text", text: "8", by: key.load(t, RoleLauncher, "l"), to: key.load(t, RoleAgent, "w")},
		{name: "cut", by: key.load(t, RoleLauncher, "l"), to: key.load(t, RoleAgent, "w"),
			change: func(p []byte) []byte { return p[:len(p)-1] }},
		{name: "with more", by: key.load(t, RoleLauncher, "l"), to: key.load(t, RoleAgent, "w"),
			change: func(p []byte) []byte { return append(p, 0) }},
		{name: "nothing", by: key.load(t, RoleLauncher, "l"), to: key.load(t, RoleAgent, "w"),
			change: func([]byte) []byte { return nil }},
		{name: "many certificates", by: key.load(t, RoleLauncher, "l"), to: key.load(t, RoleAgent, "w"),
			change: func(p []byte) []byte { return append([]byte{200, 1}, p[1:]...) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			proof, err := tt.by.Sign("number", []byte("7"))
			if err != nil {
				t.Fatal(err)
			}
			if tt.change != nil {
				proof = tt.change(bytes.Clone(proof))
			}
			kind, text := "number", "7"
			if tt.kind != "" {
				kind = tt.kind
			}
			if tt.text != "" {
				text = tt.text
			}
			who, err := tt.to.Verify(kind, []byte(text), proof)
			if (err == nil) != tt.accepted {
				t.Fatalf("%+v, %v", who, err)
			}
			if tt.accepted && (who.Role != tt.role || who.Name != "l") {
				t.Errorf("it is of %+v", who)
			}
			t.Logf("%d bytes; %v", len(proof), err)
		})
	}
}

// What was signed under a certificate that has expired meanwhile holds: the number in it is still taken.
func TestStatementsOutliveCertificates(t *testing.T) {
	now := time.Now()
	clock := func() time.Time { return now }
	load := func(role Role, name string) *Identity {
		return credential.Must(Load(Options{Root: t.TempDir(), Role: role, Name: name, Insecure: true, Now: clock}))
	}
	launcher, agent := load(RoleLauncher, "l"), load(RoleAgent, "w")
	proof := credential.Must(launcher.Sign("number", []byte("1")))
	now = now.Add(1000 * time.Hour)
	if who, err := agent.Verify("number", []byte("1"), proof); err != nil || who.Role != RoleLauncher {
		t.Errorf("%+v, %v", who, err)
	}
}

func TestRSAStatements(t *testing.T) {
	ca := newCA("ca")
	agent, _, err := ca.load(t, RoleAgent, uri("agent", "w"))
	if err != nil {
		t.Fatal(err)
	}
	key := credential.Must(rsa.GenerateKey(rand.Reader, 2048))
	like := ca.issue(uri("launcher", "l")).Leaf
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(3), NotBefore: like.NotBefore, NotAfter: like.NotAfter, URIs: like.URIs,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: like.ExtKeyUsage}
	der := credential.Must(x509.CreateCertificate(rand.Reader, tmpl, ca.Cert, &key.PublicKey, ca.Key))
	launcher := &Identity{now: time.Now,
		source: fixed{material{leaf: &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}}}}
	proof := credential.Must(launcher.Sign("number", []byte("7")))
	if who, err := agent.Verify("number", []byte("7"), proof); err != nil || who.Name != "l" {
		t.Errorf("%+v, %v", who, err)
	}
}

// fixed is a source of one generation.
type fixed struct{ m material }

func (f fixed) current(time.Time) (material, error)       { return f.m, nil }
func (f fixed) peer(leaf *x509.Certificate) (Peer, error) { return certificatePeer(leaf) }

func FuzzProof(f *testing.F) {
	ours := member{key: "a", scope: "x"}
	launcher, agent := ours.load(f, RoleLauncher, "l"), ours.load(f, RoleAgent, "w")
	proof := credential.Must(launcher.Sign("number", []byte("7")))
	f.Add(proof)
	f.Add(binary.AppendUvarint([]byte{1}, 1<<62))
	f.Fuzz(func(t *testing.T, b []byte) {
		defer cost.Watch(t, cost.Parser, len(b))()
		if _, err := agent.Verify("number", []byte("8"), b); err == nil {
			t.Error("somebody signed what nobody said")
		}
	})
}
