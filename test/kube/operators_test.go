package kube_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mpiup/mpiup/test/lab"
	"github.com/mpiup/mpiup/test/netns"
)

// Trainer v2: TrainJob "tune", PodSets launcher and node, records for pods that are not ready
// yet, the launcher's own last of all. Not root: fsGroup 1000 and a key of mode 0640.
func TestTrainer(t *testing.T) {
	t.Parallel()
	c := up(t, netns.IPv4, "cluster.local", "tune-launcher-0-0", "tune-node-0-0", "tune-node-0-1")
	key := operatorKey()
	auth := volume{at: "/home/mpiuser/.ssh", gid: 1000, files: []file{
		{"id_rsa", key.private, 0o640}, {"id_rsa.pub", key.public, 0o644}, {"authorized_keys", key.public, 0o644}}}
	member := func(name, index string) *pod {
		p := c.pod(name, "tune.ns.svc.cluster.local")
		p.uid, p.group, p.volumes = 1000, 1000, []volume{auth}
		p.env = []string{"JOB_COMPLETION_INDEX=" + index, "OF_THE_NODE=" + name}
		return p
	}
	nodes := []*pod{member("tune-node-0-0", "0"), member("tune-node-0-1", "1")}
	for _, n := range nodes {
		n.publish()
		n.worker()
	}
	l := member("tune-launcher-0-0", "0")
	l.env = append(l.env, "OMPI_MCA_orte_keep_fqdn_hostnames=true", "OMPI_MCA_orte_default_hostfile=/etc/mpi/hostfile",
		"OMPI_MCA_plm_rsh_args=-o ConnectionAttempts=10", "OMPI_MCA_orte_set_default_slots=2")
	l.volumes = append(l.volumes, volume{at: "/etc/mpi", gid: 1000, files: []file{
		{"hostfile", []byte("tune-node-0-0.tune slots=2\ntune-node-0-1.tune slots=2\n"), 0o444}}})
	for _, n := range nodes { // dependsOn: node Ready
		lab.Eventually(t, n.name+" is ready", n.ready)
	}
	same(t, "ranks", l.run(whereAmI...).ok(t), fourOnTwo("rank %d of 4 on tune-node-0-%d"))

	if v := peers(t, l.idle()); v.Scope != "tune.ns" || len(v.alive()) != 2 {
		t.Errorf("scope %q, peers %+v", v.Scope, v.Peers)
	}
}

// Volcano: job "vj", tasks master and worker, plugins ssh and svc.
func TestVolcano(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		env  bool // svc plugin without --inject-hosts-env=false
	}{{"hosts in the environment", true}, {"hosts in files only", false}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := up(t, netns.IPv4, "cluster.local", "vj-master-0", "vj-worker-0", "vj-worker-1")
			key := volcanoKey()
			volumes := []volume{ // subPath .ssh of the Secret's volume
				{at: "/root/.ssh", plain: true, files: []file{{"id_rsa", key.private, 0o600}, {"id_rsa.pub", key.public, 0o600},
					{"authorized_keys", key.public, 0o600}, {"config", []byte("StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\n"), 0o600}}},
				{at: "/etc/volcano", files: []file{{"master.host", []byte("vj-master-0.vj"), 0o644},
					{"worker.host", []byte("vj-worker-0.vj\nvj-worker-1.vj"), 0o644}}},
			}
			member := func(name, index string) *pod {
				p := c.pod(name, "vj.ns.svc.cluster.local")
				p.volumes = volumes
				p.env = []string{"VC_TASK_INDEX=" + index, "VK_TASK_INDEX=" + index}
				if tt.env {
					p.env = append(p.env, "VC_MASTER_HOSTS=vj-master-0.vj", "VC_MASTER_NUM=1",
						"VC_WORKER_HOSTS=vj-worker-0.vj,vj-worker-1.vj", "VC_WORKER_NUM=2")
				}
				return p
			}
			for i := range 2 {
				member(fmt.Sprintf("vj-worker-%d", i), fmt.Sprint(i)).worker("--slots", "2").published()
			}
			master := member("vj-master-0", "0")
			master.env = append(master.env, "MPI_HOST=vj-worker-0.vj,vj-worker-1.vj")
			same(t, "ranks", master.run(whereAmI...).ok(t), fourOnTwo("rank %d of 4 on vj-worker-%d"))
		})
	}
}

