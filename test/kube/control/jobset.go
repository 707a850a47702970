package control

import (
	"context"
	"errors"
	"fmt"
	"sync"

	config "github.com/kubeflow/trainer/v2/pkg/apis/config/v1alpha1"
	trainer "github.com/kubeflow/trainer/v2/pkg/apis/trainer/v1alpha1"
	"github.com/kubeflow/trainer/v2/pkg/controller"
	trainerfeatures "github.com/kubeflow/trainer/v2/pkg/features"
	trainerruntime "github.com/kubeflow/trainer/v2/pkg/runtime"
	trainercore "github.com/kubeflow/trainer/v2/pkg/runtime/core"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	"sigs.k8s.io/jobset/pkg/controllers"
	"sigs.k8s.io/jobset/pkg/features"
)

// JobSets runs JobSet's and Trainer's own controllers on a store of their own, which speaks
// controller-runtime, and mirrors what they make into an API and the state of Jobs back.
type JobSets struct {
	store    // for TrainJobs, their runtimes and JobSets
	sets     *controllers.JobSetReconciler
	trainers *controller.TrainJobReconciler
}

// trainerGates guards Trainer's feature gates, which are those of the whole process.
var trainerGates sync.Mutex

// runtimes are Trainer's. Where its configuration has a port for TrainJobs' statuses, its gate for these is on.
func runtimes(ctx context.Context, c client.Client, cfg *config.Configuration) (map[string]trainerruntime.Runtime, error) {
	trainerGates.Lock()
	defer trainerGates.Unlock()
	if cfg.StatusServer != nil {
		if err := trainerfeatures.SetEnable(trainerfeatures.TrainJobStatus, true); err != nil {
			return nil, err
		}
	}
	made, err := trainercore.New(ctx, c, nothing{}, cfg)
	return made, errors.Join(err, trainerfeatures.SetEnable(trainerfeatures.TrainJobStatus, false))
}

// NewJobSets makes the controllers with this configuration of Trainer's; nothing runs before Run.
func (a *API) NewJobSets(ctx context.Context, cfg config.Configuration) (*JobSets, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientscheme.AddToScheme, jobset.AddToScheme, trainer.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	if err := features.SetEnable(features.InPlaceRestart, true); err != nil { // for those JobSets that ask for it
		return nil, err
	}
	b := fake.NewClientBuilder().WithScheme(scheme).
		WithStatusSubresource(&jobset.JobSet{}, &batchv1.Job{}, &trainer.TrainJob{}, &corev1.Pod{})
	index := indexer{b}
	if err := controllers.SetupJobSetIndexes(ctx, index); err != nil {
		return nil, fmt.Errorf("JobSet: %w", err)
	}
	j := &JobSets{store: newStore(a, b)}
	runtimes, err := runtimes(ctx, j.Client, &cfg)
	if err != nil {
		return nil, fmt.Errorf("runtimes of Trainer: %w", err)
	}
	recorder := events.NewFakeRecorder(0)
	recorder.Events = nil // nobody reads them
	j.sets = controllers.NewJobSetReconciler(j.Client, scheme, recorder)
	j.trainers = controller.NewTrainJobReconciler(j.Client, recorder, runtimes)
	return j, nil
}

// Run acts on every change until ctx ends.
func (j *JobSets) Run(ctx context.Context) error { return j.run(ctx, "JobSet and Trainer", j.sync) }

// sync reconciles everything once and says whether the store has learnt of changes by that.
func (j *JobSets) sync(ctx context.Context) (bool, error) {
	var jobs trainer.TrainJobList
	if err := j.Client.List(ctx, &jobs); err != nil {
		return false, err
	}
	for i := range jobs.Items {
		if _, err := j.trainers.Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&jobs.Items[i])}); err != nil {
			return false, err
		}
	}
	var sets jobset.JobSetList
	if err := j.Client.List(ctx, &sets); err != nil {
		return false, err
	}
	changed := false
	for i := range sets.Items {
		s := &sets.Items[i]
		if s.Spec.SuccessPolicy == nil || s.Spec.StartupPolicy == nil || s.Spec.Network == nil || s.Spec.Network.EnableDNSHostnames == nil {
			jobSetDefaults(s)
			if err := j.Client.Update(ctx, s); err != nil {
				return false, err
			}
		}
		if _, err := j.sets.Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(s)}); err != nil {
			return false, err
		}
		var now jobset.JobSet
		if err := j.Client.Get(ctx, client.ObjectKeyFromObject(s), &now); err == nil && !equality.Semantic.DeepEqual(now.Status, s.Status) {
			changed = true // it is told of its own change: a JobSet that is over ends its other Jobs only then
		}
	}
	if err := j.down(ctx); err != nil {
		return false, err
	}
	up, err := j.up(ctx)
	if err != nil {
		return false, err
	}
	pods, err := j.pull(ctx, jobset.JobSetNameKey)
	return up || pods || changed, err
}

