package contract

import (
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	kubeflow "github.com/kubeflow/mpi-operator/pkg/apis/kubeflow/v2beta1"
	corev1 "k8s.io/api/core/v1"

	"github.com/mpiup/mpiup/test/kube/kubelet"
)

// Upstream's three examples as they are, but for an image in which mpiup has the names of sshd, ssh
// and mpirun. Upstream's own test does not look where the ranks are.
func TestUpstreamExamplesWithAnotherImage(t *testing.T) {
	eachFlavour(t, dropIn, func(t *testing.T, f flavour, image kubelet.Image) {
		l := up(t, setting{images: map[string]kubelet.Image{"drop-in": image}})
		l.submit(pi(t, f.file, "drop-in"))
		f.on(t, l.succeeded("pi"), "pi-worker-0", "pi-worker-1")
	})
}

// The same with an image that has mpiup under its own name, and the commands that start it.
func TestUpstreamExamplesWithOtherCommands(t *testing.T) {
	eachFlavour(t, withMpiup, func(t *testing.T, f flavour, image kubelet.Image) {
		l := up(t, setting{images: map[string]kubelet.Image{"mpiup": image}})
		j := pi(t, f.file, "mpiup")
		command(j, []string{"mpiup", "agent"}, "mpiup", "run", "-n", "2", "/home/mpiuser/pi")
		l.submit(j)
		f.on(t, l.succeeded("pi"), "pi-worker-0", "pi-worker-1")
	})
}

// An init container brings the binary to an image that can execute neither ssh nor sshd.
func TestUpstreamExamplesWithAnInitContainer(t *testing.T) {
	eachFlavour(t, users, func(t *testing.T, f flavour, image kubelet.Image) {
		l := up(t, setting{images: map[string]kubelet.Image{"mpiup": scratch(t), "users": image}})
		j := pi(t, f.file, "users")
		command(j, []string{"/opt/mpiup/mpiup", "agent"}, "/opt/mpiup/mpiup", "run", "-n", "2", "/home/mpiuser/pi")
		for _, r := range j.Spec.MPIReplicaSpecs {
			s, at := &r.Template.Spec, corev1.VolumeMount{Name: "mpiup", MountPath: "/opt/mpiup"}
			s.Volumes = []corev1.Volume{{Name: "mpiup", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
			s.InitContainers = []corev1.Container{{Name: "mpiup", Image: "mpiup", Command: []string{"/mpiup", "install", "/opt/mpiup"}, VolumeMounts: []corev1.VolumeMount{at}}}
			s.Containers[0].VolumeMounts = []corev1.VolumeMount{at}
		}
		l.submit(j)
		f.on(t, l.succeeded("pi"), "pi-worker-0", "pi-worker-1")
		_, code, err := l.Exec(t.Context(), "pi-worker-0", "sh", "-c", "ssh -V || /usr/sbin/sshd -V")
		if err == nil && code == 0 {
			t.Error("the image has ssh or sshd")
		}
	})
}

// Our own examples as they are: images are looked up by the names they have.
func TestOurMPIJobs(t *testing.T) {
	t.Parallel()
	for _, name := range examples(t, "mpijob*.yaml") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := up(t, setting{images: exampleImages(t)})
			j := decode[kubeflow.MPIJob](t, example(t, name)[0])
			l.here(j)
			l.submit(j)
			ranks := *j.Spec.SlotsPerWorker
			var hosts []string
			for _, w := range []string{"0", "1"} {
				hosts = append(hosts, slices.Repeat([]string{j.Name + "-worker-" + w}, int(ranks))...)
			}
			on(t, l.succeeded(j.Name), hosts...)
		})
	}
}

