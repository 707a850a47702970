package kube_test

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/test/lab"
	"github.com/mpiup/mpiup/test/netns"
)

// twin is a container of a hostNetwork pod: network, host name and address are the node's,
// processes and mounts its own. The node is a host of the cluster.
type twin struct {
	*pod
	label string // the pod's name, which nothing in the container tells
	cmd   *netns.Cmd
}

// twin makes a pod of MPI Operator's job "pi" on a node. dnsPolicy is ClusterFirstWithHostNet,
// so resolv.conf is as in other pods; /etc/hosts is the node's.
func (c *cluster) twin(node, label string, key keyPair) *twin {
	p := c.pod(node, "ns.svc.cluster.local")
	p.search = []string{"pi.ns.svc.cluster.local"}
	p.nameless, p.aliases = true, fmt.Sprintf("%s %s.example.org %[2]s\n", c.Addr(node), node)
	p.env = []string{"K_MPI_JOB_ROLE=worker", "POD=" + label}
	p.volumes = []volume{key.sshAuth(implicitAuth)}
	return &twin{pod: p, label: label}
}

// worker starts `mpiup agent` in the container.
func (w *twin) worker(args ...string) *twin {
	w.t.Helper()
	return w.start(append([]string{w.bin, "agent"}, args...)...)
}

// start makes the container and begins its command.
func (w *twin) start(command ...string) *twin {
	w.t.Helper()
	w.kubelet()
	// A container has a /tmp and a /run of its own; the binary lies below /tmp here.
	own := fmt.Sprintf(`mkdir -p /run/keep.%[2]s; mount --bind %[1]s /run/keep.%[2]s; mount -t tmpfs -o mode=1777 tmpfs /tmp
mkdir -p %[1]s; mount --bind /run/keep.%[2]s %[1]s; mount -t tmpfs tmpfs /run; mount -t tmpfs -o mode=700 tmpfs /root
`, built, w.label)
	argv := append([]string{"unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
		"/bin/sh", "-c", own + w.script(), "sh"}, command...)
	w.cmd = w.Command(context.WithoutCancel(w.t.Context()), w.name, argv...)
	w.cmd.Env = w.environ()
	w.log = new(lab.Text)
	w.cmd.Stdout, w.cmd.Stderr = w.log, w.log
	must(w.t, w.cmd.Start())
	w.t.Cleanup(func() {
		if w.t.Failed() {
			w.t.Logf("-- %s said:\n%s", w.label, w.log.String())
		}
	})
	return w
}

// inside runs a command in the container.
func (w *twin) inside(argv ...string) (string, int) {
	pid := w.cmd.Process.Pid
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil || len(strings.Fields(string(children))) != 1 {
		return "not started", -1
	}
	child := strings.Fields(string(children))[0]
	cmd := exec.CommandContext(w.t.Context(), "nsenter", append([]string{"-t", child, "-a", "--"}, argv...)...)
	cmd.Env = w.environ()
	var out lab.Text
	cmd.Stdout, cmd.Stderr = &out, &out
	return after(&out, cmd.Run(), cmd)
}

// port waits until the container's own agent serves and says where.
func (w *twin) port() int {
	w.t.Helper()
	var out string
	lab.Eventually(w.t, w.label+" is ready", func() (ok bool) {
		var code int
		out, code = w.inside(w.bin, "agent", "--check")
		return code == 0
	})
	at, err := netip.ParseAddrPort(out[strings.LastIndexByte(strings.TrimSpace(out), ' ')+1 : len(out)-1])
	if err != nil {
		w.t.Fatalf("%q: %v", out, err)
	}
	return int(at.Port())
}

func (w *twin) publish() *twin {
	w.DNS().Set(w.label+".pi.ns.svc.cluster.local", w.addresses()...)
	w.DNS().Add("pi.ns.svc.cluster.local", w.addresses()...)
	return w
}

// node is a cluster with one node and a launcher pod of job "pi" whose workers are on it.
func node(t *testing.T, family netns.Family, key keyPair) (*cluster, *pod) {
	t.Helper()
	c := up(t, family, "cluster.local", "node-0", "pi-launcher")
	l := c.pod("pi-launcher", "pi.ns.svc.cluster.local")
	l.env = []string{"K_MPI_JOB_ROLE=launcher"}
	l.volumes = []volume{key.sshAuth(implicitAuth), {at: "/etc/mpi", files: []file{{"hostfile",
		[]byte("pi-worker-0.pi.ns.svc slots=2\npi-worker-1.pi.ns.svc slots=2\n"), 0o444}}}}
	return c, l
}

var whichPod = []string{"sh", "-c", "echo rank $MPIUP_RANK in $POD, local $MPIUP_LOCAL_RANK of $MPIUP_LOCAL_SIZE"}

const defaultPort = 16748

// Two workers of one job on one node: same address, secret and node name.
func TestTwoWorkersOnOneNode(t *testing.T) {
	t.Parallel()
	t.Run("IPv4", func(t *testing.T) { t.Parallel(); twoWorkersOnOneNode(t, netns.IPv4) })
	t.Run("dual stack", func(t *testing.T) { t.Parallel(); twoWorkersOnOneNode(t, netns.DualStack) })
}

