package identity

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mpiup/mpiup/internal/identity/keyfile"

	"github.com/mpiup/mpiup/test/credential"
)

// The derivation is a wire fact: a change of these values parts old from new processes, and
// needs a new version in the labels and in the protocol.
func TestDerivationGolden(t *testing.T) {
	key := credential.Must(keyfile.Parse([]byte("mpiup golden key, 32 bytes long.\n")))
	d := credential.Must(deriveAuthority(key.Material, "pi.team-a"))
	sum := sha256.Sum256(d.cert.Raw)
	i := &Identity{jobID: credential.Must(deriveJobID(key.Material, labelJobID, "pi.team-a"))}
	got := fmt.Sprintf("%s %s %v", i.jobID, hex.EncodeToString(sum[:8]), i.Ports())
	const want = "b21ae770c416a53862b61f332b949d59 f3c792aa7ac7564d [16748 27100 25524 29408 20937 22359 20916 20803]"
	if got != want {
		t.Errorf("derived %s\nwant    %s", got, want)
	}
	again := credential.Must(deriveAuthority(key.Material, "pi.team-a"))
	if !bytes.Equal(again.cert.Raw, d.cert.Raw) {
		t.Error("the CA is not deterministic")
	}
	for _, scope := range []string{"pi.team-b", "pi.team-a.", ""} {
		if credential.Must(deriveJobID(key.Material, labelJobID, scope)) == i.jobID || bytes.Equal(credential.Must(deriveAuthority(key.Material, scope)).key, d.key) {
			t.Errorf("scope %q gives the same job", scope)
		}
	}
	if d.cert.NotAfter.Year() != 9999 || time.Now().AddDate(100, 0, 0).After(d.cert.NotAfter) {
		t.Error("the CA expires")
	}
}

func TestPorts(t *testing.T) {
	for n := range 2000 {
		ports := (&Identity{jobID: fmt.Sprintf("%032x", n)}).Ports()
		seen := map[int]bool{}
		for k, p := range ports {
			if p < 10240 || p > 29999 || seen[p] || (k == 0) != (p == DefaultPort) {
				t.Fatalf("job %d: ports %v", n, ports)
			}
			seen[p] = true
		}
		if len(ports) != 8 {
			t.Fatalf("%d ports", len(ports))
		}
	}
}

func TestLoad(t *testing.T) {
	p := newPod(t)
	p.mount("/root/.ssh", "tmpfs")
	p.kubelet("/root/.ssh", sshSecret(t))
	o := Options{Root: p.root, Role: RoleLauncher, Name: "pi-launcher", Scope: "pi.team-a"}
	launcher := credential.Must(Load(o))
	o.Role, o.Name = RoleAgent, "pi-worker-0"
	agent := credential.Must(Load(o))
	o.Scope = ""
	alone := credential.Must(Load(o))
	if launcher.JobID() != agent.JobID() || len(agent.JobID()) != 32 || alone.JobID() == agent.JobID() {
		t.Errorf("job ids %s %s %s", launcher.JobID(), agent.JobID(), alone.JobID())
	}
	if agent.KeyFrom() != "/root/.ssh/id_rsa" || !agent.Mounted() || agent.ScopeFrom() != "--job" || alone.Scope() != DefaultScope {
		t.Errorf("%q %v %q %q", agent.KeyFrom(), agent.Mounted(), agent.ScopeFrom(), alone.Scope())
	}
	insecure := credential.Must(Load(Options{Root: t.TempDir(), Role: RoleAgent, Insecure: true}))
	if !strings.HasPrefix(insecure.KeyFrom(), "--insecure") || insecure.Mounted() {
		t.Errorf("%q", insecure.KeyFrom())
	}
	for _, bad := range []Options{
		{Root: p.root},
		{Root: p.root, Role: "boss"},
		{Root: p.root, Role: RoleAgent, Name: "a b"},
		{Root: p.root, Role: RoleAgent, KeyFile: "x", TLSDir: "y"},
		{Root: p.root, Role: RoleAgent, KeyFile: "x", Insecure: true},
	} {
		if _, err := Load(bad); err == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
}

func TestLeafIsRenewed(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	i := credential.Must(Load(Options{Root: t.TempDir(), Role: RoleAgent, Insecure: true, Now: func() time.Time { return now }}))
	at := func(d time.Duration) *material {
		m := credential.Must(i.source.current(now.Add(d)))
		return &m
	}
	first := at(0)
	if l := first.leaf.Leaf; !l.NotBefore.Equal(now.Add(-24*time.Hour)) || !l.NotAfter.Equal(now.Add(24*time.Hour)) || !mintedAt(l).Equal(now) {
		t.Errorf("leaf from %v to %v", l.NotBefore, l.NotAfter)
	}
	if at(12*time.Hour-time.Second).leaf != first.leaf {
		t.Error("renewed early")
	}
	if at(12*time.Hour).leaf == first.leaf {
		t.Error("not renewed after 12 h")
	}
	if second := at(13 * time.Hour); at(-time.Hour).leaf == second.leaf {
		t.Error("not renewed when the clock went back")
	}
	t.Logf("a leaf has %d bytes", len(first.leaf.Certificate[0]))
}
