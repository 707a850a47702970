package kube_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/test/lab"
	"github.com/mpiup/mpiup/test/netns"
)

// mpiJob is the MPIJob "pi" in namespace "ns" as MPI Operator v2beta1 makes it.
type mpiJob struct {
	*cluster
	flavour  string // mpiImplementation: OpenMPI, Intel, MPICH
	slots    int
	auth     string // sshAuthMountPath
	key      keyPair
	domain   string // of the cluster
	asWorker bool   // runLauncherAsWorker
	workers  []*pod
	launcher *pod
}

const implicitAuth = "/root/.ssh"

// newMPIJob makes the hosts and pods of a job with n workers; nothing runs yet.
func newMPIJob(t *testing.T, family netns.Family, flavour string, n int) *mpiJob {
	return mpiJobIn(t, family, "cluster.local", flavour, n)
}

func mpiJobIn(t *testing.T, family netns.Family, domain, flavour string, n int) *mpiJob {
	t.Helper()
	hosts := []string{"pi-launcher"}
	for i := range n {
		hosts = append(hosts, fmt.Sprintf("pi-worker-%d", i))
	}
	j := &mpiJob{cluster: up(t, family, domain, hosts...), flavour: flavour, slots: 2, auth: implicitAuth,
		key: operatorKey(), domain: domain}
	for _, h := range hosts[1:] {
		w := j.pod(h, "pi.ns.svc."+domain)
		w.search = []string{"pi.ns.svc.cluster.local"} // hard-coded in newWorker
		w.env = []string{"K_MPI_JOB_ROLE=worker"}
		j.workers = append(j.workers, w)
	}
	j.launcher = j.pod("pi-launcher", "pi.ns.svc."+domain)
	return j
}

// mount adds what the operator adds: the secret everywhere, hostfile and environment in the
// launcher.
func (j *mpiJob) mount() *mpiJob {
	for _, w := range j.workers {
		w.volumes = append(w.volumes, j.key.sshAuth(j.auth))
	}
	l := j.launcher
	l.volumes = append(l.volumes, j.key.sshAuth(j.auth), volume{at: "/etc/mpi", files: []file{
		{"hostfile", []byte(j.hostfile()), 0o444}, {"discover_hosts.sh", []byte(j.discoverHosts()), 0o555}}})
	l.env = append(l.env, j.launcherEnv()...)
	return j
}

// names are the hostfile's, in its order.
func (j *mpiJob) names() []string {
	var out []string
	if j.asWorker {
		out = append(out, "pi-launcher.pi.ns.svc")
	}
	for _, w := range j.workers {
		out = append(out, w.name+".pi.ns.svc")
	}
	return out
}

func (j *mpiJob) hostfile() string {
	var b strings.Builder
	for _, n := range j.names() {
		if j.flavour == "OpenMPI" {
			fmt.Fprintf(&b, "%s slots=%d\n", n, j.slots)
		} else {
			fmt.Fprintf(&b, "%s:%d\n", n, j.slots)
		}
	}
	return b.String()
}

// discoverHosts lists the pods that run, by name.
func (j *mpiJob) discoverHosts() string {
	names := slices.Sorted(slices.Values(j.names()))
	return "#!/bin/sh\necho " + strings.Join(names, "\necho ") + "\n"
}

func (j *mpiJob) launcherEnv() []string {
	env := []string{"K_MPI_JOB_ROLE=launcher"}
	switch j.flavour {
	case "OpenMPI":
		env = append(env, "OMPI_MCA_orte_keep_fqdn_hostnames=true", "OMPI_MCA_orte_default_hostfile=/etc/mpi/hostfile",
			"OMPI_MCA_plm_rsh_args=-o ConnectionAttempts=10", "OMPI_MCA_orte_set_default_slots="+strconv.Itoa(j.slots))
	case "Intel":
		env = append(env, "I_MPI_HYDRA_HOST_FILE=/etc/mpi/hostfile",
			"I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS=-o ConnectionAttempts=10", "I_MPI_PERHOST="+strconv.Itoa(j.slots))
	case "MPICH":
		env = append(env, "HYDRA_HOST_FILE=/etc/mpi/hostfile", "HYDRA_LAUNCH_EXTRA_ARGS=-o ConnectionAttempts=10")
	}
	if !j.asWorker {
		env = append(env, "NVIDIA_VISIBLE_DEVICES=", "NVIDIA_DRIVER_CAPABILITIES=")
	}
	return env
}

// up starts all workers and publishes each when it is ready.
func (j *mpiJob) up() *mpiJob {
	j.t.Helper()
	for _, w := range j.workers {
		w.worker()
	}
	for _, w := range j.workers {
		w.published()
	}
	return j
}

// whereAmI is a program without MPI: a line with rank, host name and what else is asked.
var whereAmI = []string{"sh", "-c", `echo rank $MPIUP_RANK of $MPIUP_SIZE on $(cat /proc/sys/kernel/hostname)`}

