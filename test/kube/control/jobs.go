package control

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// jobDefaults are those of batch/v1, and the selector that the API server makes.
func jobDefaults(j *batchv1.Job) {
	one, six, mode, no := int32(1), int32(6), batchv1.NonIndexedCompletion, false
	if j.Spec.Completions == nil && j.Spec.Parallelism == nil {
		j.Spec.Completions = &one
	}
	if j.Spec.Parallelism == nil {
		j.Spec.Parallelism = &one
	}
	if j.Spec.BackoffLimit == nil {
		j.Spec.BackoffLimit = &six
	}
	if j.Spec.CompletionMode == nil {
		j.Spec.CompletionMode = &mode
	}
	if j.Spec.Suspend == nil {
		j.Spec.Suspend = &no
	}
	if j.Spec.Selector == nil {
		j.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{batchv1.ControllerUidLabel: string(j.UID)}}
	}
	labels := map[string]string{batchv1.ControllerUidLabel: string(j.UID), batchv1.JobNameLabel: j.Name, "controller-uid": string(j.UID), "job-name": j.Name}
	if j.Spec.Template.Labels == nil {
		j.Spec.Template.Labels = map[string]string{}
	}
	maps.Copy(j.Spec.Template.Labels, labels)
	j.Status = batchv1.JobStatus{}
}

// jobStep is what the Job controller does next for a job.
type jobStep struct {
	create []*corev1.Pod
	remove []string
	status batchv1.JobStatus
	again  time.Duration // after which to look again; 0: when something has changed
}

// stepJob decides what to do for a job with these pods (pkg/controller/job/job_controller.go,
// syncJob). second is how long a second of back-off takes.
func stepJob(j *batchv1.Job, pods []*corev1.Pod, now time.Time, second time.Duration) jobStep {
	s := jobStep{status: *j.Status.DeepCopy()}
	if finished(&s.status) {
		return s
	}
	count := tally(j, pods, now)
	s.status.Active, s.status.Succeeded, s.status.Failed = int32(len(count.active)), int32(len(count.done)), int32(count.failed)
	ready := int32(count.ready)
	s.status.Ready = &ready
	terminating := int32(count.terminating)
	s.status.Terminating = &terminating
	switch {
	case *j.Spec.Suspend && !has(&s.status, batchv1.JobFailureTarget):
		s.remove = names(count.active)
		if setJob(&s.status, batchv1.JobSuspended, true, "JobSuspended", "Job suspended", now) {
			s.status.StartTime = nil
		}
	case has(&s.status, batchv1.JobFailureTarget) || count.failed > int(*j.Spec.BackoffLimit) ||
		count.restarts > 0 && count.restarts >= int(*j.Spec.BackoffLimit):
		s.remove = names(count.active)
		setJob(&s.status, batchv1.JobFailureTarget, true, batchv1.JobReasonBackoffLimitExceeded, "Job has reached the specified backoff limit", now)
		if len(count.active)+count.terminating == 0 { // all its pods have ended
			setJob(&s.status, batchv1.JobFailed, true, batchv1.JobReasonBackoffLimitExceeded, "Job has reached the specified backoff limit", now)
		}
	case j.Spec.Completions != nil && len(count.done) >= int(*j.Spec.Completions):
		setJob(&s.status, batchv1.JobComplete, true, batchv1.JobReasonCompletionsReached, "Reached expected number of succeeded pods", now)
		done := metav1.NewTime(now)
		s.status.CompletionTime = &done
	default:
		resume(&s.status, now)
		if wait := backoff(count, second) - now.Sub(count.lastFailure); count.failed > 0 && wait > 0 {
			s.again = wait
			return s
		}
		s.create = missing(j, count)
	}
	return s
}

// resume begins a job or begins it anew.
func resume(s *batchv1.JobStatus, now time.Time) {
	if has(s, batchv1.JobSuspended) {
		setJob(s, batchv1.JobSuspended, false, "JobResumed", "Job resumed", now)
	}
	if s.StartTime == nil {
		begun := metav1.NewTime(now)
		s.StartTime = &begun
	}
}

// pods of a job, by what they count for.
type jobCount struct {
	active      []*corev1.Pod
	done        map[string]bool // indexes, or names without indexes
	used        map[string]bool // indexes that no pod is made for: they are active, or end and are waited for
	failed      int
	lastFailure time.Time
	restarts    int
	ready       int
	terminating int
}

func tally(j *batchv1.Job, pods []*corev1.Pod, now time.Time) jobCount {
	c := jobCount{done: map[string]bool{}, used: map[string]bool{}}
	for _, p := range pods {
		index := p.Name
		if *j.Spec.CompletionMode == batchv1.IndexedCompletion {
			index = p.Annotations[batchv1.JobCompletionIndexAnnotation]
		}
		switch {
		case p.Status.Phase == corev1.PodSucceeded:
			c.done[index] = true
		case p.Status.Phase == corev1.PodFailed:
			c.failed++
			if at := ended(p, now); at.After(c.lastFailure) {
				c.lastFailure = at
			}
		case p.DeletionTimestamp != nil:
			c.terminating++
			c.used[index] = c.used[index] || onlyFailedReplaced(j)
		default:
			c.active = append(c.active, p)
			c.used[index] = true
			for _, s := range p.Status.ContainerStatuses {
				c.restarts += int(s.RestartCount)
			}
			if isReady(p) {
				c.ready++
			}
		}
	}
	return c
}

// onlyFailedReplaced says whether a pod that is deleted is replaced only when it has ended.
func onlyFailedReplaced(j *batchv1.Job) bool {
	return j.Spec.PodReplacementPolicy != nil && *j.Spec.PodReplacementPolicy == batchv1.Failed
}

