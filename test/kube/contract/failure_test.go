package contract

import (
	"strings"
	"testing"

	kubeflow "github.com/kubeflow/mpi-operator/pkg/apis/kubeflow/v2beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mpiup/mpiup/test/kube/kubelet"
)

// twice is a program that runs until it is ended, and in the launcher's second attempt says what
// it finds and where it is.
const twice = `if [ $ATTEMPT = 1 ]; then echo running on $(cat /proc/sys/kernel/hostname); exec sleep 1000; fi
for c in /proc/[0-9]*/comm; do [ "$(cat $c 2>/dev/null)" != sleep ] || echo a process of attempt 1 is left; done
` + whereAmI

// attempts is mpijob.yaml with a rank a worker, whose launcher numbers its attempts.
func attempts(t *testing.T) (*lab, *kubeflow.MPIJob) {
	t.Helper()
	l := up(t, setting{images: running(t, twice)})
	j := ours(t)
	counting(j)
	s := &j.Spec.MPIReplicaSpecs[kubeflow.MPIReplicaTypeLauncher].Template.Spec
	s.Volumes = []corev1.Volume{{Name: "work", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	s.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "work", MountPath: "/work"}}
	s.Containers[0].Command = []string{"sh", "-c", `if mkdir /work/1 2>/dev/null; then ATTEMPT=1; else ATTEMPT=2; fi; export ATTEMPT
exec mpiup run -x ATTEMPT --ppn 1 -n 2 /opt/pi`}
	l.submit(j)
	l.eventually("both ranks run", func() bool { return strings.Count(l.Output("pi-launcher"), "running on pi-worker-") == 2 })
	return l, j
}

// counting has the launcher's container start again in its pod, where a volume counts the attempts.
func counting(j *kubeflow.MPIJob) {
	j.Spec.MPIReplicaSpecs[kubeflow.MPIReplicaTypeLauncher].RestartPolicy = kubeflow.RestartPolicyOnFailure
}

// ours is mpijob.yaml.
func ours(t *testing.T) *kubeflow.MPIJob {
	t.Helper()
	return decode[kubeflow.MPIJob](t, example(t, "mpijob.yaml")[0])
}

// running are our examples' images with a script as the program.
func running(t *testing.T, text string) map[string]kubelet.Image {
	t.Helper()
	mpiup, program := bin(t), script(t, text)
	image := kubelet.Image{User: 1000, Files: map[string]string{"/usr/local/bin/mpiup": mpiup, "/opt/pi": program, "/opt/serve": program}}
	for _, name := range []string{"mpirun", "ssh", "sshd"} {
		image.Files["/usr/local/bin/"+name] = mpiup
	}
	return map[string]kubelet.Image{"registry.example.com/pi:1": image, "registry.example.com/serve:1": image}
}

// retried fails the test unless the second attempt went well after a failure of a worker.
func retried(t *testing.T, l *lab, worker string) {
	t.Helper()
	out := l.succeeded("pi")
	on(t, out, "pi-worker-0", "pi-worker-1")
	if !strings.Contains(out, worker) || strings.Contains(out, "attempt 1 is left") {
		t.Errorf("want nothing left, and %s named as the cause:\n%s", worker, out)
	}
	launcher := l.pods(kubeflow.JobRoleLabel + "=launcher")
	if len(launcher) != 1 || restarts(launcher[0]) != 1 {
		t.Errorf("want one launcher with one restart: %+v", launcher)
	}
}

func restarts(p corev1.Pod) int32 {
	if len(p.Status.ContainerStatuses) == 0 {
		return 0
	}
	return p.Status.ContainerStatuses[0].RestartCount
}

// A worker's container is killed in the midst of a run: kubelet restarts it in place, the launcher
// fails, names the pod and succeeds in its second attempt.
func TestWorkerContainerKilled(t *testing.T) {
	t.Parallel()
	l, _ := attempts(t)
	before := l.pods(kubeflow.ReplicaIndexLabel + "=1")[0]
	must(t, l.Kill("pi-worker-1"))
	retried(t, l, "pi-worker-1")
	after := l.pods(kubeflow.ReplicaIndexLabel + "=1")
	if len(after) == 1 && (after[0].UID != before.UID || after[0].Status.PodIP != before.Status.PodIP) {
		t.Errorf("the pod is another one: %v", after)
	}
}

// A worker's pod is deleted in the midst of a run: the operator makes another of that name, with
// another address.
func TestWorkerPodDeleted(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		grace *int64
	}{{"told before", nil}, {"as when its node is lost", new(int64)}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l, _ := attempts(t)
			before := l.pods(kubeflow.ReplicaIndexLabel + "=1")[0]
			if tt.grace != nil {
				must(t, l.Kill(before.Name)) // a pod that is never told
			}
			must(t, l.api.Kube.CoreV1().Pods(ns).Delete(t.Context(), before.Name, metav1.DeleteOptions{}))
			var after corev1.Pod
			l.eventually("there is another worker 1", func() bool {
				for _, p := range l.pods(kubeflow.ReplicaIndexLabel + "=1") {
					after = p
				}
				return after.UID != "" && after.UID != before.UID && after.Status.PodIP != ""
			})
			if after.Status.PodIP == before.Status.PodIP {
				t.Error("it has the old one's address")
			}
			retried(t, l, "pi-worker-1")
		})
	}
}

// Where every attempt fails the launcher's Job reaches its limit, and the MPIJob has failed.
func TestBackoffLimitReached(t *testing.T) {
	t.Parallel()
	l := up(t, setting{images: running(t, "exit 3")})
	j, limit := ours(t), int32(2)
	j.Spec.RunPolicy.BackoffLimit = &limit
	l.submit(j)
	l.ended("pi", kubeflow.JobFailed)
	if out := l.Output("pi-launcher"); !strings.Contains(out, "exited with code 3") {
		t.Errorf("the launcher does not say why:\n%s", out)
	}
	if s := l.job("pi-launcher").Status; s.Failed != 3 || s.Active != 0 {
		t.Errorf("the launcher's Job: %+v", s)
	}
	l.readable(3, "exited with code 3", kubeflow.JobRoleLabel+"=launcher")
	l.eventually("cleanPodPolicy Running takes the workers", func() bool { return len(l.pods(kubeflow.JobRoleLabel+"=worker")) == 0 })
}
