package kube_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mpiup/mpiup/test/lab"
	"github.com/mpiup/mpiup/test/netns"
)

// soon is what a run may take that waits for nothing, on a slow machine. A resolver that waits
// for a silent server takes 2 s for one try and 4 s for all.
const soon = 3500 * time.Millisecond

// The launcher starts 20 s before the last worker, which is longer than the lease it has with
// the first: no host is dropped, nothing is restarted, and DNS is asked for absolute names only.
func TestLauncherStartsBeforeWorkers(t *testing.T) {
	t.Parallel()
	j := newMPIJob(t, netns.IPv4, "OpenMPI", 3).mount()
	wait := j.launcher.begin(append([]string{j.bin, "run", "-n", "6", "--launcher-timeout", "5s"}, whereAmI...)...)
	for i, w := range j.workers { // one by one
		at := time.Duration(i+1) * 20 * time.Second / 3
		within(t.Context(), at-time.Duration(i)*20*time.Second/3, func() bool { return false })
		w.worker().published()
	}
	r := wait()
	for r := range 6 {
		want := fmt.Sprintf("rank %d of 6 on pi-worker-%d", r, r/2)
		if !strings.Contains(j.launcher.log.String(), want) {
			t.Errorf("missing: %s", want)
		}
	}
	r.says(t, 0, "waiting for", "pi-worker-2")
	if r.took < 15*time.Second {
		t.Errorf("it took %v: the last worker was not there yet", r.took)
	}
	for _, q := range j.DNS().Queries() {
		// What a search list of five entries would ask for, too.
		if strings.Contains(q, ".svc.ns.svc.") || strings.Contains(q, ".svc.svc.") || strings.Contains(q, ".svc.pi.") {
			t.Errorf("DNS was asked for %s", q)
		}
	}
}

// Kubernetes' stock CoreDNS addon remembers for 30 s that a worker was not there yet. The launcher
// asks before workers are published, and has them all soon after they are, not 30 s after it asked.
func TestWorkersPublishedAfterADenial(t *testing.T) {
	t.Parallel()
	j := newMPIJob(t, netns.IPv4, "OpenMPI", 2).mount()
	j.DNS().Cache(30*time.Second, netns.CoreDNS)
	for _, w := range j.workers {
		w.worker()
		lab.Eventually(t, w.name+" is ready", w.ready)
	}
	wait := j.launcher.begin(append([]string{j.bin, "run", "-n", "4"}, whereAmI...)...)
	lab.Eventually(t, "a waiting line", func() bool { return strings.Contains(j.launcher.log.String(), "waiting for 2 of 2 hosts") })
	begun := time.Now()
	j.workers[0].publish()
	within(t.Context(), 4*time.Second, func() bool { return false }) // the second is later by that
	j.workers[1].publish()
	r := wait()
	if same(t, "ranks", told(r.ok(t)), fourOnTwo("rank %d of 4 on pi-worker-%d")); time.Since(begun) > 15*time.Second {
		t.Errorf("the job ended %v after its workers had names:\n%s", time.Since(begun), r.out)
	}
	r.says(t, 0, "no such name: pi-worker-0.pi.ns.svc, pi-worker-1.pi.ns.svc (caches of DNS may repeat that for 2")
}

// A service's records are cached, too: CoreDNS repeats two of three for 30 s. A pod that comes is found by those that are there, which know it
// by gossip.
func TestWorkerThatComesToCachedRecords(t *testing.T) {
	t.Parallel()
	c := up(t, netns.IPv4, "cluster.local", "set-0", "set-1", "set-2", "front")
	c.DNS().Cache(30*time.Second, netns.WholeNames)
	secret := c.keygen()
	pods := map[string]*pod{}
	for _, name := range []string{"set-0", "set-1", "set-2", "front"} {
		pods[name] = c.pod(name, "set.ns.svc.cluster.local")
		pods[name].volumes = []volume{secret}
	}
	front := pods["front"]
	pods["set-0"].worker("--slots", "1").published()
	pods["set-1"].worker("--slots", "1").published()
	wait := front.begin(append([]string{c.bin, "run", "--size", "3", "--ppn", "1", "-n", "3"}, whereAmI...)...)
	lab.Eventually(t, "two are there", func() bool { return strings.Contains(front.log.String(), "has 2 of the 3 hosts") })
	begun := time.Now()
	pods["set-2"].worker("--slots", "1").published()
	r := wait()
	same(t, "ranks", ranksOf(r), []string{"rank 0 of 3 on set-0", "rank 1 of 3 on set-1", "rank 2 of 3 on set-2"})
	if d := time.Since(begun); d > 15*time.Second {
		t.Errorf("the job ended %v after its last worker came:\n%s", d, r.out)
	}
}

// told are the lines of the ranks, without the launcher's own.
func told(lines []string) []string {
	return slices.DeleteFunc(lines, func(l string) bool { return strings.HasPrefix(l, "mpiup: ") })
}

