package contract

import (
	"context"
	"encoding/json"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	trainer "github.com/kubeflow/trainer/v2/pkg/apis/trainer/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/mpiup/mpiup/test/need"
)

var update = flag.Bool("update", false, "write testdata/submitted.yaml anew")

// submitted is what examples/torch-ddp/submit.py creates by Kubeflow's SDK, as the SDK once made it.
const submitted = "testdata/submitted.yaml"

// head is at the top of that file.
const head = "# The TrainJob that examples/torch-ddp/submit.py creates with kubeflow 0.5.0. Made by: test/frameworks.sh kubeflow &&\n" +
	"# cd test/kube && go test ./contract -run SDK -update\n"

// The SDK's TrainJob trains: as it was recorded, and as submit.py creates it, where the SDK is installed. That one waits for
// the job's end and shows the launcher's log.
func TestTheSDKsTrainJob(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(submitted)
	must(t, err)
	t.Run("recorded", func(t *testing.T) {
		t.Parallel()
		l := up(t, setting{jobSets: true, images: trains(t, "torch-ddp", debiansTorch(t))})
		l.submitted(decode[trainer.ClusterTrainingRuntime](t, example(t, "torch-ddp/trainer.yaml")[0]))
		j := asCreated(decode[trainer.TrainJob](t, text))
		l.submitted(j)
		l.trained(j)
		learn(t, l.Output("torch-ddp-launcher-0-0"), 4)
	})
	t.Run("by the SDK", func(t *testing.T) {
		t.Parallel()
		dir := filepath.Join(frameworksCache(), "kubeflow")
		need.File(t, "kubeflow", filepath.Join(dir, "built-with"), "run test/frameworks.sh kubeflow")
		l := up(t, setting{jobSets: true, images: trains(t, "torch-ddp", debiansTorch(t))})
		l.submitted(decode[trainer.ClusterTrainingRuntime](t, example(t, "torch-ddp/trainer.yaml")[0]))
		s := &apiServer{lab: l}
		served := httptest.NewServer(s)
		out := l.submits(filepath.Join(dir, "bin", "python"), served.URL, "submit.py")
		served.Close()
		if !strings.Contains(out, "the TrainJob is Complete") {
			t.Errorf("submit.py says\n%s", out)
		}
		learn(t, out, 4)
		got, err := yaml.JSONToYAML(s.posted)
		must(t, err)
		if *update {
			must(t, os.WriteFile(submitted, append([]byte(head), got...), 0o644))
		} else if string(text) != head+string(got) {
			t.Errorf("the SDK makes\n%s%s\nand recorded is\n%s", head, got, text)
		}
	})
}

// A function that the SDK is given becomes a program of mpirun's, whose ranks get torch's variables by MPIUP_ENV, or of
// torchrun's in each pod, by Trainer's own runtime for torch. Both are mpiup.
func TestTheSDKsFunction(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(frameworksCache(), "kubeflow")
	need.File(t, "kubeflow", filepath.Join(dir, "built-with"), "run test/frameworks.sh kubeflow")
	mpi := decode[trainer.ClusterTrainingRuntime](t, example(t, "torch-ddp/trainer.yaml")[0])
	one := int32(1)
	mpi.Spec.MLPolicy.MPI.NumProcPerNode = &one
	for _, c := range []struct {
		name    string
		runtime *trainer.ClusterTrainingRuntime
		ranks   int
	}{{"mpirun", mpi, 2}, {"torchrun", decode[trainer.ClusterTrainingRuntime](t, []byte(torchRuntime)), 4}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			images := trains(t, "torch-ddp", with(debiansTorch(t), map[string]string{"/usr/local/bin/" + c.name: bin(t), "/usr/local/bin/python": "/usr/bin/python3"}))
			l := up(t, setting{jobSets: true, images: images})
			l.submitted(c.runtime)
			s := &apiServer{lab: l}
			served := httptest.NewServer(s)
			defer served.Close()
			out := l.submits(filepath.Join(dir, "bin", "python"), served.URL, "function.py", c.runtime.Name)
			if !strings.Contains(out, "the TrainJob is Complete") {
				t.Errorf("function.py says\n%s", out)
			}
			if c.name == "torchrun" { // the SDK shows the first pod's log
				out = l.Output("torch-ddp-node-0-0") + l.Output("torch-ddp-node-0-1")
			}
			learn(t, out, c.ranks)
		})
	}
}

