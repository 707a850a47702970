package contract

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	kubeflow "github.com/kubeflow/mpi-operator/pkg/apis/kubeflow/v2beta1"
	trainer "github.com/kubeflow/trainer/v2/pkg/apis/trainer/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mpiup/mpiup/test/guide"
	"github.com/mpiup/mpiup/test/kube/kubelet"
	"github.com/mpiup/mpiup/test/need"
)

// trainings are the examples that train, each with the Python environment that stands for its image's and how many
// ranks it has on each of two workers.
var trainings = []struct {
	name   string
	python func(*testing.T) kubelet.Image
	ranks  int
	as     string // the example whose manifests it has; "": its own
	script string // below the repository; "": the example's
}{
	{name: "torch-ddp", python: debiansTorch, ranks: 2},
	{name: "horovod-pytorch", python: cached("horovod"), ranks: 2},
	{name: "jax", python: cached("jax"), ranks: 1},
	{name: "lightning", python: cached("torch"), ranks: 2},
	{name: "deepspeed", python: deepSpeed, ranks: 2},
	{name: "horovod-mpich", python: cached("horovod-mpich"), ranks: 2, as: "horovod-pytorch"},
	{name: "accelerate", python: cached("torch"), ranks: 2, as: "torch-ddp", script: "test/frameworks/accelerate.py"},
	{name: "tensorflow", python: tensorFlow, ranks: 2, as: "torch-ddp", script: "test/frameworks/tensorflow.py"},
}

// frameworksCache is where test/frameworks.sh builds.
func frameworksCache() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "mpiup", "frameworks")
}

// debiansTorch is this machine's own Python.
func debiansTorch(t *testing.T) kubelet.Image {
	t.Helper()
	need.File(t, "torch", "/usr/lib/python3/dist-packages/torch/version.py", "install python3-torch")
	return kubelet.Image{Files: map[string]string{}}
}

// cached is an environment that test/frameworks.sh has built, by its name there.
func cached(name string) func(*testing.T) kubelet.Image {
	return func(t *testing.T) kubelet.Image {
		t.Helper()
		dir := filepath.Join(frameworksCache(), name)
		needs[name](t, filepath.Join(dir, "built-with"), "run test/frameworks.sh "+name)
		return environment(dir)
	}
}

// needs ask for environments by the names by which CI requires them (MPIUP_TEST_REQUIRE). That of torch is not Debian's.
var needs = map[string]func(t *testing.T, path, hint string){
	"horovod":       func(t *testing.T, path, hint string) { need.File(t, "horovod", path, hint) },
	"horovod-mpich": func(t *testing.T, path, hint string) { need.File(t, "horovod-mpich", path, hint) },
	"jax":           func(t *testing.T, path, hint string) { need.File(t, "jax", path, hint) },
	"torch":         func(t *testing.T, path, hint string) { need.File(t, "newtorch", path, hint) },
	"tensorflow":    func(t *testing.T, path, hint string) { need.File(t, "tensorflow", path, hint) },
}

// tensorFlow is an image whose jobs are TensorFlow's: TF_CONFIG comes only by name.
func tensorFlow(t *testing.T) kubelet.Image {
	t.Helper()
	image := cached("tensorflow")(t)
	image.Env = append(image.Env, "MPIUP_ENV=tf")
	return image
}

// deepSpeed is the same with what DeepSpeed compiles for CPUs, which the image's user owns as in its Dockerfile. There it was
// compiled where it runs; here it was elsewhere, so a ninja that does nothing stands for one that finds nothing to do.
func deepSpeed(t *testing.T) kubelet.Image {
	t.Helper()
	image := cached("torch")(t)
	dir, err := os.MkdirTemp(built, "extensions-")
	must(t, err)
	must(t, os.CopyFS(dir, os.DirFS(filepath.Join(frameworksCache(), "torch", "extensions"))))
	must(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Chown(path, 1000, 1000))
	}))
	ninja := filepath.Join(dir, "ninja")
	must(t, os.WriteFile(ninja, []byte("#!/bin/sh\n[ \"$1\" != --version ] || echo 1.13.2\n"), 0o755))
	image.Env = []string{"TORCH_EXTENSIONS_DIR=/opt/extensions", strings.Replace(image.Env[0], "PATH=", "PATH=/opt/tools:", 1)}
	return with(image, map[string]string{"/opt/extensions": dir, "/opt/tools/ninja": ninja})
}