// here changes of a job what these hosts do not have: a second network, and RDMA adapters.
func (l *lab) here(j *kubeflow.MPIJob) {
	c := &j.Spec.MPIReplicaSpecs[kubeflow.MPIReplicaTypeLauncher].Template.Spec.Containers[0]
	for i, word := range c.Command {
		switch word {
		case "10.98.0.0/16":
			c.Command[i] = netip.PrefixFrom(l.hosts.Addr("slot-0"), 16).Masked().String()
		case "rdma":
			c.Command[i] = "tcp"
		}
	}
}

// mpijob-gpu.yaml as it is, on hosts without adapters: it starts nothing, and says what is missing.
func TestTheGPUJobWantsItsAdapters(t *testing.T) {
	t.Parallel()
	l := up(t, setting{images: exampleImages(t)})
	j := decode[kubeflow.MPIJob](t, example(t, "mpijob-gpu.yaml")[0])
	none := int32(0)
	j.Spec.RunPolicy.BackoffLimit = &none
	l.submit(j)
	l.ended("train", kubeflow.JobFailed)
	out := l.Output("train-launcher")
	if strings.Contains(out, "rank 0 of 16") || !strings.Contains(out, "RDMA") || !strings.Contains(out, "train-worker-") {
		t.Errorf("ranks ran, or nobody says what is missing where:\n%s", out)
	}
}

// command gives an MPIJob's containers commands in place of what they have. The readiness probe of
// a worker that is not sshd asks the agent.
func command(j *kubeflow.MPIJob, worker []string, launcher ...string) {
	w := &j.Spec.MPIReplicaSpecs[kubeflow.MPIReplicaTypeWorker].Template.Spec.Containers[0]
	w.Command, w.Args = worker, nil
	w.ReadinessProbe = &corev1.Probe{TimeoutSeconds: 5, ProbeHandler: corev1.ProbeHandler{
		Exec: &corev1.ExecAction{Command: append(slices.Clone(worker[:1]), "agent", "--check")}}}
	l := &j.Spec.MPIReplicaSpecs[kubeflow.MPIReplicaTypeLauncher].Template.Spec.Containers[0]
	l.Command, l.Args = launcher, nil
}

// withMpiup is an image that has mpiup in its PATH and a program in upstream's place.
func withMpiup(t *testing.T, program string) kubelet.Image {
	return kubelet.Image{Files: map[string]string{"/usr/local/bin/mpiup": bin(t), "/home/mpiuser/pi": program}}
}

// scratch is the image with nothing but mpiup, as the Containerfile makes it.
func scratch(t *testing.T) kubelet.Image {
	return kubelet.Image{Files: map[string]string{"/mpiup": bin(t)}, Entrypoint: []string{"/mpiup"}, User: 65532}
}

// users is an image that knows nothing of mpiup.
func users(t *testing.T, program string) kubelet.Image {
	return kubelet.Image{Files: map[string]string{"/home/mpiuser/pi": program, "/opt/pi": program},
		Without: []string{"/usr/bin/ssh", "/usr/sbin/sshd"}}
}

// exampleImages are those that our examples name.
func exampleImages(t *testing.T) map[string]kubelet.Image {
	t.Helper()
	pi := filepath.Join(built, filepath.Base(program(t, "mpicc.mpich")))
	ours := kubelet.Image{User: 1000, Files: map[string]string{"/usr/local/bin/mpiup": bin(t), "/usr/local/bin/ssh": bin(t), "/opt/pi": pi, "/opt/serve": pi, "/opt/train": pi}}
	return map[string]kubelet.Image{
		"registry.example.com/pi:1":              ours,
		"registry.example.com/serve:1":           ours,
		"registry.example.com/train:1":           ours,
		"registry.example.com/pi-mpich:1":        ours,
		"registry.example.com/pi-intel:1":        ours, // MPICH has Intel MPI's interface and PMI
		"registry.example.com/pi-drop-in:1":      dropIn(t, program(t, "mpicc.openmpi")),
		"registry.example.com/mpiup:1":           scratch(t),
		"registry.example.com/users-own-image:7": users(t, pi),
	}
}