// lwsPods are the pods of group 0 of the LeaderWorkerSet "g", with the user's own Secret.
func lwsPods(t *testing.T, size int) []*pod {
	names := []string{"g-0"}
	for i := 1; i < size; i++ {
		names = append(names, fmt.Sprintf("g-0-%d", i))
	}
	c := up(t, netns.IPv4, "cluster.local", names...)
	secret := c.keygen()
	var pods []*pod
	for i, n := range names {
		p := c.pod(n, "g.ns.svc.cluster.local")
		p.volumes = []volume{secret}
		p.env = []string{"LWS_LEADER_ADDRESS=g-0.g.ns", fmt.Sprintf("LWS_GROUP_SIZE=%d", size), fmt.Sprintf("LWS_WORKER_INDEX=%d", i)}
		p.publish()
		pods = append(pods, p)
	}
	return pods
}

// keygen is a Secret made with `mpiup keygen`, mounted where mpiup looks for one.
func (c *cluster) keygen() volume {
	c.t.Helper()
	text, err := lab.Secret(c.bin)
	must(c.t, err)
	return volume{at: "/etc/mpiup", files: []file{{"key", text, os.FileMode(0o644)}}}
}

// LeaderWorkerSet: the leader runs the job, on itself too.
func TestLeaderWorkerSet(t *testing.T) {
	t.Parallel()
	pods := lwsPods(t, 3)
	for _, p := range pods[1:] {
		p.worker("--slots", "1")
	}
	r := pods[0].run(append([]string{"--ppn", "1", "-n", "3"}, whereAmI...)...)
	same(t, "ranks", r.ok(t), []string{"rank 0 of 3 on g-0", "rank 1 of 3 on g-0-1", "rank 2 of 3 on g-0-2"})
	if v := peers(t, pods[0].idle()); v.Scope != "g-0.g.ns" || v.ScopeFrom != "LWS_LEADER_ADDRESS" {
		t.Errorf("scope %q from %q", v.Scope, v.ScopeFrom)
	}
}

// An Indexed Job with a headless service of the user's; Kubernetes does not tell its size.
func TestIndexedJob(t *testing.T) {
	t.Parallel()
	c := up(t, netns.IPv4, "cluster.local", "train-0", "train-1", "train-2")
	secret := c.keygen()
	member := func(i int) *pod {
		p := c.pod(fmt.Sprintf("train-%d", i), "workers.ns.svc.cluster.local")
		p.volumes, p.env = []volume{secret}, []string{fmt.Sprintf("JOB_COMPLETION_INDEX=%d", i)}
		return p
	}
	for i := 1; i < 3; i++ {
		member(i).worker("--slots", "1").published()
	}
	r := member(0).run(append([]string{"--size", "3", "--ppn", "1", "-n", "3"}, whereAmI...)...)
	same(t, "ranks", r.ok(t), []string{"rank 0 of 3 on train-0", "rank 1 of 3 on train-1", "rank 2 of 3 on train-2"})
	// A host name alone is not in kubelet's search list.
	member(0).begin(c.bin, "exec", "train-2", "--", "hostname")().says(t, 0, "train-2")
}

