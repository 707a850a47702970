package contract

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	kubeflow "github.com/kubeflow/mpi-operator/pkg/apis/kubeflow/v2beta1"
	mpivalidation "github.com/kubeflow/mpi-operator/pkg/apis/kubeflow/validation"
	mpischeme "github.com/kubeflow/mpi-operator/pkg/client/clientset/versioned/scheme"
	trainer "github.com/kubeflow/trainer/v2/pkg/apis/trainer/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// chart is what the Helm chart makes, plain and hardened, as test/release/chart.sh keeps it.
func chart(t *testing.T, kind string) map[string][]byte {
	t.Helper()
	made := map[string][]byte{"plain": example(t, "kustomize/"+kind+"/"+kind+".yaml")[0]}
	text, err := os.ReadFile("testdata/chart/hardened-" + kind + ".yaml")
	must(t, err)
	made["hardened"] = text
	return made
}

// charted is what the chart makes of each file of values in examples/helm/mpiup/ci, as test/release/chart.sh keeps it.
func charted(t *testing.T) map[string][][]byte {
	t.Helper()
	values, err := filepath.Glob("../../../examples/helm/mpiup/ci/*-values.yaml")
	must(t, err)
	if len(values) < 6 {
		t.Fatalf("files of values: %v", values)
	}
	made := map[string][][]byte{}
	for _, file := range values {
		name := strings.TrimSuffix(filepath.Base(file), "-values.yaml")
		text, err := os.ReadFile("testdata/chart/" + name + ".yaml")
		must(t, err)
		made[name] = documents(text)
	}
	return made
}

// What the chart makes of each file of values has only fields that its type knows, and is what the operators' schemas and validation allow.
func TestChartWithValues(t *testing.T) {
	for name, docs := range charted(t) {
		if len(docs) == 0 {
			t.Errorf("%s makes nothing", name)
		}
		for _, doc := range docs {
			var head metav1.TypeMeta
			must(t, yaml.Unmarshal(doc, &head))
			kind, ok := kinds[head.APIVersion+"/"+head.Kind]
			if !ok {
				t.Errorf("%s: nobody reads %s/%s", name, head.APIVersion, head.Kind)
				continue
			}
			kind.read(t, doc)
			if kind.module != "" {
				for _, e := range invalid(t, upstream(t, kind.module, kind.file), doc) {
					t.Errorf("%s: %s: %s", name, head.Kind, e)
				}
			}
			if head.Kind == "MPIJob" {
				j := decode[kubeflow.MPIJob](t, doc)
				mpischeme.Scheme.Default(j)
				if errs := mpivalidation.ValidateMPIJob(j); len(errs) > 0 {
					t.Errorf("%s: %v", name, errs.ToAggregate())
				}
				if name == "gpu" && *j.Spec.RunPolicy.BackoffLimit != 0 { // 0 is a value, too
					t.Errorf("%s: backoffLimit %d", name, *j.Spec.RunPolicy.BackoffLimit)
				}
			}
		}
	}
}

// denies reports whether a container is an agent that starts ranks and nothing else.
func denies(c corev1.Container) bool {
	return slices.Equal(c.Command, []string{"mpiup", "agent", "--deny", "exec,shell"})
}

// The chart's objects are what their operators allow, their pods are "restricted", and hardened ones' agents start ranks only.
func TestChart(t *testing.T) {
	for way, text := range chart(t, "runtime") {
		kind := kinds["trainer.kubeflow.org/v1alpha1/ClusterTrainingRuntime"]
		for _, e := range invalid(t, upstream(t, kind.module, kind.file), text) {
			t.Errorf("%s runtime: %s", way, e)
		}
		for _, j := range decode[trainer.ClusterTrainingRuntime](t, text).Spec.Template.Spec.ReplicatedJobs {
			pod := j.Template.Spec.Template
			restricted(t, &corev1.Pod{ObjectMeta: pod.ObjectMeta, Spec: pod.Spec})
			if got := denies(pod.Spec.Containers[0]); j.Name == "node" && got != (way == "hardened") {
				t.Errorf("%s runtime: its nodes deny exec and shell: %v", way, got)
			}
		}
	}
	for way, text := range chart(t, "mpijob") {
		kind := kinds["kubeflow.org/v2beta1/MPIJob"]
		for _, e := range invalid(t, upstream(t, kind.module, kind.file), text) {
			t.Errorf("%s MPIJob: %s", way, e)
		}
		j := decode[kubeflow.MPIJob](t, text)
		mpischeme.Scheme.Default(j)
		if errs := mpivalidation.ValidateMPIJob(j); len(errs) > 0 {
			t.Errorf("%s MPIJob: %v", way, errs.ToAggregate())
		}
		for _, r := range j.Spec.MPIReplicaSpecs {
			restricted(t, &corev1.Pod{ObjectMeta: r.Template.ObjectMeta, Spec: r.Template.Spec})
		}
		if got := denies(j.Spec.MPIReplicaSpecs[kubeflow.MPIReplicaTypeWorker].Template.Spec.Containers[0]); got != (way == "hardened") {
			t.Errorf("%s MPIJob: its workers deny exec and shell: %v", way, got)
		}
	}
}

// The hardened objects run: ranks on both workers of the MPIJob, and on both nodes of a TrainJob that names the runtime.
func TestChartRuns(t *testing.T) {
	t.Parallel()
	l := up(t, setting{jobSets: true, images: exampleImages(t)})
	const image = "registry.example.com/pi:1"
	m := decode[kubeflow.MPIJob](t, chart(t, "mpijob")["hardened"])
	for _, r := range m.Spec.MPIReplicaSpecs {
		r.Template.Spec.Containers[0].Image = image
	}
	m.Name = "chart"
	l.submit(m)
	on(t, l.succeeded("chart"), "chart-worker-0", "chart-worker-0", "chart-worker-1", "chart-worker-1")

	r := decode[trainer.ClusterTrainingRuntime](t, chart(t, "runtime")["hardened"])
	for _, j := range r.Spec.Template.Spec.ReplicatedJobs {
		j.Template.Spec.Template.Spec.Containers[0].Image = image
	}
	j := decode[trainer.TrainJob](t, example(t, "trainer-runtime.yaml")[1])
	j.Namespace, j.Spec.RuntimeRef.Name = ns, r.Name
	l.submitted(r, j)
	l.trained(j)
	on(t, l.Output("pi-launcher-0-0"), "pi-launcher-0-0", "pi-launcher-0-0", "pi-node-0-0", "pi-node-0-0")
}
