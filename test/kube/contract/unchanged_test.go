package contract

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	kubeflow "github.com/kubeflow/mpi-operator/pkg/apis/kubeflow/v2beta1"
	trainer "github.com/kubeflow/trainer/v2/pkg/apis/trainer/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	volcano "volcano.sh/apis/pkg/apis/batch/v1alpha1"

	"github.com/mpiup/mpiup/test/kube/kubelet"
)

// with is an image and more files in it.
func with(image kubelet.Image, files map[string]string) kubelet.Image {
	for path, file := range files {
		image.Files[path] = file
	}
	return image
}

// Upstream's examples with Horovod and GPUs, of which nothing is changed: images of their names
// have mpiup as sshd and mpirun, and an MPI program as python.
func TestUpstreamMPIJobsUnchanged(t *testing.T) {
	t.Parallel()
	for name, image := range map[string]string{
		"horovod/tensorflow-mnist.yaml":                    "docker.io/kubeflow/mpi-horovod-mnist",
		"tensorflow-benchmarks/tensorflow-benchmarks.yaml": "mpioperator/tensorflow-benchmarks:latest",
	} {
		t.Run(filepath.Base(name), func(t *testing.T) {
			t.Parallel()
			hello := program(t, "mpicc.openmpi")
			theirs := with(dropIn(t, hello), map[string]string{"/usr/local/bin/python": hello})
			theirs.User = 0 // as upstream's images have it, where the key is at /root/.ssh
			l := up(t, setting{images: map[string]kubelet.Image{image: theirs}})
			j := decode[kubeflow.MPIJob](t, upstream(t, mpiOperator, "examples/v2beta1/"+name))
			l.submit(j)
			on(t, l.succeeded(j.Name), j.Name+"-worker-0", j.Name+"-worker-1")
			l.eventually("cleanPodPolicy Running takes the workers", func() bool { return len(l.pods(kubeflow.JobRoleLabel+"=worker")) == 0 })
		})
	}
}

// Trainer's own runtimes for MPI as they are, with a TrainJob of two nodes of which the launcher is
// one: workers start /usr/sbin/sshd as another user than root, the launcher the TrainJob's mpirun. Trainer, too, tells
// Open MPI 4 alone where its hosts are (kubeflow/trainer#4028).
func TestUpstreamTrainerRuntimesUnchanged(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		flavour
		runtime string
	}{
		{four, "deepspeed"},
		{five, "deepspeed"},
		{four, "mlx"},
	} {
		t.Run(tt.runtime+" "+tt.name, func(t *testing.T) {
			t.Parallel()
			l := up(t, setting{jobSets: true, images: map[string]kubelet.Image{"ghcr.io/kubeflow/trainer/" + tt.runtime + "-runtime": tt.flavour.image(t, dropIn)}})
			r := decode[trainer.ClusterTrainingRuntime](t, upstream(t, "github.com/kubeflow/trainer/v2", "manifests/base/runtimes/"+tt.runtime+"_distributed.yaml"))
			j, nodes := &trainer.TrainJob{ObjectMeta: metav1.ObjectMeta{Name: "job", Namespace: ns}}, int32(2)
			group, kind := trainer.GroupVersion.Group, trainer.ClusterTrainingRuntimeKind // the API's defaults
			j.Spec.RuntimeRef = trainer.RuntimeRef{Name: r.Name, APIGroup: &group, Kind: &kind}
			j.Spec.Trainer = &trainer.Trainer{NumNodes: &nodes, Command: []string{"mpirun", "/home/mpiuser/pi"}}
			l.submitted(r, j)
			l.trained(j)
			tt.on(t, l.Output("job-launcher-0-0"), "job-launcher-0-0", "job-node-0-0")
		})
	}
}

// Volcano's own MPI example as it is: its master, too, starts sshd, which goes to the background,
// and hands mpiexec the file that plugin svc has written.
func TestUpstreamVolcanoJobUnchanged(t *testing.T) {
	t.Parallel()
	theirs := with(dropIn(t, bin(t)), map[string]string{"/usr/local/bin/mpi_hello_world": program(t, "mpicc.openmpi")})
	theirs.User = 0 // as upstream's image has it, where the key is at /root/.ssh
	l := up(t, setting{images: map[string]kubelet.Image{"volcanosh/example-mpi:0.0.3": theirs}})
	j := decode[volcano.Job](t, documents(downloaded(t, "volcano.sh/volcano@v1.15.0", "example/integrations/mpi/mpi-example.yaml"))[0])
	l.volcano(j)
	on(t, l.mastered("lm-mpi-job-mpimaster-0"), "lm-mpi-job-mpiworker-0", "lm-mpi-job-mpiworker-1")
}

// downloaded reads a file of a module that nothing here imports.
func downloaded(t *testing.T, module, path string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", module)
	cmd.Dir = "/" // of no module
	out, err := cmd.Output()
	must(t, err)
	var is struct{ Dir string }
	must(t, json.Unmarshal(out, &is))
	text, err := os.ReadFile(filepath.Join(is.Dir, path))
	must(t, err)
	return text
}
