package contract

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	kubeflow "github.com/kubeflow/mpi-operator/pkg/apis/kubeflow/v2beta1"
	config "github.com/kubeflow/trainer/v2/pkg/apis/config/v1alpha1"
	"golang.org/x/sync/errgroup"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mpiup/mpiup/test/kube/control"
	"github.com/mpiup/mpiup/test/kube/kubelet"
	"github.com/mpiup/mpiup/test/need"
	"github.com/mpiup/mpiup/test/netns"
)

// second is a second of a manifest.
const second = 20 * time.Millisecond

// bound is far beyond what anything here takes on a slow machine.
const bound = 5 * time.Minute

// setting is what differs between clusters.
type setting struct {
	family netns.Family
	domain string // of the cluster; default cluster.local
	// operatorDomain is MPI Operator's --cluster-domain.
	operatorDomain string
	// jobSets adds the controllers of JobSet and Trainer.
	jobSets bool
	// trainer is Trainer's configuration, and token what kubelets give its pods.
	trainer config.Configuration
	token   func(namespace, audience string) (string, error)
	// leaderWorkerSets adds those of LeaderWorkerSet.
	leaderWorkerSets bool
	images           map[string]kubelet.Image
}

// share are the directories of this machine that hosts see: those of the test, and environments that images have.
func (s setting) share() []string {
	out := []string{built}
	if cache := frameworksCache(); slices.ContainsFunc(slices.Collect(maps.Values(s.images)), func(i kubelet.Image) bool {
		return slices.ContainsFunc(slices.Collect(maps.Values(i.Files)), func(f string) bool { return strings.HasPrefix(f, cache+"/") })
	}) {
		out = append(out, cache)
	}
	return out
}

// lab is a cluster with MPI Operator in it.
type lab struct {
	*kubelet.Kubelet
	t     *testing.T
	hosts *netns.Cluster
	api   *control.API
	over  <-chan struct{} // closed when one of the controllers has ended with an error
	// jobSets are the controllers of JobSet and Trainer, where the setting has them.
	jobSets *control.JobSets
	// leaderWorkerSets are LeaderWorkerSet's, where the setting has them.
	leaderWorkerSets *control.LeaderWorkerSets
}

// ns is the namespace of all tests.
const ns = "team"

// up starts a cluster.
func up(t *testing.T, s setting) *lab {
	t.Helper()
	need.Netns(t)
	if s.domain == "" {
		s.domain = "cluster.local"
	}
	dir, err := os.MkdirTemp(built, "pods-")
	must(t, err)
	must(t, os.Chmod(dir, 0o755))
	names := []string{"node"}
	for i := range 8 {
		names = append(names, fmt.Sprintf("slot-%d", i))
	}
	hosts, err := netns.Up(t.Context(), netns.Config{Hosts: names, DNS: true, Domain: "x.y.svc." + s.domain, Family: s.family, Share: s.share()})
	must(t, err)
	for _, h := range append(hosts.Workers(), netns.Launcher) {
		hosts.DNS().Remove(hosts.FQDN(h))
	}
	l := &lab{t: t, hosts: hosts, api: control.NewAPI()}
	l.Kubelet = kubelet.New(kubelet.Config{Client: l.api.Kube, Changes: l.api.Changes(), Hosts: hosts, Free: names[1:], Node: "node",
		Addresses:  func(host string) []netip.Addr { return addresses(hosts.Addr(host), s.family) },
		Nameserver: nameserver(s.family), Domain: s.domain, Images: s.images, Dir: dir, Shared: built, Second: second, Token: s.token})
	controllers := control.NewControllers(l.api, second, s.domain, hosts.DNS())
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	g, ctx := errgroup.WithContext(ctx)
	l.over = ctx.Done()
	g.Go(func() error { return l.Kubelet.Run(ctx) })
	g.Go(func() error { return controllers.Run(ctx) })
	g.Go(func() error { return l.api.RunMPIOperator(ctx, s.operatorDomain) })
	if s.jobSets {
		l.jobSets, err = l.api.NewJobSets(ctx, s.trainer)
		must(t, err)
		g.Go(func() error { return l.jobSets.Run(ctx) })
	}
	if s.leaderWorkerSets {
		l.leaderWorkerSets, err = l.api.NewLeaderWorkerSets()
		must(t, err)
		g.Go(func() error { return l.leaderWorkerSets.Run(ctx) })
	}
	t.Cleanup(func() {
		if t.Failed() {
			l.tell()
		}
		cancel()
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
		l.api.Wait()
		if err := hosts.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// addresses are a host's, given the one that netns tells. Those of one host have the same last
// two bytes.
func addresses(first netip.Addr, family netns.Family) []netip.Addr {
	if family != netns.DualStack {
		return []netip.Addr{first}
	}
	four, six := first.As4(), netip.MustParseAddr("fd77::").As16()
	copy(six[14:], four[2:])
	return []netip.Addr{first, netip.AddrFrom16(six)}
}

// nameserver is where test/netns answers: on the switch.
func nameserver(family netns.Family) netip.Addr {
	if family == netns.IPv6 {
		return netip.MustParseAddr("fd77::fffe")
	}
	return netip.MustParseAddr("10.77.255.254")
}

// tell logs what there is, for a test that failed.
func (l *lab) tell() {
	pods, _ := l.api.Kube.CoreV1().Pods(ns).List(context.Background(), metav1.ListOptions{})
	for _, p := range pods.Items {
		l.t.Logf("-- pod %s (%s %s %s, %v) said:\n%s", p.Name, p.Status.Phase, p.Status.PodIP, p.Status.Message, p.Status.Conditions, l.Output(p.Name))
	}
	jobs, _ := l.api.Kube.BatchV1().Jobs(ns).List(context.Background(), metav1.ListOptions{})
	for _, j := range jobs.Items {
		l.t.Logf("-- job %s: %+v", j.Name, j.Status)
	}
}

// eventually waits for a condition.
func (l *lab) eventually(what string, ok func() bool) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), bound)
	defer cancel()
	tick := time.NewTicker(second)
	defer tick.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			l.t.Fatalf("not within %v: %s", bound, what)
		case <-l.over:
			l.t.Fatalf("a controller has ended before: %s", what)
		case <-tick.C:
		}
	}
}