// Grove tells the pods of two cliques, a leader's and the workers', which scaling group they are of and how many pods it has. All have
// one command. Another replica of the group is another job, with the same Secret and below the same service.
func TestGrove(t *testing.T) {
	t.Parallel()
	cliques := []struct{ name, index string }{{"ldr", "0"}, {"wkr", "0"}, {"wkr", "1"}}
	var names []string
	for _, replica := range []string{"0", "1"} {
		for _, p := range cliques {
			names = append(names, "g-0-decode-"+replica+"-decode-"+p.name+"-"+p.index)
		}
	}
	c := up(t, netns.IPv4, "cluster.local", names...)
	secret := c.keygen()
	var waits []func() result
	for i, name := range names {
		p := c.pod(name, "g-0.ns.svc.cluster.local")
		p.volumes = []volume{secret}
		p.env = []string{"GROVE_PCS_NAME=g", "GROVE_PCS_INDEX=0", "GROVE_HEADLESS_SERVICE=g-0.ns.svc.cluster.local", "GROVE_PCSG_NAME=g-0-decode",
			"GROVE_PCSG_TEMPLATE_NUM_PODS=3", fmt.Sprintf("GROVE_PCSG_INDEX=%d", i/3), "GROVE_PCLQ_POD_INDEX=" + cliques[i%3].index,
			fmt.Sprintf("GROVE_PCLQ_NAME=g-0-decode-%d-decode-%s", i/3, cliques[i%3].name)}
		waits = append(waits, p.begin(append([]string{c.bin, "up", "--ppn", "1", "-n", "3"}, whereAmI...)...))
		p.published()
	}
	for i, wait := range waits {
		r := wait()
		r.says(t, 0)
		if i%3 == 0 {
			same(t, "ranks", ranksOf(r), []string{"rank 0 of 3 on " + names[i], "rank 1 of 3 on " + names[i+1], "rank 2 of 3 on " + names[i+2]})
		}
	}
}

// A StatefulSet tells its pods nothing: the service they share does, of each family one record.
func TestOwnService(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		family netns.Family
	}{{"IPv4", netns.IPv4}, {"dual stack", netns.DualStack}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := up(t, tt.family, "cluster.local", "set-0", "set-1", "set-2", "front")
			secret := c.keygen()
			var pods []*pod
			for i := range 3 {
				p := c.pod(fmt.Sprintf("set-%d", i), "set.ns.svc.cluster.local")
				p.volumes = []volume{secret}
				pods = append(pods, p)
			}
			front := c.pod("front", "set.ns.svc.cluster.local") // of the same service, with no agent
			front.volumes = []volume{secret}
			front.publish()
			wait := front.begin(append([]string{c.bin, "run", "--size", "3", "--ppn", "1", "-n", "3"}, whereAmI...)...)
			for _, i := range []int{2, 0, 1} {
				pods[i].worker("--slots", "1").published()
			}
			want := []string{"rank 0 of 3 on set-0", "rank 1 of 3 on set-1", "rank 2 of 3 on set-2"}
			got := strings.Join(wait().ok(t), "\n")
			if !strings.Contains(got, strings.Join(want, "\n")) {
				t.Errorf("got\n%s\nwant\n%s", got, strings.Join(want, "\n"))
			}
			same(t, "ranks without --size", told(front.run(whereAmI...).ok(t)), want)
			out, code := pods[1].exec(t.Context(), append([]string{c.bin, "run", "--size", "3"}, whereAmI...)...)
			same(t, "ranks of a member's own run", result{out: out, code: code}.ok(t), want)
		})
	}
}

