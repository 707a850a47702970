package contract

import (
	"strings"
	"testing"

	kubeflow "github.com/kubeflow/mpi-operator/pkg/apis/kubeflow/v2beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// suspend flips runPolicy.suspend, which is all that Kueue does to an MPIJob: admission clears it,
// preemption sets it.
func (l *lab) suspend(is bool) {
	l.t.Helper()
	for {
		j := l.mpiJob("pi")
		j.Spec.RunPolicy.Suspend = &is
		_, err := l.api.MPI.KubeflowV2beta1().MPIJobs(ns).Update(l.t.Context(), j, metav1.UpdateOptions{})
		if apierrors.IsConflict(err) {
			continue
		}
		must(l.t, err)
		return
	}
}

// setMode changes what the launchers of pi find in /etc/mode/mode.
func (l *lab) setMode(mode string) {
	l.t.Helper()
	c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "mode", Namespace: ns}, Data: map[string]string{"mode": mode}}
	_, err := l.api.Kube.CoreV1().ConfigMaps(ns).Update(l.t.Context(), c, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = l.api.Kube.CoreV1().ConfigMaps(ns).Create(l.t.Context(), c, metav1.CreateOptions{})
	}
	must(l.t, err)
}

// A job is made suspended, as queues want it, admitted, preempted in the midst of its run and
// resumed: nothing runs meanwhile, ranks see SIGTERM, and the end is a success with the same secret.
func TestSuspendAndResume(t *testing.T) {
	t.Parallel()
	l := up(t, setting{images: running(t, `if [ $MODE = long ]; then
  trap 'echo rank $MPIUP_RANK saw SIGTERM; exit 1' TERM
  echo running on $(cat /proc/sys/kernel/hostname); sleep 1000 & wait
fi
`+whereAmI)})
	l.setMode("long")
	j, yes, grace := ours(t), true, int64(5)
	j.Spec.RunPolicy.Suspend = &yes
	s := &j.Spec.MPIReplicaSpecs[kubeflow.MPIReplicaTypeLauncher].Template.Spec
	s.TerminationGracePeriodSeconds = &grace // for a SIGTERM that meets sh as PID 1, which has no handler
	s.Volumes = []corev1.Volume{{Name: "mode", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: "mode"}}}}}
	s.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "mode", MountPath: "/etc/mode"}}
	s.Containers[0].Command = []string{"sh", "-c", "MODE=$(cat /etc/mode/mode); export MODE; exec mpiup run -x MODE --ppn 1 -n 2 /opt/pi"}
	l.submit(j)
	l.eventually("it is suspended", func() bool { return is(l.mpiJob("pi"), kubeflow.JobSuspended) })
	if pods := l.pods(""); len(pods) != 0 {
		t.Errorf("a suspended job has pods: %v", pods)
	}
	secret := l.secret("pi-ssh")

	l.suspend(false)
	l.eventually("both ranks run", func() bool { return strings.Count(l.Output("pi-launcher"), "running on pi-worker-") == 2 })
	l.suspend(true)
	l.eventually("all pods are gone", func() bool { return len(l.pods("")) == 0 })
	out := l.Output("pi-launcher")
	for _, want := range []string{"rank 0 saw SIGTERM", "rank 1 saw SIGTERM"} {
		if !strings.Contains(out, want) {
			t.Errorf("nothing says %q:\n%s", want, out)
		}
	}

	l.setMode("short")
	l.suspend(false)
	on(t, l.succeeded("pi"), "pi-worker-0", "pi-worker-1")
	if l.secret("pi-ssh") != secret {
		t.Error("the operator has made another secret")
	}
}

func (l *lab) secret(name string) string {
	l.t.Helper()
	s, err := l.api.Kube.CoreV1().Secrets(ns).Get(l.t.Context(), name, metav1.GetOptions{})
	must(l.t, err)
	return string(s.Data[corev1.SSHAuthPrivateKey])
}
