package contract

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	kubeflow "github.com/kubeflow/mpi-operator/pkg/apis/kubeflow/v2beta1"
	mpivalidation "github.com/kubeflow/mpi-operator/pkg/apis/kubeflow/validation"
	mpischeme "github.com/kubeflow/mpi-operator/pkg/client/clientset/versioned/scheme"
	trainer "github.com/kubeflow/trainer/v2/pkg/apis/trainer/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	lws "sigs.k8s.io/lws/api/leaderworkerset/v1"
	"sigs.k8s.io/yaml"
	volcano "volcano.sh/apis/pkg/apis/batch/v1alpha1"
)

// kinds are the objects that our examples have: how each is read strictly, and the module and file
// with its schema, where it is a custom resource whose schema a module has (volcano.sh/apis has none). A module with a
// version is one that nothing here imports.
var kinds = map[string]struct {
	read         func(*testing.T, []byte)
	module, file string
}{
	"batch/v1/Job": {read: reads[batchv1.Job]},
	"v1/Service":   {read: reads[corev1.Service]},
	"rbac.authorization.k8s.io/v1/ClusterRole":        {read: reads[rbacv1.ClusterRole]},
	"rbac.authorization.k8s.io/v1/ClusterRoleBinding": {read: reads[rbacv1.ClusterRoleBinding]},
	"apps/v1/StatefulSet":                             {read: reads[appsv1.StatefulSet]},
	"networking.k8s.io/v1/NetworkPolicy":              {read: reads[networkingv1.NetworkPolicy]},
	"kubeflow.org/v2beta1/MPIJob":                     {reads[kubeflow.MPIJob], mpiOperator, "manifests/base/kubeflow.org_mpijobs.yaml"},
	"jobset.x-k8s.io/v1alpha2/JobSet":                 {reads[jobset.JobSet], "sigs.k8s.io/jobset", "config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml"},
	"leaderworkerset.x-k8s.io/v1/LeaderWorkerSet": {reads[lws.LeaderWorkerSet], "sigs.k8s.io/lws",
		"config/crd/bases/leaderworkerset.x-k8s.io_leaderworkersets.yaml"},
	"trainer.kubeflow.org/v1alpha1/ClusterTrainingRuntime": {reads[trainer.ClusterTrainingRuntime], "github.com/kubeflow/trainer/v2",
		"manifests/base/crds/trainer.kubeflow.org_clustertrainingruntimes.yaml"},
	"trainer.kubeflow.org/v1alpha1/TrainingRuntime": {reads[trainer.TrainingRuntime], "github.com/kubeflow/trainer/v2",
		"manifests/base/crds/trainer.kubeflow.org_trainingruntimes.yaml"},
	"trainer.kubeflow.org/v1alpha1/TrainJob": {reads[trainer.TrainJob], "github.com/kubeflow/trainer/v2",
		"manifests/base/crds/trainer.kubeflow.org_trainjobs.yaml"},
	"batch.volcano.sh/v1alpha1/Job": {read: reads[volcano.Job]},
	"k8s.cni.cncf.io/v1beta1/MultiNetworkPolicy": {reads[multiNetworkPolicy],
		"github.com/k8snetworkplumbingwg/multi-networkpolicy@v1.0.1", "scheme.yml"},
	"monitoring.coreos.com/v1/PodMonitor": {reads[podMonitor],
		"github.com/prometheus-operator/prometheus-operator@v0.85.0", "example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml"},
	"monitoring.coreos.com/v1/PrometheusRule": {reads[podMonitor],
		"github.com/prometheus-operator/prometheus-operator@v0.85.0", "example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml"},
}

// podMonitor is one, or a PrometheusRule, as far as any object is; the schema has the rest.
type podMonitor struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              map[string]any `json:"spec"`
}

// multiNetworkPolicy is a NetworkPolicy of another group, as its API says of itself; endPort is there since v1.0.1.
type multiNetworkPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              networkingv1.NetworkPolicySpec `json:"spec"`
}

