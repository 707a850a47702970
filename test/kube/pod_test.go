package kube_test

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mpiup/mpiup/test/lab"
	"github.com/mpiup/mpiup/test/netns"
)

// pod is one container of a pod on a host of its own.
type pod struct {
	*cluster
	name     string   // host name, that of the netns host
	domain   string   // SUB.NS.svc.DOMAIN; "NS.svc.DOMAIN" for a pod without subdomain
	search   []string // dnsConfig.searches
	env      []string
	volumes  []volume
	uid      int
	group    int    // fsGroup
	readOnly bool   // readOnlyRootFilesystem, /tmp with it
	nameless bool   // /etc/hosts does not have the pod
	aliases  string // more lines for /etc/hosts (hostAliases)
	server   string // nameserver in resolv.conf; default: the cluster's
	log      *lab.Text

	mu      sync.Mutex
	current *netns.Cmd // guarded by mu
}

// pod makes a pod whose service is sub in namespace ns.
func (c *cluster) pod(name, domain string) *pod { return &pod{cluster: c, name: name, domain: domain} }

func (p *pod) fqdn() string { return p.name + "." + p.domain }

// zone is what follows SUB in the pod's domain: NS, NS.svc.DOMAIN and DOMAIN.
func (p *pod) zone() (ns, space, cluster string) {
	before, cluster, _ := strings.Cut(p.domain, ".svc.")
	ns = before[strings.LastIndexByte(before, '.')+1:]
	return ns, ns + ".svc." + cluster, cluster
}

// kubelet writes /etc/hosts and /etc/resolv.conf as managedHostsFileContent and the DNS
// configurer do for dnsPolicy ClusterFirst.
func (p *pod) kubelet() {
	p.t.Helper()
	hosts := "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n"
	for _, a := range p.addresses() {
		if p.nameless {
			break
		}
		hosts += fmt.Sprintf("%s\t%s\t%s\n", a, p.fqdn(), p.name)
	}
	must(p.t, p.SetHosts(p.name, hosts+p.aliases))
	_, space, cluster := p.zone()
	search := append([]string{space, "svc." + cluster, cluster}, p.search...)
	server := p.server
	if server == "" {
		server = p.nameserver()
	}
	p.resolvConf(fmt.Sprintf("search %s\nnameserver %s\noptions ndots:5\n", strings.Join(search, " "), server))
}

func (p *pod) resolvConf(text string) {
	p.t.Helper()
	must(p.t, os.WriteFile(filepath.Join(p.Dir(p.name), "resolv.conf"), []byte(text), 0o644))
}

// nameserver is the address of the cluster's DNS (test/netns: the switch).
func (c *cluster) nameserver() string {
	if c.Addr(netns.Launcher).Is4() {
		return "10.77.255.254"
	}
	return "fd77::fffe"
}

// addresses are the pod's, IPv4 first. Those of one host have the same last two bytes.
func (p *pod) addresses() []netip.Addr {
	first := p.Addr(p.name)
	if p.family != netns.DualStack {
		return []netip.Addr{first}
	}
	four, six := first.As4(), netip.MustParseAddr("fd77::").As16()
	copy(six[14:], four[2:])
	return []netip.Addr{first, netip.AddrFrom16(six)}
}

// script makes the pod's file systems and becomes the container's command. It runs as root in
// a mount namespace of the container's own, as a container runtime would do it.
func (p *pod) script() string {
	ns, _, _ := p.zone()
	var b strings.Builder
	fmt.Fprintf(&b, `set -eu
umask 022
mkdir -p /run/etc /run/secrets/kubernetes.io/serviceaccount
echo %s >/run/secrets/kubernetes.io/serviceaccount/namespace
cp -a /etc/. /run/etc/
rm -rf /run/etc/mpi /run/etc/mpiup /run/etc/volcano
echo %s >/run/etc/hostname
for f in hosts resolv.conf; do
  rm -f /run/etc/$f; : >/run/etc/$f; : >/run/$f
  mount --bind /etc/$f /run/$f
done
mount --bind /run/etc /etc
for f in hosts resolv.conf; do mount --bind /run/$f /etc/$f; done
mount -t tmpfs -o mode=755 tmpfs /home
`, ns, p.name)
	for _, v := range p.volumes {
		fmt.Fprintf(&b, "mkdir -p %[1]s; mount -t tmpfs -o mode=755 tmpfs %[1]s; cp -a %[2]s/. %[1]s/; mount -o remount,ro %[1]s\n", v.at, p.source(v))
	}
	if p.uid != 0 {
		b.WriteString("chmod 755 /root\n") // else a volume below it could not be reached
	}
	if p.readOnly {
		b.WriteString("mount -o remount,ro,bind /; for m in /tmp /run /home; do mount -o remount,ro,bind $m; done; cd /\n")
	}
	b.WriteString("exec " + strings.Join(p.privileges(), " ") + ` "$@"`)
	return b.String()
}

// privileges drops to the pod's user, without any capability and with no_new_privs.
func (p *pod) privileges() []string {
	if p.uid == 0 {
		return nil
	}
	groups := "--clear-groups"
	if p.group != 0 {
		groups = "--groups=" + strconv.Itoa(p.group)
	}
	id := strconv.Itoa(p.uid)
	return []string{"setpriv", "--reuid", id, "--regid", "0", groups, "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs", "--"}
}

