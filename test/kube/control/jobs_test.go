package control

import (
	"strconv"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// job is one of a completion with defaults; change may say otherwise.
func job(change func(*batchv1.JobSpec)) *batchv1.Job {
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "j", Namespace: "n", UID: "u"}}
	j.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c"}}
	if change != nil {
		change(&j.Spec)
	}
	jobDefaults(j)
	return j
}

// pod is a job's: "Running", "Failed 5s" (that long ago), "Running restarts=2", "Succeeded index=1".
func pod(name, text string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{}}}
	status := corev1.ContainerStatus{}
	for i, word := range strings.Fields(text) {
		key, value, _ := strings.Cut(word, "=")
		n, _ := strconv.Atoi(value)
		switch {
		case i == 0:
			p.Status.Phase = corev1.PodPhase(word)
		case key == "restarts":
			status.RestartCount = int32(n)
		case key == "index":
			p.Annotations[batchv1.JobCompletionIndexAnnotation] = value
		case key == "deleted":
			p.DeletionTimestamp = &metav1.Time{Time: noon}
		default:
			ago, _ := time.ParseDuration(word)
			status.State.Terminated = &corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(noon.Add(-ago))}
		}
	}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{status}
	return p
}

func TestStepJob(t *testing.T) {
	indexed := func(s *batchv1.JobSpec) {
		n, mode := int32(3), batchv1.IndexedCompletion
		s.Completions, s.Parallelism, s.CompletionMode = &n, &n, &mode
	}
	limit := func(n int32) func(*batchv1.JobSpec) { return func(s *batchv1.JobSpec) { s.BackoffLimit = &n } }
	patient := func(s *batchv1.JobSpec) { failed := batchv1.Failed; s.PodReplacementPolicy = &failed }
	suspended := func(s *batchv1.JobSpec) { yes := true; s.Suspend = &yes }
	for _, tt := range []struct {
		name   string
		job    *batchv1.Job
		pods   []string
		create string // names that are generated
		remove string
		again  time.Duration
		is     batchv1.JobConditionType
	}{
		{name: "the first pod", job: job(nil), create: "j-"},
		{name: "it runs", job: job(nil), pods: []string{"Running"}},
		{name: "it has succeeded", job: job(nil), pods: []string{"Succeeded"}, is: batchv1.JobComplete},
		{name: "a failure is not tried again at once", job: job(nil), pods: []string{"Failed 4s"}, again: 6 * time.Second},
		{name: "but after 10 s", job: job(nil), pods: []string{"Failed 10s"}, create: "j-"},
		{name: "and after two after 20 s", job: job(nil), pods: []string{"Failed 100s", "Failed 15s"}, again: 5 * time.Second},
		{name: "too many failures", job: job(limit(1)), pods: []string{"Failed 100s", "Failed 50s"}, is: batchv1.JobFailed},
		{name: "too many restarts", job: job(limit(2)), pods: []string{"Running restarts=2"}, remove: "p0", is: batchv1.JobFailureTarget},
		{name: "restarts within the limit", job: job(limit(2)), pods: []string{"Running restarts=1"}},
		{name: "suspended", job: job(suspended), pods: []string{"Running"}, remove: "p0", is: batchv1.JobSuspended},
		{name: "a pod that ends is replaced", job: job(nil), pods: []string{"Running deleted"}, create: "j-"},
		{name: "and is waited for where the Job says so", job: job(patient), pods: []string{"Running deleted"}},
		{name: "so is an index", job: job(func(s *batchv1.JobSpec) { indexed(s); patient(s) }), pods: []string{"Running index=0", "Running index=1 deleted"}, create: "j-2-"},
		{name: "indexes", job: job(indexed), create: "j-0- j-1- j-2-"},
		{name: "the index that failed", job: job(indexed), pods: []string{"Running index=0", "Failed 60s index=1", "Succeeded index=2"}, create: "j-1-"},
		{name: "all indexes", job: job(indexed), pods: []string{"Succeeded index=0", "Succeeded index=1", "Succeeded index=2"}, is: batchv1.JobComplete},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var pods []*corev1.Pod
			for i, text := range tt.pods {
				pods = append(pods, pod("p"+strconv.Itoa(i), text))
			}
			s := stepJob(tt.job, pods, noon, time.Second)
			var create []string
			for _, p := range s.create {
				create = append(create, p.GenerateName)
			}
			if got := strings.Join(create, " "); got != tt.create {
				t.Errorf("creates %q, want %q", got, tt.create)
			}
			if got := strings.Join(s.remove, " "); got != tt.remove {
				t.Errorf("removes %q, want %q", got, tt.remove)
			}
			if s.again != tt.again {
				t.Errorf("looks again after %v, want %v", s.again, tt.again)
			}
			if tt.is != "" && !has(&s.status, tt.is) || tt.is == "" && len(s.status.Conditions) > 0 {
				t.Errorf("conditions %v, want %q", s.status.Conditions, tt.is)
			}
		})
	}
}

// A job that has reached its limit makes no more pods while the last one ends.
func TestFailureIsFinal(t *testing.T) {
	n := int32(1)
	j := job(func(s *batchv1.JobSpec) { s.BackoffLimit = &n })
	j.Status = stepJob(j, []*corev1.Pod{pod("p", "Running restarts=1")}, noon, time.Second).status
	s := stepJob(j, []*corev1.Pod{pod("p", "Running restarts=1 deleted=1")}, noon, time.Second)
	if len(s.create) > 0 || has(&s.status, batchv1.JobFailed) {
		t.Errorf("while the last pod ends: %+v", s)
	}
	j.Status = s.status
	if s = stepJob(j, nil, noon, time.Second); len(s.create) > 0 || !has(&s.status, batchv1.JobFailed) {
		t.Errorf("when it has ended: %+v", s)
	}
}

// A pod of an Indexed Job knows its index by name, label and variable.
func TestJobPod(t *testing.T) {
	j := job(func(s *batchv1.JobSpec) {
		n, mode := int32(3), batchv1.IndexedCompletion
		s.Completions, s.Parallelism, s.CompletionMode = &n, &n, &mode
	})
	p := jobPod(j, "2")
	env := p.Spec.Containers[0].Env
	if p.Spec.Hostname != "j-2" || p.Labels[batchv1.JobCompletionIndexAnnotation] != "2" || len(env) != 1 || env[0].Name != "JOB_COMPLETION_INDEX" {
		t.Errorf("%+v", p)
	}
	if p.Labels[batchv1.JobNameLabel] != "j" || !metav1.IsControlledBy(p, j) {
		t.Errorf("it is not the job's: %+v", p.ObjectMeta)
	}
}
