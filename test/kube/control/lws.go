package control

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	lws "sigs.k8s.io/lws/api/leaderworkerset/v1"
	"sigs.k8s.io/lws/pkg/controllers"
	"sigs.k8s.io/lws/pkg/webhooks"
)

// LeaderWorkerSets runs LeaderWorkerSet's own controllers on a store of their own and mirrors the
// StatefulSets and Services that they make into an API, and its pods back. A group is not made anew
// when one of its pods restarts.
type LeaderWorkerSets struct {
	store // for LeaderWorkerSets
	sets  *controllers.LeaderWorkerSetReconciler
	pods  *controllers.PodReconciler
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
	l := &LeaderWorkerSets{store: newStore(a, b)}
	recorder := events.NewFakeRecorder(0)
	recorder.Events = nil // nobody reads them
	l.sets = controllers.NewLeaderWorkerSetReconciler(l.Client, scheme, recorder)
	l.pods = controllers.NewPodReconciler(l.Client, scheme, recorder, nil)
	a.admit(func(p *corev1.Pod) error { return webhooks.NewPodWebhook(nil).Default(context.Background(), p) })
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
		changed, err := groupDefaults(ctx, s)
		if err != nil {
			return false, err
		}
		if changed {
			if err := l.Client.Update(ctx, s); err != nil {
				return false, err
			}
		}
		if _, err := l.sets.Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(s)}); err != nil {
			return false, err
		}
	}
	news, err := l.pull(ctx, lws.SetNameLabelKey)
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

// groupDefaults are those of LeaderWorkerSet's webhook and CRD. It says whether anything was not set.
func groupDefaults(ctx context.Context, s *lws.LeaderWorkerSet) (bool, error) {
	if s.Spec.NetworkConfig != nil {
		return false, nil
	}
	s.Spec.StartupPolicy = lws.LeaderCreatedStartupPolicy
	s.Spec.LeaderWorkerTemplate.RestartPolicy = lws.NoneRestartPolicy // nobody here makes a group anew
	return true, (&webhooks.LeaderWorkerSetWebhook{}).Default(ctx, s)
}