// submit creates an MPIJob, as kubectl create does.
func (l *lab) submit(j *kubeflow.MPIJob) *kubeflow.MPIJob {
	l.t.Helper()
	made, err := l.api.MPI.KubeflowV2beta1().MPIJobs(ns).Create(l.t.Context(), j, metav1.CreateOptions{})
	must(l.t, err)
	return made
}

func (l *lab) mpiJob(name string) *kubeflow.MPIJob {
	l.t.Helper()
	j, err := l.api.MPI.KubeflowV2beta1().MPIJobs(ns).Get(l.t.Context(), name, metav1.GetOptions{})
	must(l.t, err)
	return j
}

// is says whether a job has the condition.
func is(j *kubeflow.MPIJob, kind kubeflow.JobConditionType) bool {
	return slices.ContainsFunc(j.Status.Conditions, func(c kubeflow.JobCondition) bool {
		return c.Type == kind && c.Status == corev1.ConditionTrue
	})
}

// succeeded waits for the MPIJob's success and gives the launcher's output.
func (l *lab) succeeded(name string) string {
	l.t.Helper()
	l.ended(name, kubeflow.JobSucceeded)
	return l.Output(name + "-launcher")
}

// ended waits for the end of the MPIJob, which must be the one asked for.
func (l *lab) ended(name string, want kubeflow.JobConditionType) {
	l.t.Helper()
	l.eventually("MPIJob "+name+" ends", func() bool {
		j := l.mpiJob(name)
		return is(j, kubeflow.JobSucceeded) || is(j, kubeflow.JobFailed)
	})
	if j := l.mpiJob(name); !is(j, want) {
		l.t.Fatalf("MPIJob %s has not %s: %+v", name, want, j.Status.Conditions)
	}
}

func (l *lab) pods(selector string) []corev1.Pod {
	l.t.Helper()
	list, err := l.api.Kube.CoreV1().Pods(ns).List(l.t.Context(), metav1.ListOptions{LabelSelector: selector})
	must(l.t, err)
	return list.Items
}

func (l *lab) job(name string) *batchv1.Job {
	l.t.Helper()
	j, err := l.api.Kube.BatchV1().Jobs(ns).Get(l.t.Context(), name, metav1.GetOptions{})
	must(l.t, err)
	return j
}

// ranksOn says on which hosts the lines of hello or of whereAmI say that ranks were, sorted.
func ranksOn(output string, size int) (hosts []string) {
	for _, line := range strings.Split(output, "\n") {
		var rank, of int
		var host string
		if n, _ := fmt.Sscanf(line, "rank %d of %d on %s", &rank, &of, &host); n == 3 && of == size {
			hosts = append(hosts, strings.TrimSuffix(host, ","))
		}
	}
	slices.Sort(hosts)
	return hosts
}

// on fails the test unless the ranks were on these hosts, as many as they are listed.
func on(t *testing.T, output string, hosts ...string) {
	t.Helper()
	if got := ranksOn(output, len(hosts)); !slices.Equal(got, hosts) {
		t.Errorf("ranks were on %v, want %v:\n%s", got, hosts, output)
	}
}

// whereAmI is a program without MPI.
const whereAmI = `echo rank $MPIUP_RANK of $MPIUP_SIZE on $(cat /proc/sys/kernel/hostname)`

// bin is the binary under test.
func bin(t *testing.T) string {
	t.Helper()
	path, err := binary()
	must(t, err)
	return path
}

// dropIn is the image of tier 0: mpiup under the names of ssh, sshd and the launchers, and an MPI
// program where upstream's images have theirs.
func dropIn(t *testing.T, program string) kubelet.Image {
	t.Helper()
	mpiup := bin(t)
	config := filepath.Join(built, "sshd_config")
	must(t, os.WriteFile(config, []byte("PidFile /home/mpiuser/sshd.pid\nHostKey /home/mpiuser/.ssh/id_rsa\nStrictModes no\nPort 2222\n"), 0o644))
	files := map[string]string{"/usr/sbin/sshd": mpiup, "/home/mpiuser/pi": program, "/home/mpiuser/.sshd_config": config}
	for _, name := range []string{"mpiup", "ssh", "mpirun", "mpiexec", "mpiexec.hydra"} {
		files["/usr/local/bin/"+name] = mpiup
	}
	return kubelet.Image{User: 1000, Files: files}
}