// A pod that is lost is replaced by the next one that the service has, at whatever address.
func TestOwnServiceReplacesAPod(t *testing.T) {
	t.Parallel()
	c := up(t, netns.IPv4, "cluster.local", "set-0", "set-1", "front")
	secret := c.keygen()
	member := func(name string) *pod {
		p := c.pod(name, "set.ns.svc.cluster.local")
		p.volumes = []volume{secret}
		return p
	}
	first, lost := member("set-0").worker("--slots", "1").published(), member("set-1").worker("--slots", "1").published()
	front := member("front")
	const program = `echo start $MPIUP_RESTART_COUNT of rank $MPIUP_RANK on $(hostname); [ $MPIUP_RESTART_COUNT = 1 ] || sleep 1000`
	wait := front.begin(c.bin, "run", "--size", "2", "--ppn", "1", "-n", "2", "--stdin", "none", "--max-restarts", "1", "sh", "-c", program)
	lab.Eventually(t, "both ranks have started", func() bool { return strings.Count(front.log.String(), "start 0 of rank") == 2 })
	must(t, c.Kill(lost.name))
	lost.unpublish(first)
	must(t, c.Readdress(lost.name))
	must(t, c.Boot(lost.name))
	member("set-1").worker("--slots", "1").published()
	r := wait()
	for _, says := range []string{"host set-1 with rank 1 was lost", "start 1 of rank 0 on set-0", "start 1 of rank 1 on set-1"} {
		if r.code != 0 || !strings.Contains(r.out, says) {
			t.Errorf("code %d, and it does not say %q:\n%s", r.code, says, r.out)
		}
	}
}

// An elastic job finds who comes by its own headless service, and by gossip while a cache repeats the service's records: a third pod makes it
// larger, and without one of the first it goes on.
func TestOwnServiceChangesAJobsSize(t *testing.T) {
	t.Parallel()
	c := up(t, netns.IPv4, "cluster.local", "set-0", "set-1", "set-2", "front")
	c.DNS().Cache(time.Minute, netns.WholeNames)
	secret := c.keygen()
	member := func(name string) *pod {
		p := c.pod(name, "set.ns.svc.cluster.local")
		p.volumes = []volume{secret}
		return p
	}
	first, lost := member("set-0").worker("--slots", "1").published(), member("set-1").worker("--slots", "1").published()
	front := member("front")
	const program = `echo start $MPIUP_RESTART_COUNT of rank $MPIUP_RANK of $MPIUP_SIZE on $(hostname); [ $MPIUP_RESTART_COUNT = 2 ] || sleep 1000`
	wait := front.begin(c.bin, "run", "--min-np", "1", "--max-np", "3", "--last-call", "1", "--stdin", "none", "--max-restarts", "1", "sh", "-c", program)
	lab.Eventually(t, "both ranks have started", func() bool { return strings.Count(front.log.String(), "start 0 of rank") == 2 })
	member("set-2").worker("--slots", "1").published()
	begun := time.Now()
	lab.Eventually(t, "three ranks have started", func() bool { return strings.Count(front.log.String(), "start 1 of rank") == 3 })
	if d := time.Since(begun); d > 20*time.Second { // 60, by records alone
		t.Errorf("three ranks ran %v after the third pod had come", d)
	}
	must(t, c.Kill(lost.name))
	lost.unpublish(first)
	r := wait()
	for _, says := range []string{"host set-2 has come; the ranks start again, 3 in place of 2", "start 1 of rank 0 of 3 on set-0", "start 1 of rank 2 of 3 on set-2",
		"host set-1 with rank 1 was lost", "the job goes on with 2 ranks on set-0, set-2; it had 3", "start 2 of rank 0 of 2 on set-0", "start 2 of rank 1 of 2 on set-2"} {
		if r.code != 0 || !strings.Contains(r.out, says) {
			t.Errorf("code %d, and it does not say %q:\n%s", r.code, says, r.out)
		}
	}
}

// Horovod's own driver, which names no hosts, is told of the job's pods as mpiup's ssh reaches them.
func TestOwnServiceIsDiscovered(t *testing.T) {
	t.Parallel()
	c := up(t, netns.IPv4, "cluster.local", "set-0", "set-1", "front")
	secret := c.keygen()
	member := func(name string) *pod {
		p := c.pod(name, "set.ns.svc.cluster.local")
		p.volumes = []volume{secret}
		return p
	}
	first, lost := member("set-0").worker("--slots", "2").published(), member("set-1").worker("--slots", "1").published()
	const program = `"$0" peers --discover >/tmp/hosts; sort /tmp/hosts; ln -s "$0" /tmp/ssh; for h in $(cut -d: -f1 /tmp/hosts); do /tmp/ssh $h 'echo this is $(hostname)'; done`
	front := member("front")
	front.launch("/bin/sh", "-c", program, c.bin).says(t, 0, c.Addr("set-0").String()+":2\n"+c.Addr("set-1").String()+":1\n", "this is set-0", "this is set-1")
	must(t, c.Kill(lost.name))
	lost.unpublish(first)
	r := front.launch(c.bin, "peers", "--discover")
	if want := c.Addr("set-0").String() + ":2\n"; r.code != 0 || r.out != want {
		t.Errorf("code %d, it says %q, not %q", r.code, r.out, want)
	}
}

