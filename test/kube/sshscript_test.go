package kube_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/test/lab"
	"github.com/mpiup/mpiup/test/need"
	"github.com/mpiup/mpiup/test/netns"
)

// dynamo is a multi-node TensorRT-LLM worker of NVIDIA Dynamo, whose operator writes ssh's set-up into the pods' commands
// (deploy/operator/internal/dynamo/backend_trtllm.go): the keys of the Secret are copied to $HOME/.ssh, workers make host keys
// and a configuration and become sshd, and the leader calls Open MPI's mpirun on itself and them.
type dynamo struct {
	*cluster
	pods  []*pod
	hosts []string // words of the leader's shell for its -H, its own first
}

// image makes a pod's container what the image would be, and then runs the operator's script: mpiup has the names of ssh,
// sshd, ssh-keygen and mpirun, and trtllm-llmapi-launch starts what it is given.
const image = `set -eu
mkdir -p /run/sbin /run/names
cp -a /usr/sbin/. /run/sbin/
"$MPIUP" install --names all /run/names >/dev/null
ln -sf /run/names/mpiup /run/sbin/sshd
mount --bind /run/sbin /usr/sbin
printf '#!/bin/sh\nexec "$@"\n' >/run/names/trtllm-llmapi-launch
chmod 755 /run/names/trtllm-llmapi-launch
exec /bin/sh -c "$1"`

func newDynamo(t *testing.T, names []string, domain string) *dynamo {
	d := &dynamo{cluster: up(t, netns.IPv4, "cluster.local", names...)}
	key := operatorKey()
	for _, n := range names {
		p := d.pod(n, domain)
		p.volumes = []volume{{at: "/ssh-pk", files: []file{{"private.key", key.private, 0o644}, {"private.key.pub", key.public, 0o644}}}}
		p.env = []string{"MPIUP=" + d.bin, "HOME=/home/dynamo", "PATH=/run/names:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
			"OMPI_MCA_orte_keep_fqdn_hostnames=1"}
		p.publish()
		d.pods = append(d.pods, p)
	}
	return d
}

// copies is how the script of every pod begins.
func (d *dynamo) copies(dirs string) []string {
	return []string{"mkdir -p " + dirs, "ls -la /ssh-pk/",
		"cp /ssh-pk/private.key $HOME/.ssh/id_rsa", "cp /ssh-pk/private.key.pub $HOME/.ssh/id_rsa.pub",
		"cp /ssh-pk/private.key.pub $HOME/.ssh/authorized_keys", "chmod 600 $HOME/.ssh/id_rsa $HOME/.ssh/authorized_keys",
		"chmod 644 $HOME/.ssh/id_rsa.pub",
		`printf 'Host *\nIdentityFile '$HOME'/.ssh/id_rsa\nStrictHostKeyChecking no\nPort 2222\n' > $HOME/.ssh/config`}
}

func (d *dynamo) worker(p *pod) {
	d.t.Helper()
	script := d.copies("$HOME/.ssh $HOME/.ssh/host_keys $HOME/.ssh/run")
	var config strings.Builder
	for _, kind := range []string{"rsa", "ecdsa", "ed25519"} {
		file := ".ssh/host_keys/ssh_host_" + kind + "_key"
		script = append(script, "ssh-keygen -t "+kind+" -f $HOME/"+file+" -N ''")
		fmt.Fprintf(&config, `HostKey '$HOME'/%s\n`, file)
	}
	script = append(script, `printf 'Port 2222\n`+config.String()+`PidFile '$HOME'/.ssh/run/sshd.pid\nStrictModes no\nPermitRootLogin yes\n`+
		`PasswordAuthentication no\nPubkeyAuthentication yes\nAuthorizedKeysFile '$HOME'/.ssh/authorized_keys\n' > $HOME/.ssh/sshd_config`,
		"/usr/sbin/sshd -D -f $HOME/.ssh/sshd_config")
	p.begin("/bin/sh", "-c", image, "sh", strings.Join(script, " && "))
	lab.Eventually(d.t, p.name+" answers the probe of port 2222", func() bool {
		_, code := p.exec(d.t.Context(), "bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/2222")
		return code == 0
	})
}

// leader runs a program on n ranks; wait says that workers' names are waited for first.
func (d *dynamo) leader(n int, wait bool, program string) result {
	d.t.Helper()
	script := d.copies("$HOME/.ssh")
	if wait {
		script = append(script, `TIMEOUT=300; START_TIME=$(date +%s); for worker in `+strings.Join(d.hosts[1:], " ")+
			`; do until getent hosts $worker >/dev/null 2>&1; do if [ $(($(date +%s) - START_TIME)) -gt $TIMEOUT ]; then exit 1; fi; sleep 2; done; done; echo "All workers DNS ready"`)
	}
	var forward strings.Builder
	for _, name := range []string{"CUDA_VISIBLE_DEVICES", "HF_TOKEN", "HOME", "LD_LIBRARY_PATH", "NCCL_DEBUG", "OMPI_MCA_orte_keep_fqdn_hostnames", "PATH", "USER"} {
		forward.WriteString(" -x " + name)
	}
	script = append(script, fmt.Sprintf(`mpirun $([ "$(id -u)" = "0" ] && echo --allow-run-as-root) --oversubscribe -n %d -H %s --mca pml ob1 `+
		`--mca plm_rsh_args "-p 2222 -o StrictHostKeyChecking=no -i $HOME/.ssh/id_rsa"%s bash -c 'trtllm-llmapi-launch %s'`,
		n, strings.Join(d.hosts, ","), forward.String(), program))
	return d.pods[0].launch("/bin/sh", "-c", image, "sh", strings.Join(script, " && "))
}

