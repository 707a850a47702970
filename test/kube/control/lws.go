package control

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	lws "sigs.k8s.io/lws/api/leaderworkerset/v1"
	"sigs.k8s.io/lws/pkg/controllers"
	lwspod "sigs.k8s.io/lws/pkg/utils/pod"
)

// LeaderWorkerSets runs LeaderWorkerSet's own controllers on a store of their own and mirrors the
// StatefulSets and Services that they make into an API, and its pods back. A group is not made anew
// when one of its pods restarts.
type LeaderWorkerSets struct {
	store // for LeaderWorkerSets
	sets  *controllers.LeaderWorkerSetReconciler
	pods  *controllers.PodReconciler
	known map[types.UID]string // Run's: versions of the API's pods that the store has
}

// NewLeaderWorkerSets makes the controllers; nothing runs before Run. Pods that the API creates from
// then on are as the webhook for pods makes them.
func (a *API) NewLeaderWorkerSets() (*LeaderWorkerSets, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientscheme.AddToScheme, lws.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	b := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&lws.LeaderWorkerSet{}, &appsv1.StatefulSet{}, &corev1.Pod{})
	if err := controllers.SetupIndexes(indexer{b}); err != nil {
		return nil, fmt.Errorf("LeaderWorkerSet: %w", err)
	}
	l := &LeaderWorkerSets{store: newStore(a, b), known: map[types.UID]string{}}
	recorder := record.NewFakeRecorder(0)
	recorder.Events = nil // nobody reads them
	l.sets = controllers.NewLeaderWorkerSetReconciler(l.Client, scheme, recorder)
	l.pods = controllers.NewPodReconciler(l.Client, scheme, recorder, nil)
	a.admit(groupMember)
	return l, nil
}

// Run acts on every change until ctx ends.
func (l *LeaderWorkerSets) Run(ctx context.Context) error {
	return l.run(ctx, "LeaderWorkerSet", l.sync)
}

// sync reconciles everything once and says whether the store has learnt of pods by that.
func (l *LeaderWorkerSets) sync(ctx context.Context) (bool, error) {
	var sets lws.LeaderWorkerSetList
	if err := l.Client.List(ctx, &sets); err != nil {
		return false, err
	}
	for i := range sets.Items {
		s := &sets.Items[i]
		if groupDefaults(s) {
			if err := l.Client.Update(ctx, s); err != nil {
				return false, err
			}
		}
		if _, err := l.sets.Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(s)}); err != nil {
			return false, err
		}
	}
	news, err := l.up(ctx)
	if err != nil {
		return false, err
	}
	var pods corev1.PodList
	if err := l.Client.List(ctx, &pods); err != nil {
		return false, err
	}
	for i := range pods.Items {
		if _, err := l.pods.Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&pods.Items[i])}); err != nil {
			return false, err
		}
	}
	return news, l.down(ctx)
}

// up brings the API's pods into the store, and says whether there were new ones.
func (l *LeaderWorkerSets) up(ctx context.Context) (news bool, err error) {
	pods, err := l.api.Kube.CoreV1().Pods("").List(ctx, metav1.ListOptions{LabelSelector: lws.SetNameLabelKey})
	if err != nil {
		return false, err
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		version, known := l.known[p.UID]
		if version == p.ResourceVersion {
			continue
		}
		l.known[p.UID] = p.ResourceVersion
		status := p.Status
		p.ResourceVersion, p.DeletionTimestamp = "", nil
		if !known {
			news = true
			if err := l.Client.Create(ctx, p); err != nil {
				return news, err
			}
		} else if err := l.Client.Get(ctx, client.ObjectKeyFromObject(p), p); err != nil {
			return news, err
		}
		p.Status = status
		if err := l.Client.Status().Update(ctx, p); err != nil {
			return news, err
		}
	}
	return news, nil
}

// down brings the store's Services and StatefulSets into the API.
func (l *LeaderWorkerSets) down(ctx context.Context) error {
	var services corev1.ServiceList
	var sets appsv1.StatefulSetList
	for _, list := range []client.ObjectList{&services, &sets} {
		if err := l.Client.List(ctx, list); err != nil {
			return err
		}
	}
	for i := range services.Items {
		s := &services.Items[i]
		if _, err := l.api.Kube.CoreV1().Services(s.Namespace).Create(ctx, s, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	for i := range sets.Items {
		s := &sets.Items[i]
		if _, err := l.api.Kube.AppsV1().StatefulSets(s.Namespace).Create(ctx, s, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return nil
}

// groupDefaults are those of LeaderWorkerSet's webhook and CRD (pkg/webhooks/leaderworkerset_webhook.go,
// Default), which cannot be imported: it does not compile with the controller-runtime that MPI
// Operator wants. It says whether anything was not set.
func groupDefaults(s *lws.LeaderWorkerSet) bool {
	if s.Spec.NetworkConfig != nil {
		return false
	}
	shared, none := lws.SubdomainShared, int32(0)
	s.Spec.NetworkConfig = &lws.NetworkConfig{SubdomainPolicy: &shared}
	s.Spec.StartupPolicy = lws.LeaderCreatedStartupPolicy
	s.Spec.RolloutStrategy = lws.RolloutStrategy{Type: lws.RollingUpdateStrategyType, RollingUpdateConfiguration: &lws.RollingUpdateConfiguration{
		MaxUnavailable: intstr.FromInt32(1), MaxSurge: intstr.FromInt32(0), Partition: &none}}
	return true
}

// groupMember is what the webhook for pods does (pkg/webhooks/pod_webhook.go, Default), but for
// exclusive placement, subgroups and TPUs.
func groupMember(p *corev1.Pod) error {
	if p.Labels[lws.SetNameLabelKey] == "" {
		return nil
	}
	ordinal := p.Name[strings.LastIndexByte(p.Name, '-')+1:]
	if _, err := strconv.Atoi(ordinal); err != nil {
		return fmt.Errorf("ordinal of pod %s: %w", p.Name, err)
	}
	if !lwspod.LeaderPod(*p) {
		p.Labels[lws.WorkerIndexLabelKey] = ordinal
	} else if p.Labels[lws.GroupIndexLabelKey] == "" {
		p.Labels[lws.GroupIndexLabelKey] = ordinal
	}
	return lwspod.AddLWSVariables(p)
}
