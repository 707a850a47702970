package contract

import (
	"slices"
	"strings"
	"testing"

	trainer "github.com/kubeflow/trainer/v2/pkg/apis/trainer/v1alpha1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
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