func fourOnTwo(format string) []string {
	var want []string
	for r := range 4 {
		want = append(want, fmt.Sprintf(format, r, r/2))
	}
	return want
}

func same(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// An unmodified MPIJob of each flavour: no argument names a host, a key or a port.
func TestMPIJobFlavours(t *testing.T) {
	t.Parallel()
	program := mpiHello(t)
	for _, tt := range []struct{ flavour, auth string }{
		{"OpenMPI", implicitAuth},
		{"Intel", "/home/mpiuser/.ssh"},
		{"MPICH", implicitAuth},
	} {
		t.Run(tt.flavour, func(t *testing.T) {
			t.Parallel()
			j := newMPIJob(t, netns.IPv4, tt.flavour, 2)
			j.auth = tt.auth
			if tt.auth != implicitAuth { // a non-root image
				for _, p := range append(j.workers, j.launcher) {
					p.uid = 1000
				}
			}
			j.mount().up()
			var want []string
			for r := range 4 {
				want = append(want, fmt.Sprintf("rank %d of 4 on pi-worker-%d, %d of 2 there", r, r/2, r%2))
			}
			same(t, "ranks", j.launcher.run("-n", "4", program).ok(t), want)
		})
	}
}

// What the operator injects into the launcher must not reach ranks, whose environment is the
// worker container's.
func TestLauncherVariablesStayAtHome(t *testing.T) {
	t.Parallel()
	for _, flavour := range []string{"OpenMPI", "Intel", "MPICH"} {
		t.Run(flavour, func(t *testing.T) {
			t.Parallel()
			j := newMPIJob(t, netns.IPv4, flavour, 1).mount()
			j.workers[0].env = append(j.workers[0].env, "OF_THE_IMAGE=1", "NVIDIA_VISIBLE_DEVICES=all")
			j.up()
			out := strings.Join(j.launcher.run("-n", "1", "env").ok(t), "\n")
			theirs := strings.ReplaceAll(out, "OMPI_MCA_orte_hnp_uri=0.0;", "") // JAX's, of mpiup
			for _, v := range []string{"OMPI_MCA_orte", "OMPI_MCA_plm", "I_MPI_", "HYDRA_", "K_MPI_JOB_ROLE=launcher", "HOSTNAME=pi-launcher"} {
				if strings.Contains(theirs, v) {
					t.Errorf("the rank has %s:\n%s", v, out)
				}
			}
			for _, v := range []string{"OF_THE_IMAGE=1", "NVIDIA_VISIBLE_DEVICES=all", "HOSTNAME=pi-worker-0"} {
				if !strings.Contains(out, v) {
					t.Errorf("the rank lacks %s of its container", v)
				}
			}
		})
	}
}

// Without -n there is a rank for every slot of the hostfile, and it cannot take more.
func TestSlotsOfTheHostfile(t *testing.T) {
	t.Parallel()
	j := newMPIJob(t, netns.IPv4, "OpenMPI", 2).mount().up()
	same(t, "a rank a slot", j.launcher.run(whereAmI...).ok(t), fourOnTwo("rank %d of 4 on pi-worker-%d"))
	if r := j.launcher.run(append([]string{"-n", "5"}, whereAmI...)...); r.code != 240 || !strings.Contains(r.out, "slots") {
		t.Errorf("5 ranks in 4 slots: exit code %d, want 240:\n%s", r.code, r.out)
	}
}

// With runLauncherAsWorker the launcher is the hostfile's first host: its ranks run in the
// launcher's own process tree, or through an agent there, and its record may be missing.
func TestRunLauncherAsWorker(t *testing.T) {
	t.Parallel()
	want := []string{"rank 0 of 4 on pi-launcher", "rank 1 of 4 on pi-launcher", "rank 2 of 4 on pi-worker-0", "rank 3 of 4 on pi-worker-0"}
	job := func(t *testing.T) *mpiJob {
		j := newMPIJob(t, netns.IPv4, "OpenMPI", 1)
		j.asWorker = true
		return j.mount().up()
	}
	t.Run("without an agent", func(t *testing.T) {
		t.Parallel()
		same(t, "ranks", job(t).launcher.run(append([]string{"-n", "4"}, whereAmI...)...).ok(t), want)
	})
	t.Run("with an agent beside it", func(t *testing.T) {
		t.Parallel()
		j := job(t)
		j.launcher.worker()
		lab.Eventually(t, "the launcher's agent serves", j.launcher.ready)
		out, code := j.launcher.exec(t.Context(), append([]string{j.bin, "run", "-n", "4"}, whereAmI...)...)
		same(t, "ranks", result{out: out, code: code}.ok(t), want)
		if !strings.Contains(j.launcher.log.String(), "session") {
			t.Logf("the agent beside the launcher says nothing of the session:\n%s", j.launcher.log.String())
		}
	})
	t.Run("its own name unknown", func(t *testing.T) {
		t.Parallel()
		j := job(t)
		j.launcher.nameless = true
		same(t, "ranks", j.launcher.run(append([]string{"-n", "4"}, whereAmI...)...).ok(t), want)
	})
}
