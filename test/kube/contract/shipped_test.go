package contract

import (
	"maps"
	"slices"
	"strings"
	"testing"

	kubeflow "github.com/kubeflow/mpi-operator/pkg/apis/kubeflow/v2beta1"
	trainer "github.com/kubeflow/trainer/v2/pkg/apis/trainer/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	lws "sigs.k8s.io/lws/api/leaderworkerset/v1"
	"sigs.k8s.io/yaml"
	volcano "volcano.sh/apis/pkg/apis/batch/v1alpha1"

	"github.com/mpiup/mpiup/test/guide"
)

// shippedPod is a pod template of a manifest that we ship.
type shippedPod struct {
	// where names the manifest, and the pod in it.
	where string
	kind  string
	// object is the name of the object whose pod it is.
	object string
	// role is what the pod is for: one of the constants below.
	role string
	// labels are those that its controller adds, as far as monitors and policies select by them.
	labels map[string]string
	// restart is the policy that the pod gets, "" where the controller's default is left.
	restart  corev1.RestartPolicy
	metadata metav1.ObjectMeta
	spec     corev1.PodSpec
}

const (
	launches = "launcher" // mpiup run: its log has the verdict
	serves   = "worker"   // mpiup agent
	isBoth   = "both"     // mpiup up: one command in every pod of a Job
	stays    = "server"   // its controller allows no policy but Always
)

// first is the container in which mpiup runs.
func (p *shippedPod) first() *corev1.Container { return &p.spec.Containers[0] }

// shippedFiles are all manifests that we ship, by name: the examples, what the chart and kustomize make, and the guide's.
func shippedFiles(t *testing.T) map[string][][]byte {
	t.Helper()
	files := map[string][][]byte{}
	for _, file := range append(examples(t, "*.yaml"), examples(t, "*/*.yaml")...) {
		files[file] = example(t, file)
	}
	for _, file := range []string{"kustomize/mpijob/mpijob.yaml", "kustomize/runtime/runtime.yaml"} {
		files[file] = example(t, file)
	}
	for _, kind := range []string{"mpijob", "runtime"} {
		files["the hardened chart's "+kind] = [][]byte{chart(t, kind)["hardened"]}
	}
	for name, docs := range charted(t) {
		files["the chart with "+name] = docs
	}

	page := "../../../docs/guide.md"
	blocks, err := guide.Read(page)
	must(t, err)
	manifest, err := guide.Of(blocks, "yaml", "")
	must(t, err)
	files["docs/guide.md"] = [][]byte{[]byte(manifest.Text)}
	return files
}

// shipped are the pods of all manifests that we ship.
func shipped(t *testing.T) (pods []shippedPod) {
	t.Helper()
	files := shippedFiles(t)
	for _, file := range slices.Sorted(maps.Keys(files)) {
		for _, doc := range files[file] {
			pods = append(pods, podsOf(t, file, doc)...)
		}
	}
	if len(pods) < 40 {
		t.Fatalf("only %d pods are shipped", len(pods))
	}
	return pods
}

// podsOf are the pods of an object.
func podsOf(t *testing.T, file string, doc []byte) (pods []shippedPod) {
	t.Helper()
	var head metav1.TypeMeta
	must(t, yaml.Unmarshal(doc, &head))
	add := func(object, name, role string, template corev1.PodTemplateSpec, labels map[string]string) *shippedPod {
		pods = append(pods, shippedPod{where: file + ": " + head.Kind + " " + object + ", " + name, kind: head.Kind, object: object, role: role,
			labels: labels, restart: template.Spec.RestartPolicy, metadata: template.ObjectMeta, spec: template.Spec})
		return &pods[len(pods)-1]
	}

	switch head.Kind {
	case "MPIJob":
		j := decode[kubeflow.MPIJob](t, doc)
		for name, role := range map[kubeflow.MPIReplicaType]string{kubeflow.MPIReplicaTypeLauncher: launches, kubeflow.MPIReplicaTypeWorker: serves} {
			labels := map[string]string{kubeflow.JobNameLabel: j.Name, kubeflow.JobRoleLabel: strings.ToLower(string(name))}
			if role == launches {
				labels[batchv1.JobNameLabel] = j.Name + "-launcher"
			}
			p := add(j.Name, string(name), role, j.Spec.MPIReplicaSpecs[name].Template, labels)
			p.restart = corev1.RestartPolicy(j.Spec.MPIReplicaSpecs[name].RestartPolicy)
		}
	case "ClusterTrainingRuntime", "TrainingRuntime":
		r := decode[trainer.TrainingRuntime](t, doc)
		jobs := r.Spec.Template.Spec.ReplicatedJobs
		for _, j := range jobs {
			role := map[string]string{"launcher": launches, "node": serves}[j.Name]
			if len(jobs) == 1 {
				role = isBoth
			}
			add(r.Name, j.Name, role, j.Template.Spec.Template, map[string]string{jobset.JobSetNameKey: r.Name, jobset.ReplicatedJobNameKey: j.Name,
				batchv1.JobNameLabel: r.Name + "-" + j.Name + "-0"})
		}
	case "JobSet":
		s := decode[jobset.JobSet](t, doc)
		for _, j := range s.Spec.ReplicatedJobs {
			add(s.Name, j.Name, isBoth, j.Template.Spec.Template, map[string]string{jobset.JobSetNameKey: s.Name, jobset.ReplicatedJobNameKey: j.Name,
				batchv1.JobNameLabel: s.Name + "-" + j.Name + "-0"})
		}
	case "Job":
		if strings.HasPrefix(head.APIVersion, "batch.volcano.sh/") {
			j := decode[volcano.Job](t, doc)
			for _, task := range j.Spec.Tasks {
				add(j.Name, task.Name, map[string]string{"master": launches, "worker": serves}[task.Name], task.Template,
					map[string]string{volcano.JobNameKey: j.Name, volcano.TaskSpecKey: task.Name})
			}
			break
		}
		j := decode[batchv1.Job](t, doc)
		role := launches
		if slices.Contains(j.Spec.Template.Spec.Containers[0].Command, "up") {
			role = isBoth
		}
		add(j.Name, "pod", role, j.Spec.Template, map[string]string{batchv1.JobNameLabel: j.Name})
	case "StatefulSet":
		s := decode[appsv1.StatefulSet](t, doc)
		add(s.Name, "pod", stays, s.Spec.Template, map[string]string{appsv1.StatefulSetPodNameLabel: s.Name + "-0"})
	case "LeaderWorkerSet":
		s := decode[lws.LeaderWorkerSet](t, doc)
		add(s.Name, "pod", stays, s.Spec.LeaderWorkerTemplate.WorkerTemplate, map[string]string{lws.SetNameLabelKey: s.Name, appsv1.StatefulSetPodNameLabel: s.Name + "-0"})
	case "Service", "NetworkPolicy", "MultiNetworkPolicy", "PodMonitor", "PrometheusRule", "TrainJob", "ClusterRole", "ClusterRoleBinding", "":
	default:
		t.Errorf("%s: nobody knows the pods of a %s", file, head.Kind)
	}
	return pods
}

