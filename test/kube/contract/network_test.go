package contract

import (
	"strings"
	"testing"

	kubeflow "github.com/kubeflow/mpi-operator/pkg/apis/kubeflow/v2beta1"
	corev1 "k8s.io/api/core/v1"

	"github.com/mpiup/mpiup/test/netns"
)

// Two workers on one node and in its network: one port, one host name, one address.
func TestTwoHostNetworkWorkersOnOneNode(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		launcher bool // in the node's network too
	}{{"launcher in a pod network", false}, {"launcher on the node too", true}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := up(t, setting{images: running(t, "echo rank $MPIUP_RANK of $MPIUP_SIZE on $POD")})
			j := ours(t)
			w := &j.Spec.MPIReplicaSpecs[kubeflow.MPIReplicaTypeWorker].Template.Spec
			w.HostNetwork = true
			w.Containers[0].Env = []corev1.EnvVar{{Name: "POD", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}}}
			j.Spec.MPIReplicaSpecs[kubeflow.MPIReplicaTypeLauncher].Template.Spec.HostNetwork = tt.launcher
			l.submit(j)
			l.ended("pi", kubeflow.JobSucceeded)
			out := l.Output("pi-launcher")
			on(t, out, "pi-worker-0", "pi-worker-0", "pi-worker-1", "pi-worker-1")
			a, b := l.pods(kubeflow.ReplicaIndexLabel+"=0"), l.pods(kubeflow.ReplicaIndexLabel+"=1")
			if len(a) == 1 && len(b) == 1 && a[0].Status.PodIP != b[0].Status.PodIP {
				t.Error("the workers are not on one node")
			}
		})
	}
}

// A cluster domain other than cluster.local, which the operator knows or not. It puts
// cluster.local into the workers' search lists either way.
func TestClusterDomain(t *testing.T) {
	t.Parallel()
	for name, flag := range map[string]string{"the operator knows": "corp.example", "the operator does not": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := up(t, setting{domain: "corp.example", operatorDomain: flag, images: running(t, whereAmI)})
			l.submit(ours(t))
			on(t, l.succeeded("pi"), "pi-worker-0", "pi-worker-0", "pi-worker-1", "pi-worker-1")
			for _, q := range l.hosts.DNS().Queries() {
				if strings.Contains(q, "cluster.local") {
					t.Errorf("DNS was asked for %s", q)
				}
			}
		})
	}
}

// Clusters with IPv6 alone, and with both families, in which a headless service has the first
// only unless it asks for both.
func TestAddressFamilies(t *testing.T) {
	t.Parallel()
	for name, family := range map[string]netns.Family{"IPv6 only": netns.IPv6, "dual stack": netns.DualStack} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := up(t, setting{family: family, images: exampleImages(t)})
			l.submit(ours(t))
			on(t, l.succeeded("pi"), "pi-worker-0", "pi-worker-0", "pi-worker-1", "pi-worker-1")
		})
	}
}