func reads[T any](t *testing.T, text []byte) { t.Helper(); decode[T](t, text) }

// Every object of every example has only fields that its type knows, and is what the schema of its
// custom resource allows.
func TestExamplesAreValid(t *testing.T) {
	for _, file := range append(examples(t, "*.yaml"), examples(t, "*/*.yaml")...) {
		t.Run(file, func(t *testing.T) {
			for _, doc := range example(t, file) {
				var head metav1.TypeMeta
				must(t, yaml.Unmarshal(doc, &head))
				kind, ok := kinds[head.APIVersion+"/"+head.Kind]
				if !ok {
					t.Errorf("nobody reads %s/%s", head.APIVersion, head.Kind)
					continue
				}
				kind.read(t, doc)
				if kind.module != "" {
					schema := upstream
					if strings.Contains(kind.module, "@") {
						schema = downloaded
					}
					for _, e := range invalid(t, schema(t, kind.module, kind.file), doc) {
						t.Errorf("%s: %s", head.Kind, e)
					}
				}
			}
		})
	}
}

// examples are the files of examples/ that match, as paths below it.
func examples(t *testing.T, pattern string) []string {
	t.Helper()
	const root = "../../../examples/"
	files, err := filepath.Glob(root + pattern)
	must(t, err)
	if len(files) < 3 {
		t.Fatalf("examples that match %s: %v", pattern, files)
	}
	for i := range files {
		files[i] = strings.TrimPrefix(files[i], root)
	}
	// Prometheus' own files are no objects; test/monitoring has promtool read them.
	return slices.DeleteFunc(files, func(f string) bool { return strings.HasPrefix(f, "monitoring/alerts") })
}

// invalid says what the schema of a custom resource has against an object. The validator is the
// API server's (k8s.io/apiextensions-apiserver wraps it).
func invalid(t *testing.T, crd, object []byte) (complaints []string) {
	t.Helper()
	var definition struct {
		Spec struct {
			Group    string
			Versions []struct {
				Name   string
				Schema struct{ OpenAPIV3Schema spec.Schema }
			}
		}
	}
	must(t, yaml.Unmarshal(crd, &definition))
	text, err := yaml.YAMLToJSON(object)
	must(t, err)
	var value map[string]any
	must(t, utiljson.Unmarshal(text, &value)) // with integers, as the API server has them
	for _, v := range definition.Spec.Versions {
		if value["apiVersion"] != definition.Spec.Group+"/"+v.Name {
			continue
		}
		for _, e := range validate.NewSchemaValidator(&v.Schema.OpenAPIV3Schema, nil, "", strfmt.Default).Validate(value).Errors {
			complaints = append(complaints, e.Error())
		}
		return complaints
	}
	return []string{"the definition has no version of it"}
}

// The check sees a field of the wrong type and one that is missing.
func TestInvalidIsSeen(t *testing.T) {
	crd := upstream(t, mpiOperator, "manifests/base/kubeflow.org_mpijobs.yaml")
	for name, spec := range map[string]string{
		"slotsPerWorker":  "{slotsPerWorker: many, mpiReplicaSpecs: {}}",
		"mpiReplicaSpecs": "{slotsPerWorker: 2}",
	} {
		object := []byte("{apiVersion: kubeflow.org/v2beta1, kind: MPIJob, metadata: {name: x}, spec: " + spec + "}")
		if got := strings.Join(invalid(t, crd, object), "; "); !strings.Contains(got, name) {
			t.Errorf("nothing is said of %s: %q", name, got)
		}
	}
}

// MPI Operator's own validation has nothing against our MPIJobs.
func TestMPIJobsPassTheOperatorsValidation(t *testing.T) {
	for _, file := range append(examples(t, "mpijob*.yaml"), examples(t, "*/mpijob.yaml")...) {
		j := decode[kubeflow.MPIJob](t, example(t, file)[0])
		mpischeme.Scheme.Default(j)
		if errs := mpivalidation.ValidateMPIJob(j); len(errs) > 0 {
			t.Errorf("%s: %v", file, errs.ToAggregate())
		}
	}
}
