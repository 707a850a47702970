package contract

import (
	"slices"
	"strings"
	"testing"

	kubeflow "github.com/kubeflow/mpi-operator/pkg/apis/kubeflow/v2beta1"
	corev1 "k8s.io/api/core/v1"
)

// lasting is mpijob.yaml with a script of the launcher's, whose workers nobody deletes at the end.
func lasting(t *testing.T, script string) *kubeflow.MPIJob {
	t.Helper()
	j, none := ours(t), kubeflow.CleanPodPolicyNone
	j.Spec.RunPolicy.CleanPodPolicy = &none
	counting(j)
	s := &j.Spec.MPIReplicaSpecs[kubeflow.MPIReplicaTypeLauncher].Template.Spec
	s.Volumes = []corev1.Volume{{Name: "work", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	s.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "work", MountPath: "/work"}}
	s.Containers[0].Command = []string{"sh", "-c", script}
	return j
}

// workers are the workers' pods.
func (l *lab) workers() []corev1.Pod {
	l.t.Helper()
	return l.pods(kubeflow.JobRoleLabel + "=worker")
}

// workersSucceed waits until both workers have ended by themselves with 0, never having failed.
func (l *lab) workersSucceed() {
	l.t.Helper()
	l.eventually("both workers have ended", func() bool {
		done := 0
		for _, p := range l.workers() {
			if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
				done++
			}
		}
		return done == 2
	})
	for _, p := range l.workers() {
		end := p.Status.ContainerStatuses[0].State.Terminated
		if p.Status.Phase != corev1.PodSucceeded || restarts(p) != 0 || end == nil || end.ExitCode != 0 {
			l.t.Errorf("pod %s has not just succeeded: %+v", p.Name, p.Status)
		}
	}
}

// mpiup launcher ends the agents with 0 after success, so that workers are done whatever
// cleanPodPolicy says.
func TestWorkersSucceedWithTheLauncher(t *testing.T) {
	t.Parallel()
	l := up(t, setting{images: running(t, whereAmI)})
	j := lasting(t, "")
	c := &j.Spec.MPIReplicaSpecs[kubeflow.MPIReplicaTypeLauncher].Template.Spec.Containers[0]
	c.Command = []string{"mpiup", "launcher", "--", "sh", "-c", "mpiup run -n 2 /opt/pi && mpirun -n 4 /opt/pi"}
	l.submit(j)
	out := l.succeeded("pi")
	if got := len(ranksOn(out, 2)); got != 2 {
		t.Errorf("%d ranks of 2:\n%s", got, out)
	}
	on(t, out, "pi-worker-0", "pi-worker-0", "pi-worker-1", "pi-worker-1")
	l.workersSucceed()
}

// An attempt that fails under mpiup launcher leaves the agents to the next one: the operator makes
// no worker anew whose pod has succeeded.
func TestFailedLauncherLeavesTheWorkers(t *testing.T) {
	t.Parallel()
	l := up(t, setting{images: running(t, whereAmI)})
	l.submit(lasting(t, `exec mpiup launcher -- sh -c "mpiup run --ppn 1 -n 2 /opt/pi && ! mkdir /work/first 2>/dev/null"`))
	out := l.succeeded("pi")
	if got := ranksOn(out, 2); !slices.Equal(got, []string{"pi-worker-0", "pi-worker-0", "pi-worker-1", "pi-worker-1"}) {
		t.Errorf("ranks of two attempts were on %v:\n%s", got, out)
	}
	if n := restarts(l.pods(kubeflow.JobRoleLabel + "=launcher")[0]); n != 1 {
		t.Errorf("%d restarts of the launcher, want 1", n)
	}
	l.workersSucceed()
}

// mpiup shutdown ends the workers from a launcher that stays, as those do in which people work.
func TestShutdownFromTheLauncher(t *testing.T) {
	t.Parallel()
	l := up(t, setting{images: running(t, whereAmI)})
	l.submit(lasting(t, "mpiup run --ppn 1 -n 2 /opt/pi && echo done; exec sleep 1000"))
	l.eventually("the run is over", func() bool { return strings.Contains(l.Output("pi-launcher"), "done\n") })
	on(t, l.Output("pi-launcher"), "pi-worker-0", "pi-worker-1")
	for _, p := range l.workers() {
		if p.Status.Phase != corev1.PodRunning {
			t.Errorf("pod %s is %s before mpiup shutdown", p.Name, p.Status.Phase)
		}
	}
	if out, code, err := l.Exec(t.Context(), "pi-launcher", "mpiup", "shutdown"); err != nil || code != 0 {
		t.Fatalf("mpiup shutdown exits with %d, error %v: %s", code, err, out)
	}
	l.workersSucceed()
	if p := l.pods(kubeflow.JobRoleLabel + "=launcher"); len(p) != 1 || p[0].Status.Phase != corev1.PodRunning {
		t.Errorf("the launcher does not run: %+v", p)
	}
}

// Agents with --idle-exit end by themselves after the job, without a word of the launcher's.
func TestIdleWorkersSucceed(t *testing.T) {
	t.Parallel()
	l := up(t, setting{images: running(t, whereAmI)})
	j := lasting(t, "mpiup run -n 4 /opt/pi")
	w := &j.Spec.MPIReplicaSpecs[kubeflow.MPIReplicaTypeWorker].Template.Spec.Containers[0]
	w.Command = []string{"mpiup", "agent", "--idle-exit", "1"}
	l.submit(j)
	on(t, l.succeeded("pi"), "pi-worker-0", "pi-worker-0", "pi-worker-1", "pi-worker-1")
	l.workersSucceed()
	for _, p := range l.workers() {
		if out := l.Output(p.Name); !strings.Contains(out, "--idle-exit") {
			t.Errorf("%s does not say why it ended:\n%s", p.Name, out)
		}
	}
}