// Where nobody comes, each missing worker and why is named, and the code tells how far it got.
func TestMissingWorkers(t *testing.T) {
	t.Parallel()
	j := newMPIJob(t, netns.IPv4, "OpenMPI", 3).mount()
	j.workers[0].worker().published()
	j.workers[1].kubelet()
	j.workers[1].publish() // a record, and nobody behind it
	r := j.launcher.run(append([]string{"-n", "6", "--wait", "8"}, whereAmI...)...)
	r.says(t, 243, "pi-worker-1.pi.ns.svc", "refused", "pi-worker-2.pi.ns.svc", "no such name", "--wait")
	if strings.Contains(r.out, "pi-worker-0.pi.ns.svc:") {
		t.Errorf("a host that is there is called missing:\n%s", r.out)
	}
	j.DNS().Remove(j.workers[1].fqdn())
	j.launcher.run(append([]string{"--host", "pi-worker-2.pi.ns.svc:2", "--wait", "2"}, whereAmI...)...).says(t, 242, "no such name")
}

// A DNS server that is silent, refuses or is not there delays neither readiness nor a run whose
// hosts are in /etc/hosts.
func TestDNSThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		server string // "": the cluster's, silent
	}{
		{"silent", ""},
		{"nobody has its address", "10.77.9.9"},
		{"no route to it", "192.0.2.1"},
		{"nothing listens there", "127.0.0.1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			j := newMPIJob(t, netns.IPv4, "OpenMPI", 2)
			j.DNS().Silent(true)
			hosts := ""
			for _, w := range j.workers { // hostAliases
				hosts += fmt.Sprintf("%s\t%s.pi.ns.svc.cluster.local\t%[2]s\n", w.Addr(w.name), w.name)
			}
			for _, p := range append(slices.Clone(j.workers), j.launcher) {
				p.aliases, p.server = hosts, tt.server
			}
			j.mount()
			for _, w := range j.workers {
				quick(t, w.name+" is ready", func() time.Duration {
					begun := time.Now()
					w.worker()
					lab.Eventually(t, w.name+" is ready", w.ready)
					return time.Since(begun)
				})
			}
			quick(t, "the run", func() time.Duration {
				r := j.launcher.run(append([]string{"-n", "4"}, whereAmI...)...)
				same(t, "ranks", r.ok(t), fourOnTwo("rank %d of 4 on pi-worker-%d"))
				return r.took
			})
		})
	}
}

// quick fails the test if f always takes longer than soon: a busy machine makes it so at times,
// waiting for a server each time.
func quick(t *testing.T, what string, f func() time.Duration) {
	t.Helper()
	var took []time.Duration
	for range 5 {
		d := f()
		if d <= soon {
			return
		}
		took = append(took, d)
	}
	t.Errorf("%s took %v", what, took)
}

// Hosts that were named are all that a run needs: agents without gossip serve it.
func TestNamedHostsWithoutGossip(t *testing.T) {
	t.Parallel()
	j := newMPIJob(t, netns.IPv4, "OpenMPI", 2)
	j.launcher.volumes = append(j.launcher.volumes, j.key.sshAuth(j.auth))
	for _, w := range j.workers {
		w.volumes = append(w.volumes, j.key.sshAuth(j.auth))
		w.worker("--no-gossip").published()
	}
	args := append([]string{"--host", "pi-worker-0.pi:2,pi-worker-1.pi.ns.svc:2"}, whereAmI...)
	same(t, "ranks", j.launcher.run(args...).ok(t), fourOnTwo("rank %d of 4 on pi-worker-%d"))
}

// A worker pod that was deleted comes back with its name and another address.
func TestReplacedPod(t *testing.T) {
	t.Parallel()
	j := newMPIJob(t, netns.IPv4, "OpenMPI", 3).mount().up()
	run := func() result { return j.launcher.run(append([]string{"-n", "6", "--wait", "60"}, whereAmI...)...) }
	run().ok(t)
	view := func() peersView { return peers(t, j.workers[0]) }
	lab.Eventually(t, "gossip knows three", func() bool { return len(view().alive()) == 3 })

	gone := j.workers[1]
	old := gone.Addr(gone.name)
	must(t, j.Kill(gone.name))
	gone.unpublish(j.workers[0], j.workers[2])
	must(t, j.Readdress(gone.name))
	gone.worker().published()
	if gone.Addr(gone.name) == old {
		t.Fatal("the pod has its old address")
	}
	run().ok(t)
	var v peersView
	defer func() { t.Logf("last view: %+v", v) }()
	lab.Eventually(t, "gossip has the new entry in place of the old", func() bool {
		v = view()
		return len(v.Peers) == 3 && len(v.alive()) == 3 && strings.HasPrefix(v.host(gone.name).Address, gone.Addr(gone.name).String()+":")
	})
}
