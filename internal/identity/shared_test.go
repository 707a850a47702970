package identity

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mpiup/mpiup/test/credential"
)

// pod is a process whose key's file the test changes, as the kubelet does: by another file of its name.
type podKey struct {
	t    *testing.T
	file string
	id   *Identity
	now  time.Time
}

func (p *podKey) put(text string) {
	p.t.Helper()
	write(p.t, p.file+".new", []byte(text))
	if err := os.Rename(p.file+".new", p.file); err != nil {
		p.t.Fatal(err)
	}
}

func newPodKey(t *testing.T, role Role, key string) *podKey {
	t.Helper()
	p := &podKey{t: t, file: filepath.Join(t.TempDir(), "key"), now: time.Now()}
	p.put(key)
	id, err := Load(Options{KeyFile: p.file, Scope: "x", Role: role, Name: string(role), Root: t.TempDir(), Now: func() time.Time { return p.now }})
	if err != nil {
		t.Fatal(err)
	}
	p.id = id
	id.Prepare()
	return p
}

// The Secret gets another key while the job runs. Pods see it one after the other, and for a while launchers with either
// key are served, whoever has seen what; then only those with the new one.
func TestKeyIsReplaced(t *testing.T) {
	const one, two = "key number one, of 32 bytes......", "key number two, of 32 bytes......"
	for _, tt := range []struct {
		name            string
		launcher, agent string // "1", "2": it began with that key; "1>2": it has seen a change; "1)2": it has not looked at its file since
		late            bool   // after the overlap
		meet            bool
	}{
		{"nobody has seen it", "1", "1", false, true},
		{"the agent has", "1", "1>2", false, true},
		{"the launcher has", "1>2", "1", false, true},
		{"both have", "1>2", "1>2", false, true},
		{"a launcher that came later", "2", "1>2", false, true},
		{"an agent that came later", "1>2", "2", false, true},
		{"a launcher that came later, to an agent that has not seen it", "2", "1", false, false},
		{"the agent has, long ago", "1", "1>2", true, false},
		{"the agent had nothing to do since", "1", "1)2", true, false}, // the overlap began with the change
		{"the launcher had nothing to do since", "1)2", "1>2", true, true},
		{"both have, long ago", "1>2", "1>2", true, true},
		{"back again", "1>2>1", "1", true, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			begin := func(role Role, story string) *podKey {
				keys := map[byte]string{'1': one, '2': two}
				p := newPodKey(t, role, keys[story[0]])
				for n := 2; n < len(story); n += 2 {
					p.put(keys[story[n]])
					if story[n-1] == '>' {
						p.id.Prepare() // sees it
					}
				}
				if tt.late {
					p.now = p.now.Add(KeyOverlap + time.Minute)
				}
				return p
			}
			first := newPodKey(t, RoleAgent, map[byte]string{'1': one, '2': two}[tt.agent[0]]).id.Ports()[1] // where the default port was taken
			launcher, agent := begin(RoleLauncher, tt.launcher), begin(RoleAgent, tt.agent)
			if there, today := launcher.id.Ports(), agent.id.PortsToday()[1]; tt.meet && !slices.Contains(there, first) && !slices.Contains(there, today) {
				t.Errorf("the agent is at ports %d and %d, and the launcher looks at %v", first, today, there)
			}
			c, s, cerr, serr := meet(t, launcher.id, agent.id)
			if !tt.meet {
				var r *Refusal
				if cerr == nil || serr == nil || !errors.As(cerr, &r) || !strings.Contains(cerr.Error(), "of another job") {
					t.Errorf("launcher %v, agent %v", cerr, serr)
				}
				return
			}
			if cerr != nil || serr != nil {
				t.Fatal(cerr, serr)
			}
			if c.Peer().Role != RoleAgent || s.Peer().Role != RoleLauncher {
				t.Errorf("%+v, %+v", c.Peer(), s.Peer())
			}
			proof := credential.Must(launcher.id.Sign("number", []byte("1")))
			if _, err := agent.id.Verify("number", []byte("1"), proof); (err == nil) != (tt.launcher[len(tt.launcher)-1] == '1' || len(tt.agent) > 1 || tt.agent == "2") {
				t.Errorf("the launcher's statement: %v", err)
			}
		})
	}
}

// A file that is gone, half written or no key leaves the key in use.
func TestKeyThatCannotBeReadStays(t *testing.T) {
	const one = "key number one, of 32 bytes......"
	launcher, agent := newPodKey(t, RoleLauncher, one), newPodKey(t, RoleAgent, one)
	for _, spoil := range []func(){
		func() { agent.put("short") },
		func() { agent.put("-----BEGIN PRIVATE KEY-----\nhalf") },
		func() { os.Remove(agent.file) },
	} {
		spoil()
		agent.now = agent.now.Add(KeyOverlap + time.Minute)
		if _, _, cerr, serr := meet(t, launcher.id, agent.id); cerr != nil || serr != nil {
			t.Error(cerr, serr)
		}
	}
}