// A pod of a job whose service has nobody does not become a laptop: it waits, and fails with what to
// say if that is what was meant.
func TestNobodyElse(t *testing.T) {
	t.Parallel()
	c := up(t, netns.IPv4, "cluster.local", "front")
	p := c.pod("front", "set.ns.svc.cluster.local")
	p.volumes = []volume{c.keygen()}
	p.run(append([]string{"-n", "2", "--wait", "3"}, whereAmI...)...).says(t, 241, "waiting for hosts (2s, ", "s left): the service set.ns.svc.cluster.local has no host",
		"no such name", "waited 3s (--wait)", "run all ranks in this container alone, say so with --local")
	p.run(append([]string{"-n", "2", "--local"}, whereAmI...)...).says(t, 0, "rank 1 of 2 on front")
	p.launch(append([]string{"/bin/sh", "-c", `ln -s "$0" /tmp/mpirun; MPIUP_WAIT=1 exec /tmp/mpirun -n 2 "$@"`, c.bin}, whereAmI...)...).says(t, 241, "say so with --host localhost")

	lone := c.pod("front", "ns.svc.cluster.local") // of no service
	lone.volumes, lone.nameless, lone.aliases = p.volumes, true, fmt.Sprintf("%s front\n", c.Addr("front"))
	r := lone.run(append([]string{"-n", "2"}, whereAmI...)...)
	if r.says(t, 241, "nothing tells this pod of its job's hosts", "--local"); r.took > 20*time.Second {
		t.Errorf("it waited %v for what cannot come", r.took)
	}
}

// A StatefulSet's pods get their records one after the other, and nothing says how many there will be. A
// run has all that it needs, or fails with who is missing; it never makes do with what is there.
func TestRecordsThatGrow(t *testing.T) {
	t.Parallel()
	three := []string{"rank 0 of 3 on set-0", "rank 1 of 3 on set-1", "rank 2 of 3 on set-2"}
	for _, tt := range []struct {
		name   string
		args   []string
		env    string
		cached bool
	}{
		{name: "slots", args: []string{"-n", "3"}},
		{name: "one on each", args: []string{"-n", "3", "-N", "1"}},
		{name: "round", args: []string{"-n", "3", "--map-by", "node", "--oversubscribe"}},
		{name: "nothing is said"},
		{name: "size", args: []string{"--size", "3"}},
		{name: "told", env: "PET_NNODES=3"},
		{name: "the mounted key by name", args: []string{"-n", "3"}, env: "MPIUP_KEY=/etc/mpiup/key"},
		{name: "its directory by name", args: []string{"-n", "3", "--key", "/etc/mpiup"}},
		{name: "answers are cached", args: []string{"-n", "3"}, cached: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := up(t, netns.IPv4, "cluster.local", "set-0", "set-1", "set-2", "front")
			if tt.cached {
				c.DNS().Cache(30*time.Second, netns.CoreDNS)
			}
			secret := c.keygen()
			front := c.pod("front", "set.ns.svc.cluster.local")
			front.volumes = []volume{secret}
			if tt.env != "" {
				front.env = []string{tt.env}
			}
			var pods []*pod
			for i := range 3 {
				p := c.pod(fmt.Sprintf("set-%d", i), "set.ns.svc.cluster.local")
				p.volumes = []volume{secret}
				pods = append(pods, p.worker("--slots", "1"))
				lab.Eventually(t, p.name+" is ready", p.ready)
			}
			wait := front.begin(slices.Concat([]string{c.bin, "run"}, tt.args, whereAmI)...)
			for i, p := range pods {
				p.publish()
				if i < 2 {
					within(t.Context(), 2500*time.Millisecond, func() bool { return false })
				}
			}
			same(t, "ranks", told(wait().ok(t)), three)
		})
	}
}

