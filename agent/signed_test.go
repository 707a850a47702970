package agent

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/mpiup/mpiup/internal/identity"
)

func load(t *testing.T, key string, role identity.Role, name string) *identity.Identity {
	t.Helper()
	id, err := identity.Load(identity.Options{KeyFile: key, Scope: "job", Role: role, Name: name, Root: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// A claim counts that the launcher has signed: not another launcher's, an agent's, or one about something else.
func TestSignedClaims(t *testing.T) {
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte("a key of more than 16 bytes"), 0o600); err != nil {
		t.Fatal(err)
	}
	a := &Agent{cfg: Config{Identity: load(t, key, identity.RoleAgent, "w0")}}
	for _, tt := range []struct {
		name string
		role identity.Role
		as   string
		n    uint64
		ok   bool
	}{
		{"its own", identity.RoleLauncher, "l", 7, true},
		{"another launcher's", identity.RoleLauncher, "m", 7, false},
		{"an agent's", identity.RoleAgent, "l", 7, false},
		{"another number's", identity.RoleLauncher, "l", 8, false},
	} {
		kind, text := identity.NumberClaim(tt.n, "life")
		proof, err := load(t, key, tt.role, tt.as).Sign(kind, text)
		if err != nil {
			t.Fatal(err)
		}
		if ok := a.signed("l", 7, "life", proof); ok != tt.ok {
			t.Errorf("%s: %v", tt.name, ok)
		}
	}
}