// The log of a launcher and its termination message are there after the last failure: with any policy but Never the Job controller
// deletes the pod whose container would start again, as its back-off limit is reached. Workers start again in their pods.
func TestVerdictsOutliveTheLastFailure(t *testing.T) {
	want := map[string]corev1.RestartPolicy{launches: corev1.RestartPolicyNever, isBoth: corev1.RestartPolicyNever, serves: corev1.RestartPolicyOnFailure}
	seen := map[string]int{}
	for _, p := range shipped(t) {
		seen[p.role]++
		if p.restart != want[p.role] {
			t.Errorf("%s, a %s, has restartPolicy %q, not %q", p.where, p.role, p.restart, want[p.role])
		}
	}
	for _, role := range []string{launches, serves, isBoth, stays} {
		if seen[role] == 0 {
			t.Errorf("no pod of a %s is looked at", role)
		}
	}
}

// A Job of mpiup up fails with all its pods. Its limit is reached by the last of them, not by the first, which would have the others deleted
// as they end.
func TestBackoffCountsWholeAttempts(t *testing.T) {
	seen := 0
	check := func(where string, s batchv1.JobSpec) {
		if s.Template.Spec.RestartPolicy != corev1.RestartPolicyNever || s.Completions == nil || *s.Completions == 1 {
			return
		}
		seen++
		if failures := *s.BackoffLimit + 1; failures%*s.Completions != 0 {
			t.Errorf("%s: backoffLimit %d ends an attempt of %d pods in its midst", where, *s.BackoffLimit, *s.Completions)
		}
	}
	for _, doc := range example(t, "indexed-job.yaml")[1:] {
		check("indexed-job.yaml", decode[batchv1.Job](t, doc).Spec)
	}
	for _, j := range decode[jobset.JobSet](t, example(t, "jobset.yaml")[0]).Spec.ReplicatedJobs {
		check("jobset.yaml", j.Template.Spec)
	}
	if seen != 2 {
		t.Errorf("%d Jobs are looked at, not 2", seen)
	}
}

// A ResourceQuota on requests and limits of CPU and memory takes only pods whose containers all have them (resourceQuota's evaluator,
// k8s.io/kubernetes pkg/quota/v1/evaluator/core/pods.go). Pods of a runtime get their TrainJob's.
func TestQuotasAreMet(t *testing.T) {
	for _, p := range shipped(t) {
		if p.kind == "ClusterTrainingRuntime" || p.kind == "TrainingRuntime" {
			continue
		}
		for _, c := range slices.Concat(p.spec.InitContainers, p.spec.Containers) {
			for what, list := range map[string]corev1.ResourceList{"request": c.Resources.Requests, "limit": c.Resources.Limits} {
				if list.Cpu().IsZero() || list.Memory().IsZero() {
					t.Errorf("%s: %s has no %s of cpu and memory", p.where, c.Name, what)
				}
			}
		}
	}

	jobs := 0
	for file, docs := range shippedFiles(t) {
		for _, doc := range docs {
			var head metav1.TypeMeta
			must(t, yaml.Unmarshal(doc, &head))
			if head.Kind != trainer.TrainJobKind {
				continue
			}
			jobs++
			r := decode[trainer.TrainJob](t, doc).Spec.Trainer.ResourcesPerNode
			if r == nil || r.Requests.Cpu().IsZero() || r.Requests.Memory().IsZero() || r.Limits.Cpu().IsZero() || r.Limits.Memory().IsZero() {
				t.Errorf("%s: its TrainJob has no requests and limits", file)
			}
		}
	}
	if jobs < 7 {
		t.Errorf("%d TrainJobs are looked at", jobs)
	}
}
