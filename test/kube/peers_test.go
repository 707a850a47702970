package kube_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/test/netns"
)

// peersView is what `mpiup peers --json` prints.
type peersView struct {
	Scope     string `json:"scope"`
	ScopeFrom string `json:"scope_from"`
	KeyFrom   string `json:"key_from"`
	HostsFrom string `json:"hosts_from"`
	Peers     []peer `json:"peers"`
	code      int
}

type peer struct {
	Host, Address, Incarnation, State, Error string
	Slots                                    int
}

func (v peersView) alive() []peer { return v.in("alive") }

func (v peersView) in(state string) (out []peer) {
	for _, p := range v.Peers {
		if p.State == state {
			out = append(out, p)
		}
	}
	return out
}

func (v peersView) host(name string) peer {
	for _, p := range v.Peers {
		if label, _, _ := strings.Cut(p.Host, "."); label == name {
			return p
		}
	}
	return peer{}
}

// peers asks in a pod's container. The exit code is not 0 where a named host is missing.
func peers(t *testing.T, p *pod, args ...string) peersView {
	t.Helper()
	out, code := p.exec(t.Context(), append([]string{p.bin, "peers", "--json"}, args...)...)
	v := peersView{code: code}
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		t.Logf("peers on %s, exit code %d: %v\n%s", p.name, code, err, out)
	}
	return v
}

// peers prints which job the pods believe they are in and from which file that comes, alike in
// launcher and workers.
func TestPeersPrintsTheScope(t *testing.T) {
	t.Parallel()
	j := newMPIJob(t, netns.IPv4, "OpenMPI", 2).mount().up()
	l := j.launcher.idle()
	l.publish() // it is of the service too, and has no agent
	for _, p := range append(j.workers, l) {
		v := peers(t, p)
		if v.Scope != "pi.ns" || v.ScopeFrom != "/etc/hosts" || v.KeyFrom != "/root/.ssh/id_rsa" {
			t.Errorf("%s: scope %q from %q, key from %q", p.name, v.Scope, v.ScopeFrom, v.KeyFrom)
		}
		if len(v.alive()) != 2 || v.code != 0 {
			t.Errorf("%s: exit code %d, %d hosts are alive, want 2: %+v", p.name, v.code, len(v.alive()), v.Peers)
		}
	}
	if v := peers(t, l); v.HostsFrom != "/etc/mpi/hostfile" {
		t.Errorf("the launcher's hosts come from %q", v.HostsFrom)
	}
	out, code := l.exec(t.Context(), l.bin, "exec", "pi-worker-1", "--", "cat", "/proc/sys/kernel/hostname")
	if code != 0 || out != "pi-worker-1\n" { // the bare name resolves nowhere
		t.Errorf("mpiup exec pi-worker-1: exit code %d: %s", code, out)
	}
	out, code = l.exec(t.Context(), l.bin, "peers")
	if code != 0 || !strings.HasPrefix(out, "scope pi.ns (/etc/hosts), key /root/.ssh/id_rsa, hosts from /etc/mpi/hostfile\n") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
}