// ended is when a pod's container ended.
func ended(p *corev1.Pod, otherwise time.Time) time.Time {
	for _, s := range p.Status.ContainerStatuses {
		if t := s.State.Terminated; t != nil && !t.FinishedAt.IsZero() {
			return t.FinishedAt.Time
		}
	}
	return otherwise
}

// backoff is the time between a failure and the next pod: 10 s, 20 s and so on up to 10 minutes.
func backoff(c jobCount, second time.Duration) time.Duration {
	return min(10*second<<min(max(c.failed-1, 0), 6), 600*second)
}

// missing are the pods that a job lacks.
func missing(j *batchv1.Job, c jobCount) (out []*corev1.Pod) {
	want := int(*j.Spec.Parallelism) - len(c.active)
	if j.Spec.Completions != nil {
		want = min(want, int(*j.Spec.Completions)-len(c.done)-len(c.active))
	}
	if onlyFailedReplaced(j) {
		want -= c.terminating
	}
	for i := 0; len(out) < want; i++ {
		index := strconv.Itoa(i)
		if *j.Spec.CompletionMode == batchv1.IndexedCompletion && (c.used[index] || c.done[index]) {
			continue
		}
		out = append(out, jobPod(j, index))
	}
	return out
}

// jobPod is a pod of a job's template.
func jobPod(j *batchv1.Job, index string) *corev1.Pod {
	t := j.Spec.Template.DeepCopy()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: j.Name + "-", Namespace: j.Namespace, Labels: t.Labels, Annotations: t.Annotations,
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(j, batchv1.SchemeGroupVersion.WithKind("Job"))}}, Spec: t.Spec}
	if *j.Spec.CompletionMode != batchv1.IndexedCompletion {
		return p
	}
	if p.Annotations == nil {
		p.Annotations = map[string]string{}
	}
	p.GenerateName += index + "-"
	p.Annotations[batchv1.JobCompletionIndexAnnotation], p.Labels[batchv1.JobCompletionIndexAnnotation] = index, index
	if p.Spec.Hostname == "" {
		p.Spec.Hostname = j.Name + "-" + index
	}
	env := corev1.EnvVar{Name: "JOB_COMPLETION_INDEX", ValueFrom: &corev1.EnvVarSource{
		FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels['" + batchv1.JobCompletionIndexAnnotation + "']"}}}
	for _, cs := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range cs {
			cs[i].Env = append(cs[i].Env, env)
		}
	}
	return p
}

func names(pods []*corev1.Pod) (out []string) {
	for _, p := range pods {
		out = append(out, p.Name)
	}
	return out
}

func finished(s *batchv1.JobStatus) bool {
	return has(s, batchv1.JobComplete) || has(s, batchv1.JobFailed)
}

// has says whether a condition is true.
func has(s *batchv1.JobStatus, kind batchv1.JobConditionType) bool {
	return slices.ContainsFunc(s.Conditions, func(c batchv1.JobCondition) bool { return c.Type == kind && c.Status == corev1.ConditionTrue })
}

// setJob sets a condition and says whether it was another before.
func setJob(s *batchv1.JobStatus, kind batchv1.JobConditionType, is bool, reason, message string, now time.Time) bool {
	status := corev1.ConditionFalse
	if is {
		status = corev1.ConditionTrue
	}
	c := batchv1.JobCondition{Type: kind, Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(now)}
	i := slices.IndexFunc(s.Conditions, func(c batchv1.JobCondition) bool { return c.Type == kind })
	switch {
	case i < 0:
		s.Conditions = append(s.Conditions, c)
	case s.Conditions[i].Status == status:
		return false
	default:
		s.Conditions[i] = c
	}
	return true
}

// syncJobs takes a step for every job, and says when to look again.
func syncJobs(ctx context.Context, client kubernetes.Interface, second time.Duration) (again time.Duration, err error) {
	jobs, err := client.BatchV1().Jobs("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, err
	}
	for i := range jobs.Items {
		j := &jobs.Items[i]
		pods, err := owned(ctx, client, j)
		if err != nil {
			return 0, err
		}
		s := stepJob(j, pods, time.Now(), second)
		if s.again > 0 && (again == 0 || s.again < again) {
			again = s.again
		}
		if err := takeStep(ctx, client, j, s); err != nil {
			return 0, fmt.Errorf("job %s: %w", j.Name, err)
		}
	}
	return again, nil
}

// takeStep does what was decided. Another's change meanwhile is the occasion for the next one.
func takeStep(ctx context.Context, client kubernetes.Interface, j *batchv1.Job, s jobStep) error {
	if !equality.Semantic.DeepEqual(j.Status, s.status) {
		j.Status = s.status
		if _, err := client.BatchV1().Jobs(j.Namespace).UpdateStatus(ctx, j, metav1.UpdateOptions{}); err != nil {
			return ignore(err)
		}
	}
	for _, name := range s.remove {
		if err := client.CoreV1().Pods(j.Namespace).Delete(ctx, name, metav1.DeleteOptions{}); ignore(err) != nil {
			return err
		}
	}
	for _, p := range s.create {
		if _, err := client.CoreV1().Pods(j.Namespace).Create(ctx, p, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

func ignore(err error) error {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// owned are the pods that an object controls.
func owned(ctx context.Context, client kubernetes.Interface, owner metav1.Object) (out []*corev1.Pod, err error) {
	pods, err := client.CoreV1().Pods(owner.GetNamespace()).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for i := range pods.Items {
		if metav1.IsControlledBy(&pods.Items[i], owner) {
			out = append(out, &pods.Items[i])
		}
	}
	return out, nil
}

func isReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