// torchRuntime is as Trainer's own torch-distributed, but for the image, its user, a directory to write to, and CPUs, of which each
// is a rank's where there is no GPU.
const torchRuntime = `
apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata:
  name: torch-distributed
  labels:
    trainer.kubeflow.org/framework: torch
spec:
  mlPolicy:
    numNodes: 1
    torch: {}
  template:
    spec:
      replicatedJobs:
      - name: node
        template:
          metadata:
            labels:
              trainer.kubeflow.org/trainjob-ancestor-step: trainer
          spec:
            template:
              spec:
                securityContext: {runAsNonRoot: true, runAsUser: 1000}
                containers:
                - name: node
                  image: registry.example.com/torch-ddp:1
                  workingDir: /tmp
                  resources: {limits: {cpu: "2"}}
`

// asCreated is a TrainJob with what the API server adds when it is created.
func asCreated(j *trainer.TrainJob) *trainer.TrainJob {
	group := trainer.GroupVersion.Group // a default of the definition's
	j.Namespace, j.CreationTimestamp, j.Spec.RuntimeRef.APIGroup = ns, metav1.Now(), &group
	return j
}

// submits runs a script of torch-ddp's as a user who has a cluster in their kubeconfig, and gives what it says.
func (l *lab) submits(python, server, script string, args ...string) string {
	l.t.Helper()
	config := filepath.Join(l.t.TempDir(), "config")
	must(l.t, os.WriteFile(config, []byte(`{apiVersion: v1, kind: Config, current-context: here,
clusters: [{name: here, cluster: {server: "`+server+`"}}], users: [{name: me, user: {}}],
contexts: [{name: here, context: {cluster: here, user: me, namespace: `+ns+`}}]}`), 0o600))
	ctx, cancel := context.WithTimeout(l.t.Context(), bound)
	defer cancel()
	cmd := exec.CommandContext(ctx, python, append([]string{"../../../examples/torch-ddp/" + script}, args...)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+config, "NO_PROXY=127.0.0.1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		l.t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return string(out)
}

// apiServer is as much of the Kubernetes API as submit.py asks for.
type apiServer struct {
	*lab
	posted []byte // the TrainJob as it came; read once the server is closed
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer, err := s.answer(r)
	if text, ok := answer.([]byte); ok && err == nil {
		_, _ = w.Write(text)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	switch {
	case apierrors.IsNotFound(err):
		w.WriteHeader(http.StatusNotFound)
	case err != nil:
		w.WriteHeader(http.StatusInternalServerError)
	}
	if err != nil {
		answer = metav1.Status{Status: metav1.StatusFailure, Message: err.Error()}
	}
	_ = json.NewEncoder(w).Encode(answer)
}

func (s *apiServer) answer(r *http.Request) (any, error) {
	const trainers, core = "/apis/trainer.kubeflow.org/v1alpha1/", "/api/v1/namespaces/" + ns + "/pods"
	ctx, path, name := r.Context(), r.URL.Path, filepath.Base(r.URL.Path)
	switch {
	case r.Method == http.MethodPost && path == trainers+"namespaces/"+ns+"/trainjobs":
		text, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		s.posted = text
		j := new(trainer.TrainJob)
		if err := yaml.UnmarshalStrict(text, j); err != nil {
			return nil, err
		}
		return asCreated(j), s.jobSets.Submit(ctx, j)
	case strings.HasPrefix(path, trainers+"clustertrainingruntimes/"):
		o := new(trainer.ClusterTrainingRuntime)
		err := s.jobSets.Client.Get(ctx, client.ObjectKey{Name: name}, o)
		o.Kind = trainer.ClusterTrainingRuntimeKind // which the store leaves out
		return o, err
	case strings.HasPrefix(path, trainers+"namespaces/"+ns+"/trainjobs/"):
		o := new(trainer.TrainJob)
		return o, s.jobSets.Client.Get(ctx, client.ObjectKey{Namespace: ns, Name: name}, o)
	case path == core:
		list, err := s.api.Kube.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{LabelSelector: r.URL.Query().Get("labelSelector")})
		if err == nil && list.Items == nil {
			list.Items = []corev1.Pod{} // the API server has no null there
		}
		return list, err
	case strings.HasPrefix(path, core+"/") && name == "log":
		return []byte(s.Output(filepath.Base(filepath.Dir(path)))), nil
	}
	return nil, apierrors.NewNotFound(trainer.Resource("object"), path) // a runtime of the namespace, and the ConfigMap with Trainer's version
}
