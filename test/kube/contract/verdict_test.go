package contract

import (
	"slices"
	"strings"
	"testing"

	kubeflow "github.com/kubeflow/mpi-operator/pkg/apis/kubeflow/v2beta1"
	trainer "github.com/kubeflow/trainer/v2/pkg/apis/trainer/v1alpha1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
)

// readable fails the test unless that many pods have failed and are there, each with the words in its log and its termination message.
func (l *lab) readable(pods int, words, selector string) {
	l.t.Helper()
	there := l.pods(selector)
	if len(there) != pods {
		l.t.Errorf("%d pods of %s are there after the last failure, want %d", len(there), selector, pods)
	}
	for _, p := range there {
		if p.Status.Phase != corev1.PodFailed || len(p.Status.ContainerStatuses) == 0 {
			l.t.Errorf("%s is %s", p.Name, p.Status.Phase)
			continue
		}
		if end := p.Status.ContainerStatuses[0].State.Terminated; end == nil || !strings.Contains(end.Message, words) {
			l.t.Errorf("%s has no termination message with %q: %+v", p.Name, words, end)
		}
		if out := l.Output(p.Name); !strings.Contains(out, words) {
			l.t.Errorf("%s has no log with %q:\n%s", p.Name, words, out)
		}
	}
}

// failing is a program of which one rank fails and says why; ranks of other pods may see its end first.
const failing = `[ $MPIUP_RANK = 0 ] || exec sleep 1000; echo oops >&2; exit 7`

// indexed-job.yaml: with two attempts less, all pods of both attempts are there when the Job has failed, and each says why.
func TestIndexedJobFailsReadably(t *testing.T) {
	t.Parallel()
	l := up(t, setting{images: running(t, failing)})
	l.keygen()
	docs := example(t, "indexed-job.yaml")
	l.service(docs[0])
	j := decode[batchv1.Job](t, docs[1])
	*j.Spec.BackoffLimit = 5
	_, err := l.api.Kube.BatchV1().Jobs(ns).Create(t.Context(), j, metav1.CreateOptions{})
	must(t, err)
	l.eventually("the Job has failed", func() bool { return condition(l.job("pi"), batchv1.JobFailed) })
	l.readable(6, "exited with code 7", batchv1.JobNameLabel+"=pi")
}

// jobset.yaml: JobSet deletes the pods of the attempts before, and those of the last are there.
func TestJobSetFailsReadably(t *testing.T) {
	t.Parallel()
	l := up(t, setting{jobSets: true, images: running(t, failing)})
	l.keygen()
	s := decode[jobset.JobSet](t, example(t, "jobset.yaml")[0])
	s.Namespace, s.Spec.FailurePolicy.MaxRestarts = ns, 1
	l.submitted(s)
	l.eventually("the JobSet has failed", func() bool {
		must(t, l.jobSets.Client.Get(t.Context(), client.ObjectKeyFromObject(s), s))
		return s.Status.TerminalState == string(jobset.JobSetFailed)
	})
	l.readable(3, "exited with code 7", jobset.JobSetNameKey+"=pi")
}

