package contract

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	kubeflow "github.com/kubeflow/mpi-operator/pkg/apis/kubeflow/v2beta1"
	"sigs.k8s.io/yaml"
)

// upstream reads a file of a required module from Go's module cache.
func upstream(t *testing.T, module, path string) []byte {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	must(t, err)
	text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(out)), path))
	must(t, err)
	return text
}

// documents are the objects of a file, strictly decoded by their users.
func documents(text []byte) (docs [][]byte) {
	for _, d := range bytes.Split(append([]byte("\n"), text...), []byte("\n---")) {
		if len(bytes.TrimSpace(d)) > 0 {
			docs = append(docs, d)
		}
	}
	return docs
}

// example is an example of ours.
func example(t *testing.T, name string) [][]byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../../examples", name))
	must(t, err)
	return documents(text)
}

// decode reads a manifest into its type, in which every field must be known.
func decode[T any](t *testing.T, text []byte) *T {
	t.Helper()
	into := new(T)
	if err := yaml.UnmarshalStrict(text, into); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return into
}

const mpiOperator = "github.com/kubeflow/mpi-operator"

// pi is one of upstream's examples with other images and nothing else changed.
func pi(t *testing.T, file, image string) *kubeflow.MPIJob {
	t.Helper()
	j := decode[kubeflow.MPIJob](t, upstream(t, mpiOperator, "examples/v2beta1/pi/"+file))
	for _, r := range j.Spec.MPIReplicaSpecs {
		r.Template.Spec.Containers[0].Image = image
	}
	return j
}