func twoWorkersOnOneNode(t *testing.T, family netns.Family) {
	key := operatorKey()
	c, l := node(t, family, key)
	a := c.twin("node-0", "pi-worker-0", key).worker()
	first := a.port()
	b := c.twin("node-0", "pi-worker-1", key).worker()
	second := b.port()
	if first != defaultPort || second == defaultPort {
		t.Fatalf("ports %d and %d, want %d and another", first, second, defaultPort)
	}
	if !strings.Contains(b.log.String(), "no HTTP port") {
		t.Errorf("nothing says that the HTTP port is taken:\n%s", b.log.String())
	}
	a.publish()
	b.publish()
	want := []string{ // names get agents in order of port
		"rank 0 in pi-worker-0, local 0 of 2", "rank 1 in pi-worker-0, local 1 of 2",
		"rank 2 in pi-worker-1, local 0 of 2", "rank 3 in pi-worker-1, local 1 of 2"}
	for range 3 {
		same(t, "ranks", l.run(append([]string{"-n", "4"}, whichPod...)...).ok(t), want)
	}
	v := peers(t, l.idle())
	for name, port := range map[string]int{"pi-worker-0": first, "pi-worker-1": second} {
		if got := v.host(name).Address; !strings.HasSuffix(got, ":"+strconv.Itoa(port)) {
			t.Errorf("%s is at %s, want port %d", name, got, port)
		}
		out, code := l.exec(t.Context(), l.bin, "exec", name, "--", "sh", "-c", "echo $POD")
		if out != name+"\n" || code != 0 {
			t.Errorf("mpiup exec %s ran in %q, exit code %d", name, out, code)
		}
	}
	lab.Eventually(t, "the siblings know each other by gossip", func() bool {
		out, _ := a.inside(a.bin, "peers", "--host", "127.0.0.1")
		return strings.Count(out, " alive ") == 2 && strings.HasPrefix(out, "scope pi.ns (/etc/resolv.conf)")
	})
	// One agent fewer than names is not two hosts.
	must(t, b.cmd.Process.Kill())
	_ = b.cmd.Wait()
	l.run(append([]string{"-n", "4", "--wait", "8"}, whichPod...)...).says(t, 241, "fewer agents than names")
}

// The launcher is on the workers' node and in its network too: nothing but the hostfile tells
// which job it belongs to.
func TestLauncherOnTheWorkersNode(t *testing.T) {
	t.Parallel()
	key := operatorKey()
	c, l := node(t, netns.IPv4, key)
	for _, name := range []string{"pi-worker-0", "pi-worker-1"} {
		w := c.twin("node-0", name, key).worker()
		w.port()
		w.publish()
	}
	here := c.twin("node-0", "pi-launcher", key)
	here.search, here.volumes = nil, l.volumes
	here.start("sleep", "1000")
	run := append([]string{here.bin, "run", "-n", "4"}, whichPod...)
	var out string
	lab.Eventually(t, "the container has its volumes", func() bool {
		out, _ = here.inside("cat", "/proc/1/comm")
		return out == "sleep\n"
	})
	out, code := here.inside(run...)
	lines := strings.Join(result{out: out, code: code}.ok(t), "\n")
	if strings.Count(lines, "pi-worker-0") != 2 || strings.Count(lines, "pi-worker-1") != 2 {
		t.Errorf("ranks are in\n%s", lines)
	}
	if out, _ := here.inside(here.bin, "peers"); !strings.HasPrefix(out, "scope pi.ns (/etc/mpi/hostfile)") {
		t.Error(out)
	}
}

// Another job's agent has the default port of the node: it refuses us, ours is on a candidate.
func TestNeighbourHasTheDefaultPort(t *testing.T) {
	t.Parallel()
	key := operatorKey()
	c, l := node(t, netns.IPv4, key)
	other := c.twin("node-0", "other-worker-0", operatorKey()).worker()
	if p := other.port(); p != defaultPort {
		t.Fatalf("the other job's agent is at port %d", p)
	}
	for _, name := range []string{"pi-worker-0", "pi-worker-1"} {
		w := c.twin("node-0", name, key).worker()
		w.port()
		w.publish()
	}
	lines := strings.Join(l.run(append([]string{"-n", "4"}, whichPod...)...).ok(t), "\n")
	if strings.Contains(lines, "other") || strings.Count(lines, "pi-worker-0") != 2 || strings.Count(lines, "pi-worker-1") != 2 {
		t.Errorf("ranks are in\n%s", lines)
	}
}

// Only agents of another job answer: that is a TLS failure, whatever else is missing.
func TestEverybodyRefusesTLS(t *testing.T) {
	t.Parallel()
	c, l := node(t, netns.IPv4, operatorKey())
	w := c.twin("node-0", "pi-worker-0", operatorKey()).worker()
	w.port()
	w.publish()
	r := l.run(append([]string{"-n", "4", "--wait", "8"}, whichPod...)...)
	r.says(t, 244, "pi-worker-0", "secret", "pi-worker-1", "no such name")
}
