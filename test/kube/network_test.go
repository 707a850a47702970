package kube_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/test/lab"
	"github.com/mpiup/mpiup/test/netns"
)

// Addresses of either family, alone or together, and a cluster whose domain is not the usual
// one, of which workers' search lists hold a wrong entry.
func TestClusterNetworks(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		family netns.Family
		domain string
	}{
		{"IPv6 only", netns.IPv6, "cluster.local"},
		{"dual stack", netns.DualStack, "cluster.local"},
		{"another domain", netns.IPv4, "corp.example"},
		{"another domain with IPv6", netns.IPv6, "k8s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			j := mpiJobIn(t, tt.family, tt.domain, "OpenMPI", 2).mount().up()
			same(t, "ranks", j.launcher.run(whereAmI...).ok(t), fourOnTwo("rank %d of 4 on pi-worker-%d"))
			lab.Eventually(t, "the workers know each other by gossip", func() bool {
				return len(peers(t, j.workers[1], "--host", "localhost").alive()) == 2
			})
			for _, q := range j.DNS().Queries() {
				if tt.domain != "cluster.local" && strings.Contains(q, "cluster.local") {
					t.Errorf("DNS was asked for %s", q)
				}
			}
		})
	}
}

// A pod of the "restricted" Pod Security Standard: any uid, no passwd entry, no capability,
// no_new_privs, and not even a writable /tmp.
func TestRestrictedPods(t *testing.T) {
	t.Parallel()
	program := mpiHello(t)
	j := newMPIJob(t, netns.IPv4, "MPICH", 2)
	j.auth = "/home/mpiuser/.ssh"
	for _, p := range append(j.workers, j.launcher) {
		p.uid, p.readOnly = 1234567, true
	}
	j.mount().up()
	for _, script := range []string{"touch /x", "touch /tmp/x", "touch /run/x"} {
		if _, code := j.workers[0].exec(t.Context(), "sh", "-c", script); code == 0 {
			t.Errorf("%s succeeded: the test's file system is not read-only", script)
		}
	}
	var want []string
	for r := range 4 {
		want = append(want, fmt.Sprintf("rank %d of 4 on pi-worker-%d, %d of 2 there", r, r/2, r%2))
	}
	same(t, "ranks", j.launcher.run("-n", "4", program).ok(t), want)
	same(t, "who runs", j.launcher.run("-n", "1", "sh", "-c", "id -u; grep -E '^Cap(Eff|Bnd)' /proc/self/status | cut -f2").ok(t),
		[]string{"0000000000000000", "0000000000000000", "1234567"})
}