func (p *pod) environ() []string {
	home := "/root"
	if p.uid != 0 {
		home = "/"
	}
	return append([]string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + home, "HOSTNAME=" + p.name,
		"KUBERNETES_SERVICE_HOST=10.96.0.1", "KUBERNETES_SERVICE_PORT=443"}, p.env...)
}

// start makes the container and begins its command; its output goes to w.
func (p *pod) start(w *lab.Text, argv ...string) *netns.Cmd {
	p.t.Helper()
	p.kubelet()
	cmd := p.RunInit(context.WithoutCancel(p.t.Context()), p.name, append([]string{"/bin/sh", "-c", p.script(), "sh"}, argv...)...)
	cmd.Env = p.environ()
	cmd.Stdout, cmd.Stderr = w, w
	must(p.t, cmd.Start())
	p.mu.Lock()
	defer p.mu.Unlock()
	p.current = cmd
	return cmd
}

// worker starts `mpiup agent`; args are added to it.
func (p *pod) worker(args ...string) *pod {
	p.t.Helper()
	p.log = new(lab.Text)
	p.start(p.log, append([]string{p.bin, "agent"}, args...)...)
	p.t.Cleanup(func() {
		if p.t.Failed() {
			p.t.Logf("-- %s said:\n%s", p.name, p.log.String())
		}
	})
	return p
}

// exec runs a command in the started container, as kubectl exec and exec probes do.
func (p *pod) exec(ctx context.Context, argv ...string) (string, int) {
	cmd := p.Command(ctx, p.name, append(p.privileges(), argv...)...)
	cmd.Env = p.environ()
	var out lab.Text
	cmd.Stdout, cmd.Stderr = &out, &out
	return after(&out, cmd.Run(), cmd.Cmd)
}

// ready is the kubelet's exec probe: it succeeds once the agent serves.
func (p *pod) ready() bool {
	_, code := p.exec(p.t.Context(), p.bin, "agent", "--check")
	return code == 0
}

// published waits for readiness and adds the pod's records, as the endpoints controller and
// CoreDNS do for a service with publishNotReadyAddresses false.
func (p *pod) published() *pod {
	p.t.Helper()
	lab.Eventually(p.t, p.name+" is ready", p.ready)
	p.publish()
	return p
}

func (p *pod) publish() {
	p.DNS().Set(p.fqdn(), p.addresses()...)
	p.DNS().Add(p.domain, p.addresses()...)
}

// unpublish takes the records away, as for a pod that is gone.
func (p *pod) unpublish(left ...*pod) {
	p.DNS().Remove(p.fqdn())
	var addrs []netip.Addr
	for _, o := range left {
		addrs = append(addrs, o.addresses()...)
	}
	p.DNS().Set(p.domain, addrs...)
}

// result is an ended launcher.
type result struct {
	out  string
	code int
	took time.Duration
}

// launch runs a command as the pod's PID 1 to its end.
func (p *pod) launch(argv ...string) result {
	p.t.Helper()
	return p.begin(argv...)()
}

// begin starts a command as the pod's PID 1; the returned function waits for its end.
func (p *pod) begin(argv ...string) func() result {
	p.t.Helper()
	begun := time.Now()
	p.log = new(lab.Text)
	cmd := p.start(p.log, argv...)
	done := make(chan result, 1)
	go func() {
		text, code := after(p.log, cmd.Wait(), cmd.Cmd)
		done <- result{text, code, time.Since(begun)}
	}()
	return func() result {
		p.t.Helper()
		select {
		case r := <-done:
			return r
		case <-time.After(bound):
			_ = cmd.Process.Kill()
			r := <-done
			p.t.Fatalf("%s did not end within %v:\n%s", p.name, bound, r.out)
			return r
		}
	}
}

// idle makes the container with a command that only waits, as a launcher is that people exec
// into.
func (p *pod) idle() *pod {
	p.t.Helper()
	p.begin("sleep", "1000")
	lab.Eventually(p.t, p.name+" has its volumes", func() bool {
		out, _ := p.exec(p.t.Context(), "cat", "/proc/1/comm")
		return out == "sleep\n"
	})
	return p
}

// run is `mpiup run` with args in a launcher pod.
func (p *pod) run(args ...string) result {
	p.t.Helper()
	return p.launch(append([]string{p.bin, "run"}, args...)...)
}

// says fails the test unless the command ended with the code and its output has all texts.
func (r result) says(t *testing.T, code int, texts ...string) {
	t.Helper()
	if r.code != code {
		t.Errorf("exit code %d, want %d:\n%s", r.code, code, r.out)
	}
	for _, s := range texts {
		if !strings.Contains(r.out, s) {
			t.Errorf("nothing says %q:\n%s", s, r.out)
		}
	}
}

// ok fails the test unless the command ended with code 0, and gives its lines in order.
func (r result) ok(t *testing.T) []string {
	t.Helper()
	if r.code != 0 {
		t.Fatalf("exit code %d, want 0:\n%s", r.code, r.out)
	}
	return sorted(r.out)
}

func sorted(text string) []string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	slices.Sort(lines)
	return lines
}

// after is the text and the exit code of a command that has ended; -1 when it did not start or
// a signal ended it.
func after(l *lab.Text, err error, cmd *exec.Cmd) (string, int) {
	if cmd.ProcessState == nil {
		return fmt.Sprintf("%s%v", l.String(), err), -1
	}
	return l.String(), cmd.ProcessState.ExitCode()
}