// A TrainJob's resources and variables reach all pods with ranks by each of our runtimes for MPI, through Trainer's own code; ranks have the
// variables.
func TestTrainJobsResourcesAndVariablesReachAllRanks(t *testing.T) {
	t.Parallel()
	runtimes := map[string][]byte{"chart": chart(t, "runtime")["hardened"], "kustomize": chart(t, "runtime")["plain"], "trainer-runtime": example(t, "trainer-runtime.yaml")[0]}
	for _, file := range examples(t, "*/trainer.yaml") {
		runtimes[strings.TrimSuffix(file, "/trainer.yaml")] = example(t, file)[0]
	}
	for name, text := range runtimes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := up(t, setting{jobSets: true, images: running(t, `echo rank $MPIUP_RANK has $MARK and $NCCL_DEBUG`)})
			r := decode[trainer.TrainingRuntime](t, text)
			for i := range r.Spec.Template.Spec.ReplicatedJobs {
				r.Spec.Template.Spec.ReplicatedJobs[i].Template.Spec.Template.Spec.Containers[0].Image = "registry.example.com/pi:1"
			}
			kind := trainer.TrainingRuntimeKind
			r.Kind, r.Namespace, r.Name = kind, ns, "tried"

			j := decode[trainer.TrainJob](t, example(t, "trainer-runtime.yaml")[1])
			j.Namespace, j.Spec.RuntimeRef.Name, j.Spec.RuntimeRef.Kind = ns, r.Name, &kind
			gpus := corev1.ResourceList{"example.com/gpu": resource.MustParse("8")}
			j.Spec.Trainer.ResourcesPerNode = &corev1.ResourceRequirements{Limits: gpus, Requests: gpus}
			j.Spec.Trainer.Env = []corev1.EnvVar{{Name: "MARK", Value: "mine"}, {Name: "NCCL_DEBUG", Value: "WARN"}}
			l.submitted(r, j)
			l.trained(j)

			out := l.Output("pi-launcher-0-0")
			for _, rank := range []string{"0", "1", "2", "3"} {
				if !strings.Contains(out, "rank "+rank+" has mine and WARN\n") {
					t.Errorf("rank %s lacks variables:\n%s", rank, out)
				}
			}
			pods := l.pods(jobset.JobSetNameKey + "=pi")
			for _, p := range pods {
				if got := p.Spec.Containers[0].Resources.Limits["example.com/gpu"]; got.Value() != 8 {
					t.Errorf("%s has %v GPUs", p.Name, got.Value())
				}
			}
			if len(pods) == 0 { // those of the other node go when the launcher's has ended
				t.Error("no pod of the TrainJob is left")
			}
		})
	}
}

// Where ranks lack what the launcher's container has, a line says so.
func TestWhatRanksLackIsTold(t *testing.T) {
	t.Parallel()
	l := up(t, setting{images: running(t, whereAmI)})
	j := ours(t)
	c := &j.Spec.MPIReplicaSpecs[kubeflow.MPIReplicaTypeLauncher].Template.Spec.Containers[0]
	c.Env = append(c.Env, corev1.EnvVar{Name: "MARK", Value: "mine"}, corev1.EnvVar{Name: "NCCL_DEBUG", Value: "WARN"}, corev1.EnvVar{Name: "GIVEN", Value: "x"})
	c.Command = append([]string{"mpiup", "run", "-x", "GIVEN"}, c.Command[2:]...)
	l.submit(j)
	out := l.succeeded("pi")
	for _, want := range []string{"set here, not so on ", ": NCCL_DEBUG, MARK; ranks keep theirs without -x NCCL_DEBUG -x MARK\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("nothing says %q:\n%s", want, out)
		}
	}
}

// trainer-runtime.yaml: each failed launcher is there. The nodes are not, whose Job ends with the JobSet.
func TestTrainJobFailsReadably(t *testing.T) {
	t.Parallel()
	l := up(t, setting{jobSets: true, images: running(t, failing)})
	docs := example(t, "trainer-runtime.yaml")
	r, j := decode[trainer.ClusterTrainingRuntime](t, docs[0]), decode[trainer.TrainJob](t, docs[1])
	once := int32(1)
	for i := range r.Spec.Template.Spec.ReplicatedJobs {
		if of := &r.Spec.Template.Spec.ReplicatedJobs[i]; of.Name == "launcher" {
			of.Template.Spec.BackoffLimit = &once
		}
	}
	j.Namespace = ns
	l.submitted(r, j)
	l.eventually("the TrainJob has failed", func() bool {
		must(t, l.jobSets.Client.Get(t.Context(), client.ObjectKeyFromObject(j), j))
		return slices.ContainsFunc(j.Status.Conditions, func(c metav1.Condition) bool {
			return c.Type == trainer.TrainJobFailed && c.Status == metav1.ConditionTrue
		})
	})
	l.readable(2, "exited with code 7", jobset.ReplicatedJobNameKey+"=launcher")
}