// environment is an image with a Python environment where our Dockerfiles have theirs.
func environment(dir string) kubelet.Image {
	return kubelet.Image{Files: map[string]string{"/opt/venv": dir}, Env: []string{"PATH=/opt/venv/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}}
}

// trains is the image of an example that trains, under the name that its manifests have.
func trains(t *testing.T, example string, python kubelet.Image) map[string]kubelet.Image {
	t.Helper()
	return trainsBy(t, example, example, filepath.Join("examples", example, "train.py"), python)
}

// trainsBy is the same with a script of the repository's; name is another one for each.
func trainsBy(t *testing.T, name, example, source string, python kubelet.Image) map[string]kubelet.Image {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../..", source))
	must(t, err)
	script := filepath.Join(built, name+".py")
	must(t, os.WriteFile(script, text, 0o644))
	python.User = 1000
	return map[string]kubelet.Image{"registry.example.com/" + example + ":1": with(python, map[string]string{"/usr/local/bin/mpiup": bin(t), "/opt/train.py": script})}
}

var learned = regexp.MustCompile(`(?m)^rank (\d+) of (\d+): loss ([\d.]+) to ([\d.]+), weights equal rank 0's: True$`)

// learn fails the test unless each of size ranks says that its loss fell and that its weights are rank 0's.
func learn(t *testing.T, output string, size int) {
	t.Helper()
	seen := map[string]bool{}
	for _, m := range learned.FindAllStringSubmatch(output, -1) {
		first, _ := strconv.ParseFloat(m[3], 64)
		last, _ := strconv.ParseFloat(m[4], 64)
		if m[2] != strconv.Itoa(size) || last >= first/4 {
			t.Errorf("of %d ranks one says %q", size, m[0])
		}
		seen[m[1]] = true
	}
	if len(seen) != size {
		t.Errorf("%d of %d ranks trained:\n%s", len(seen), size, output)
	}
}

// each fails the test unless both workers' agents say that they started that many ranks, as the image's user.
func (l *lab) each(ranks int, workers ...string) {
	l.t.Helper()
	for _, w := range workers {
		l.started(w, ranks, ranks*len(workers))
	}
}

// started fails the test unless a worker's agent says that it started that many of the ranks, as the image's user.
func (l *lab) started(worker string, ranks, of int) {
	l.t.Helper()
	want := fmt.Sprintf(`processes=%d of=%d command="python3 /opt/train.py" uid=1000`, ranks, of)
	if !strings.Contains(l.Output(worker), want) {
		l.t.Errorf("%s does not say %q:\n%s", worker, want, l.Output(worker))
	}
}

// The examples' MPIJobs train their models through MPI Operator's own code, as a user without a name, without root.
func TestMPIJobsTrain(t *testing.T) {
	t.Parallel()
	for _, tt := range trainings {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			as := cmp.Or(tt.as, tt.name)
			l := up(t, setting{images: trainsBy(t, tt.name, as, cmp.Or(tt.script, filepath.Join("examples", as, "train.py")), tt.python(t))})
			l.submit(decode[kubeflow.MPIJob](t, example(t, as+"/mpijob.yaml")[0]))
			learn(t, l.succeeded(as), 2*tt.ranks)
			l.each(tt.ranks, as+"-worker-0", as+"-worker-1")
			for _, p := range l.pods("") {
				restricted(t, &p)
			}
		})
	}
}

// steps are a Dockerfile's lines that do something.
func steps(text string) (out []string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			out = append(out, line)
		}
	}
	return out
}

// digest is that of a base image, which a page leaves out.
var digest = regexp.MustCompile(`@sha256:[0-9a-f]{64}`)

// docs/guide.md: MPI Operator makes pods of the page's manifest, and its script trains in them. Its Dockerfile is
// torch-ddp's; the image has what that copies into it, and Debian's torch in place of PyPI's.
func TestGuide(t *testing.T) {
	t.Parallel()
	blocks, err := guide.Read("../../../docs/guide.md")
	must(t, err)
	script, err := guide.Of(blocks, "python", "train.py")
	must(t, err)
	dockerfile, err := guide.Of(blocks, "dockerfile", "")
	must(t, err)
	manifest, err := guide.Of(blocks, "yaml", "")
	must(t, err)
	ours, err := os.ReadFile("../../../examples/torch-ddp/Dockerfile")
	must(t, err)
	if got, want := steps(dockerfile.Text), steps(digest.ReplaceAllString(string(ours), "")); !slices.Equal(got, want) {
		t.Errorf("the page's Dockerfile has %q, and that of torch-ddp, which was tried, %q", got, want)
	}
	path := filepath.Join(built, "guide.py")
	must(t, os.WriteFile(path, []byte(script.Text), 0o644))
	image := debiansTorch(t)
	image.User = 1000
	l := up(t, setting{images: map[string]kubelet.Image{"registry.example.com/train:1": with(image, map[string]string{"/usr/local/bin/mpiup": bin(t), "/opt/train.py": path})}})
	l.submit(decode[kubeflow.MPIJob](t, []byte(manifest.Text)))
	learn(t, l.succeeded("train"), 4)
	l.each(2, "train-worker-0", "train-worker-1")
}

// The examples' TrainJobs, through Trainer's own code and JobSet's, by runtimes of the cluster's and of a namespace's.
func TestTrainJobsTrain(t *testing.T) {
	t.Parallel()
	for _, tt := range trainings {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			as := cmp.Or(tt.as, tt.name)
			l := up(t, setting{jobSets: true, images: trainsBy(t, tt.name, as, cmp.Or(tt.script, filepath.Join("examples", as, "train.py")), tt.python(t))})
			docs := example(t, as+"/trainer.yaml")
			j := decode[trainer.TrainJob](t, docs[1])
			j.Namespace = ns
			l.submitted(runtimeOf(t, docs[0], *j.Spec.RuntimeRef.Kind), j)
			l.trained(j)
			learn(t, l.Output(as+"-launcher-0-0"), 2*tt.ranks)
			l.started(as+"-node-0-0", tt.ranks, 2*tt.ranks) // the others are children of the launcher
		})
	}
}

// runtimeOf is a runtime of either kind.
func runtimeOf(t *testing.T, text []byte, kind string) client.Object {
	t.Helper()
	if kind == trainer.ClusterTrainingRuntimeKind {
		return decode[trainer.ClusterTrainingRuntime](t, text)
	}
	r := decode[trainer.TrainingRuntime](t, text)
	r.Namespace = ns
	return r
}
