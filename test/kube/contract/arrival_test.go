package contract

import (
	"strings"
	"testing"

	kubeflow "github.com/kubeflow/mpi-operator/pkg/apis/kubeflow/v2beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ungate lets a pod be scheduled.
func (l *lab) ungate(name string) {
	l.t.Helper()
	for {
		p, err := l.api.Kube.CoreV1().Pods(ns).Get(l.t.Context(), name, metav1.GetOptions{})
		must(l.t, err)
		p.Spec.SchedulingGates = nil
		_, err = l.api.Kube.CoreV1().Pods(ns).Update(l.t.Context(), p, metav1.UpdateOptions{})
		if apierrors.IsConflict(err) {
			continue
		}
		must(l.t, err)
		return
	}
}

// The launcher is there long before the workers, which come one by one: it waits, says for whom,
// and no restart is consumed.
func TestLauncherStartsBeforeWorkers(t *testing.T) {
	t.Parallel()
	l := up(t, setting{images: running(t, whereAmI)})
	j := ours(t)
	w := &j.Spec.MPIReplicaSpecs[kubeflow.MPIReplicaTypeWorker].Template.Spec
	w.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/later"}}
	l.submit(j)
	waits := func(hosts string) func() bool {
		return func() bool { return strings.Contains(l.Output("pi-launcher"), "waiting for "+hosts) }
	}
	l.eventually("the launcher waits for both", waits("2 of 2 hosts"))
	l.ungate("pi-worker-1")
	l.eventually("the launcher waits for one", waits("1 of 2 hosts"))
	l.ungate("pi-worker-0")
	on(t, l.succeeded("pi"), "pi-worker-0", "pi-worker-0", "pi-worker-1", "pi-worker-1")
	launcher := l.pods(kubeflow.JobRoleLabel + "=launcher")
	if len(launcher) != 1 || restarts(launcher[0]) != 0 {
		t.Errorf("want one launcher without restarts: %+v", launcher)
	}
}

// With WaitForWorkersReady the operator makes the launcher only when the agents' probes pass.
func TestWaitForWorkersReady(t *testing.T) {
	t.Parallel()
	l := up(t, setting{images: running(t, whereAmI)})
	j := ours(t)
	j.Spec.LauncherCreationPolicy = kubeflow.LauncherCreationPolicyWaitForWorkersReady
	w := &j.Spec.MPIReplicaSpecs[kubeflow.MPIReplicaTypeWorker].Template.Spec
	w.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/later"}}
	l.submit(j)
	l.eventually("both workers are made", func() bool { return len(l.pods("")) == 2 })
	l.ungate("pi-worker-0")
	l.eventually("one worker is ready", func() bool {
		p := l.pods(kubeflow.ReplicaIndexLabel + "=0")[0]
		return len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].Ready
	})
	if n := len(l.pods("")); n != 2 {
		t.Errorf("%d pods, want the workers only", n)
	}
	l.ungate("pi-worker-1")
	out := l.succeeded("pi")
	on(t, out, "pi-worker-0", "pi-worker-0", "pi-worker-1", "pi-worker-1")
}

// With runLauncherAsWorker the launcher is the first host and has no agent.
func TestRunLauncherAsWorker(t *testing.T) {
	t.Parallel()
	l := up(t, setting{images: running(t, whereAmI)})
	j, yes := ours(t), true
	j.Spec.RunLauncherAsWorker = &yes
	c := &j.Spec.MPIReplicaSpecs[kubeflow.MPIReplicaTypeLauncher].Template.Spec.Containers[0]
	c.Command = []string{"mpiup", "run", "-n", "6", "/opt/pi"}
	l.submit(j)
	on(t, l.succeeded("pi"), "pi-launcher", "pi-launcher", "pi-worker-0", "pi-worker-0", "pi-worker-1", "pi-worker-1")
}