// openMPIHello is test/mpi/hello.c, compiled with Debian's Open MPI.
func openMPIHello(t *testing.T, c *cluster) string {
	t.Helper()
	need.Program(t, "mpicc.openmpi", "libopenmpi-dev")
	path := filepath.Join(c.dir, "hello")
	must(t, lab.Compile("mpicc.openmpi", "hello", path))
	return path
}

func ranksOf(r result) (list []string) {
	for _, line := range sorted(r.out) {
		if strings.HasPrefix(line, "rank ") {
			list = append(list, line)
		}
	}
	return list
}

// Dynamo over a LeaderWorkerSet: hosts follow from LWS_LEADER_ADDRESS by sed, and the leader waits for their names.
func TestDynamoOverLeaderWorkerSet(t *testing.T) {
	t.Parallel()
	d := newDynamo(t, []string{"serve-0", "serve-0-1"}, "serve.ns.svc.cluster.local")
	d.hosts = []string{"serve-0.serve.ns", `$(echo "$LWS_LEADER_ADDRESS" | sed 's/\./-1\./')`} // kubelet puts the first one's name
	for i, p := range d.pods {
		p.env = append(p.env, "LWS_LEADER_ADDRESS=serve-0.serve.ns", "LWS_GROUP_SIZE=2", fmt.Sprintf("LWS_WORKER_INDEX=%d", i))
	}
	d.worker(d.pods[1])
	r := d.leader(2, true, openMPIHello(t, d.cluster))
	r.says(t, 0, "All workers DNS ready")
	same(t, "ranks", ranksOf(r), []string{"rank 0 of 2 on serve-0, 0 of 1 there", "rank 1 of 2 on serve-0-1, 0 of 1 there"})
	for _, kind := range []string{"rsa", "ecdsa", "ed25519"} { // OpenSSH's own reads what ours made
		file := "/home/dynamo/.ssh/host_keys/ssh_host_" + kind + "_key"
		out, code := d.pods[1].exec(t.Context(), "/usr/bin/ssh-keygen", "-y", "-f", file)
		if public, _ := d.pods[1].exec(t.Context(), "cat", file+".pub"); code != 0 || len(strings.Fields(out)) < 2 || !strings.HasPrefix(public, strings.Join(strings.Fields(out)[:2], " ")) {
			t.Errorf("%s: ssh-keygen -y ends with %d: %s; the public file has %s", file, code, out, public)
		}
	}
}

// Dynamo over Grove: leader and workers are of several cliques under one headless service, and nobody waits for names.
func TestDynamoOverGrove(t *testing.T) {
	t.Parallel()
	names := []string{"g-0-decode-ldr-0", "g-0-decode-wkr-0", "g-0-decode-wkr-1"}
	d := newDynamo(t, names, "g-0.ns.svc.cluster.local")
	for _, n := range names {
		d.hosts = append(d.hosts, n+".g-0")
	}
	for i, p := range d.pods {
		p.env = append(p.env, "GROVE_PCLQ_NAME="+names[i][:len(names[i])-2], "GROVE_PCLQ_POD_INDEX="+names[i][len(names[i])-1:], "GROVE_HEADLESS_SERVICE=g-0.ns.svc.cluster.local",
			"GROVE_PCSG_NAME=g", "GROVE_PCSG_INDEX=0", "GROVE_PCSG_TEMPLATE_NUM_PODS=3")
	}
	for _, p := range d.pods[1:] {
		d.worker(p)
	}
	r := d.leader(6, false, openMPIHello(t, d.cluster))
	r.says(t, 0)
	if ranks := ranksOf(r); len(ranks) != 6 || slices.ContainsFunc(names, func(n string) bool { return strings.Count(r.out, "on "+n+",") != 2 }) {
		t.Errorf("ranks:\n%s", r.out)
	}
	// ssh takes the key that it is told, or that its configuration names.
	for _, words := range [][]string{{"-i", "/home/dynamo/.ssh/id_rsa", "-F", "none"}, {"-o", "IdentityFile=/home/dynamo/.ssh/id_rsa", "-F", "none"}, {}} {
		out, code := d.pods[1].exec(t.Context(), append(append([]string{"/run/names/ssh"}, words...), "-p", "2222", names[2]+".g-0", "hostname")...)
		if code != 0 || out != names[2]+"\n" {
			t.Errorf("ssh %q: %d, %s", words, code, out)
		}
	}
	out, code := d.pods[1].exec(t.Context(), "/run/names/ssh", "-i", "/home/dynamo/.ssh/host_keys/ssh_host_rsa_key", "-F", "none", "-o", "ConnectTimeout=5", names[2]+".g-0", "hostname")
	result{out: out, code: code}.says(t, 255)
	// mpiup's own commands do not take a key from ssh's files: MPIUP_KEY names it.
	out, code = d.pods[1].exec(t.Context(), d.bin, "exec", "g-0-decode-ldr-0.g-0", "--", "true")
	result{out: out, code: code}.says(t, 244, "no job secret found", "MPIUP_KEY")
}