// Attempt says of a pod in which in-place restart it is, as JobSet's agent in it does.
func (j *JobSets) Attempt(ctx context.Context, pod *corev1.Pod, attempt int32) error {
	defer j.wake()
	return j.Client.Patch(ctx, pod, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"%d"}}}`, jobset.InPlaceRestartAttemptKey, attempt)))
}

// jobSetDefaults are those of JobSet's webhook (pkg/webhooks/jobset_webhook.go, Default), which is not exported.
func jobSetDefaults(s *jobset.JobSet) {
	yes, indexed := true, batchv1.IndexedCompletion
	if s.Spec.SuccessPolicy == nil {
		s.Spec.SuccessPolicy = &jobset.SuccessPolicy{Operator: jobset.OperatorAll}
	}
	if s.Spec.StartupPolicy == nil {
		s.Spec.StartupPolicy = &jobset.StartupPolicy{StartupPolicyOrder: jobset.AnyOrder}
	}
	for i := range s.Spec.ReplicatedJobs {
		r := &s.Spec.ReplicatedJobs[i]
		r.Replicas = max(r.Replicas, 1) // the CRD's default
		if r.Template.Spec.CompletionMode == nil {
			r.Template.Spec.CompletionMode = &indexed
		}
		if r.Template.Spec.Template.Spec.RestartPolicy == "" {
			r.Template.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
		}
	}
	if s.Spec.Network == nil {
		s.Spec.Network = &jobset.Network{}
	}
	if s.Spec.Network.EnableDNSHostnames == nil {
		s.Spec.Network.EnableDNSHostnames = &yes
	}
	if s.Spec.Network.PublishNotReadyAddresses == nil {
		s.Spec.Network.PublishNotReadyAddresses = &yes
	}
}

// down brings the store's Services, ConfigMaps, Secrets and Jobs into the API.
func (j *JobSets) down(ctx context.Context) error {
	var services corev1.ServiceList
	var maps corev1.ConfigMapList
	var secrets corev1.SecretList
	var jobs batchv1.JobList
	for _, list := range []client.ObjectList{&services, &maps, &secrets, &jobs} {
		if err := j.Client.List(ctx, list); err != nil {
			return err
		}
	}
	create := metav1.CreateOptions{}
	for i := range services.Items {
		s := &services.Items[i]
		if _, err := j.api.Kube.CoreV1().Services(s.Namespace).Create(ctx, s, create); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	for i := range maps.Items {
		c := &maps.Items[i]
		if _, err := j.api.Kube.CoreV1().ConfigMaps(c.Namespace).Create(ctx, c, create); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	for i := range secrets.Items {
		s := &secrets.Items[i]
		if _, err := j.api.Kube.CoreV1().Secrets(s.Namespace).Create(ctx, s, create); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return j.downJobs(ctx, jobs.Items)
}

// downJobs makes the API's Jobs those of the store. A Job that is gone there goes with its pods.
func (j *JobSets) downJobs(ctx context.Context, jobs []batchv1.Job) error {
	known := map[string]bool{}
	for i := range jobs {
		known[jobs[i].Name] = true
		in := j.api.Kube.BatchV1().Jobs(jobs[i].Namespace)
		have, err := in.Get(ctx, jobs[i].Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			_, err = in.Create(ctx, &jobs[i], metav1.CreateOptions{})
		case err == nil && have.Spec.Suspend != nil && jobs[i].Spec.Suspend != nil && *have.Spec.Suspend != *jobs[i].Spec.Suspend:
			have.Spec.Suspend = jobs[i].Spec.Suspend
			_, err = in.Update(ctx, have, metav1.UpdateOptions{})
			err = ignore(err)
		}
		if err != nil {
			return err
		}
	}
	all, err := j.api.Kube.BatchV1().Jobs("").List(ctx, metav1.ListOptions{LabelSelector: jobset.JobSetNameKey})
	if err != nil {
		return err
	}
	for i := range all.Items {
		if job := &all.Items[i]; !known[job.Name] {
			if err := j.remove(ctx, job); err != nil {
				return err
			}
		}
	}
	return nil
}

// remove deletes a Job, and its pods as the garbage collector would.
func (j *JobSets) remove(ctx context.Context, job *batchv1.Job) error {
	pods, err := owned(ctx, j.api.Kube, job)
	if err != nil {
		return err
	}
	if err := ignore(j.api.Kube.BatchV1().Jobs(job.Namespace).Delete(ctx, job.Name, metav1.DeleteOptions{})); err != nil {
		return err
	}
	for _, p := range pods {
		if err := ignore(j.api.Kube.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{})); err != nil {
			return err
		}
	}
	return nil
}

// up tells the store how Jobs are, and says whether that was news.
func (j *JobSets) up(ctx context.Context) (news bool, err error) {
	var jobs batchv1.JobList
	if err := j.Client.List(ctx, &jobs); err != nil {
		return false, err
	}
	for i := range jobs.Items {
		job := &jobs.Items[i]
		have, err := j.api.Kube.BatchV1().Jobs(job.Namespace).Get(ctx, job.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return false, err
		}
		if !equality.Semantic.DeepEqual(stamped(have.Status), stamped(job.Status)) {
			job.Status = have.Status
			if err := j.Client.Status().Update(ctx, job); err != nil {
				return false, err
			}
			news = true
		}
	}
	return news, nil
}

// stamped is a status with the precision that times have in the store.
func stamped(s batchv1.JobStatus) batchv1.JobStatus {
	s = *s.DeepCopy()
	for i := range s.Conditions {
		s.Conditions[i].LastTransitionTime = metav1.Time{}
	}
	s.StartTime, s.CompletionTime = nil, nil
	return s
}