// Who is missing is named, as far as names tell.
func TestRecordsThatAreTooFew(t *testing.T) {
	t.Parallel()
	c := up(t, netns.IPv4, "cluster.local", "set-0", "set-2", "front")
	secret := c.keygen()
	for _, name := range []string{"set-0", "set-2"} {
		p := c.pod(name, "set.ns.svc.cluster.local")
		p.volumes = []volume{secret}
		p.worker("--slots", "1").published()
	}
	front := c.pod("front", "set.ns.svc.cluster.local")
	front.volumes = []volume{secret}
	front.run(append([]string{"-n", "3", "--wait", "4"}, whereAmI...)...).says(t, 241,
		"has 2 hosts with 2 slots, and -n 3 needs 3 (set-0, set-2)", "waited 4s (--wait)")
	front.run(append([]string{"--size", "3", "--wait", "4"}, whereAmI...)...).says(t, 241,
		"has 2 of the 3 hosts of --size 3 (set-0, set-2; set-1 is missing)")
	other := c.keygen()
	front.volumes = []volume{other}
	// On a volume another key may be one that a kubelet is about to bring: without --wait that is waited for three minutes.
	front.run(append([]string{"-n", "2", "--wait", "4"}, whereAmI...)...).says(t, 241,
		"none answers; without an answer: 10.77.0.1, 10.77.0.2); 10.77.0.1:16748: it holds the secret of another job", "waited 4s (--wait)", "hosts-missing")
}

// Where neither environment, files nor DNS name a host, an agent in this container does.
func TestGossipIsTheLastSource(t *testing.T) {
	t.Parallel()
	c := up(t, netns.IPv4, "cluster.local", "p-0", "p-1", "p-2")
	secret := c.keygen()
	var pods []*pod
	for i := range 3 {
		p := c.pod(fmt.Sprintf("p-%d", i), "ns.svc.cluster.local")
		p.volumes, p.nameless = []volume{secret}, true
		p.aliases = fmt.Sprintf("%s p-%d\n", c.Addr(p.name), i)
		pods = append(pods, p)
	}
	seed := c.Addr("p-2").String()
	run := func(args ...string) result {
		begun := time.Now()
		out, code := pods[1].exec(t.Context(), slices.Concat([]string{c.bin, "run"}, args, whereAmI)...)
		return result{out, code, time.Since(begun)}
	}
	for _, p := range pods[:2] {
		p.worker("--slots", "1", "--host", seed)
	}
	lab.Eventually(t, "the agent is ready", pods[1].ready)
	run("-n", "3", "--wait", "3").says(t, 241, "gossip has ", "-n 3 needs 3")
	pods[2].worker("--slots", "1", "--host", seed)
	same(t, "ranks that wait for a late agent", told(run("-n", "3").ok(t)), []string{"rank 0 of 3 on p-0", "rank 1 of 3 on p-1", "rank 2 of 3 on p-2"})
	for _, p := range pods {
		lab.Eventually(t, "gossip knows three", func() bool { return len(peers(t, p).alive()) == 3 })
	}
	if v := peers(t, pods[0]); v.HostsFrom != "gossip" || v.Scope != "default" {
		t.Errorf("hosts from %q, scope %q", v.HostsFrom, v.Scope)
	}
	same(t, "ranks", told(run().ok(t)), []string{"rank 0 of 3 on p-0", "rank 1 of 3 on p-1", "rank 2 of 3 on p-2"})
}
