package kubelet_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/mpiup/mpiup/test/kube/control"
	"github.com/mpiup/mpiup/test/kube/kubelet"
	"github.com/mpiup/mpiup/test/lab"
	"github.com/mpiup/mpiup/test/need"
	"github.com/mpiup/mpiup/test/netns"
)

// built is a directory that all hosts see.
var built string

func TestMain(m *testing.M) {
	os.Exit(lab.Main(m, func(dir string) error { built = dir; return nil }, nil))
}

// real says whether the table runs on a real cluster.
func real() bool { return os.Getenv("MPIUP_CLUSTER") != "" }

// debian is the image of all pods: the cluster's has Debian and MPICH, the played one is this machine.
const debian = "registry.example.com/users-own-image:7"

// played is the played kubelet with an API of its own.
func played(t *testing.T) *cluster {
	need.Netns(t)
	names := []string{"machine"}
	for i := range 6 {
		names = append(names, fmt.Sprintf("slot-%d", i))
	}
	hosts, err := netns.Up(t.Context(), netns.Config{Hosts: names, Share: []string{built}})
	must(t, err)
	dir, err := os.MkdirTemp(built, "pods-") // of this run: with -count the next one's pods have the same UIDs
	must(t, err)
	must(t, os.Chmod(dir, 0o755))
	api := control.NewAPI()
	k := kubelet.New(kubelet.Config{Client: api.Kube, Changes: api.Changes(), Hosts: hosts, Free: names[1:], Node: "machine",
		Addresses:  func(host string) []netip.Addr { return []netip.Addr{hosts.Addr(host)} },
		Nameserver: netip.MustParseAddr("10.96.0.10"), Domain: "cluster.local",
		Images: map[string]kubelet.Image{debian: {}}, Dir: dir, Shared: built, Second: 20 * time.Millisecond})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- k.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		must(t, <-ended)
		api.Wait()
		must(t, hosts.Close())
	})
	return &cluster{kube: api.Kube, bound: 2 * time.Minute, output: func(_ context.Context, _ *testing.T, pod string) string { return k.Output(pod) }}
}

// kubernetesOf is the cluster that make cluster started, over kubectl's proxy, and a namespace of it.
func kubernetesOf(t *testing.T) *cluster {
	socket := filepath.Join(built, "proxy")
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context())) // it serves the tidying up, too
	proxy := exec.CommandContext(ctx, "../../cluster/k", "proxy", "--unix-socket="+socket)
	proxy.Stderr = os.Stderr
	must(t, proxy.Start())
	t.Cleanup(func() { cancel(); _ = proxy.Wait() }) // it was killed
	lab.Eventually(t, "kubectl proxy listens", func() bool { _, err := os.Stat(socket); return err == nil })
	config := &rest.Config{Host: "http://localhost", QPS: 100, Burst: 200,
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		}}
	kube, err := kubernetes.NewForConfig(config)
	must(t, err)
	spaces := kube.CoreV1().Namespaces()
	lab.Eventually(t, "there is a namespace", func() bool { // that of the run before may be going, or be left by one that was killed
		if err := spaces.Delete(t.Context(), ns, metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
			return false
		}
		_, err := spaces.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
		return err == nil
	})
	t.Cleanup(func() { must(t, spaces.Delete(context.Background(), ns, metav1.DeleteOptions{})) })
	lab.Eventually(t, "there is a service account", func() bool {
		_, err := kube.CoreV1().ServiceAccounts(ns).Get(t.Context(), "default", metav1.GetOptions{})
		return err == nil
	})
	return &cluster{kube: kube, bound: 3 * time.Minute, output: func(ctx context.Context, t *testing.T, pod string) string {
		return logs(ctx, t, kube, pod)
	}}
}

// logs are those of all containers of a pod that have any.
func logs(ctx context.Context, t *testing.T, kube kubernetes.Interface, name string) string {
	p, err := kube.CoreV1().Pods(ns).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return ""
	}
	must(t, err)
	var b strings.Builder
	for _, c := range append(p.Spec.InitContainers, p.Spec.Containers...) {
		in, err := kube.CoreV1().Pods(ns).GetLogs(name, &corev1.PodLogOptions{Container: c.Name}).Stream(ctx)
		if apierrors.IsBadRequest(err) { // it never started
			continue
		}
		must(t, err)
		_, err = io.Copy(&b, in)
		must(t, err)
		must(t, in.Close())
	}
	return b.String()
}
