package control

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Names is where DNS records go; netns.DNS is one.
type Names interface {
	Set(name string, addrs ...netip.Addr)
	Remove(name string)
}

// Controllers are Kubernetes' own for Jobs, StatefulSets and endpoints.
type Controllers struct {
	// Second is how long a second of back-off takes.
	Second time.Duration
	// Domain is the cluster's.
	Domain string
	Names  Names

	client  kubernetes.Interface
	changes <-chan struct{}
	known   map[string][]netip.Addr // Run's: the records there are
}

// NewControllers makes controllers for an API's objects; nothing runs before Run.
func NewControllers(a *API, second time.Duration, domain string, names Names) *Controllers {
	return &Controllers{Second: second, Domain: domain, Names: names, client: a.Kube, changes: a.Changes(), known: map[string][]netip.Addr{}}
}

// Run acts on every change until ctx ends.
func (c *Controllers) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.changes:
		case <-timer.C:
		}
		again, err := syncJobs(ctx, c.client, c.Second)
		if err == nil {
			err = syncStatefulSets(ctx, c.client)
		}
		if err == nil {
			err = c.syncRecords(ctx)
		}
		if err != nil {
			return fmt.Errorf("controllers: %w", err)
		}
		if again > 0 {
			timer.Reset(again)
		}
	}
}

func (c *Controllers) syncRecords(ctx context.Context) error {
	services, err := c.client.CoreV1().Services("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	pods, err := c.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	now := records(services.Items, pods.Items, c.Domain)
	for name := range c.known {
		if _, still := now[name]; !still {
			c.Names.Remove(name)
		}
	}
	for name, addrs := range now {
		if !slices.Equal(addrs, c.known[name]) {
			c.Names.Set(name, addrs...)
		}
	}
	c.known = now
	return nil
}

// syncStatefulSets makes the pods of StatefulSets, one after the other unless they are managed in
// parallel (pkg/controller/statefulset). It never updates or removes one.
func syncStatefulSets(ctx context.Context, client kubernetes.Interface) error {
	sets, err := client.AppsV1().StatefulSets("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range sets.Items {
		s := &sets.Items[i]
		pods, err := owned(ctx, client, s)
		if err != nil {
			return err
		}
		for _, p := range missingOrdinals(s, pods) {
			if _, err := client.CoreV1().Pods(s.Namespace).Create(ctx, p, metav1.CreateOptions{}); err != nil {
				return fmt.Errorf("StatefulSet %s: %w", s.Name, err)
			}
		}
	}
	return nil
}

// missingOrdinals are the pods to make now.
func missingOrdinals(s *appsv1.StatefulSet, pods []*corev1.Pod) (out []*corev1.Pod) {
	have := map[string]*corev1.Pod{}
	for _, p := range pods {
		have[p.Name] = p
	}
	replicas := int32(1)
	if s.Spec.Replicas != nil {
		replicas = *s.Spec.Replicas
	}
	start := int32(0)
	if s.Spec.Ordinals != nil {
		start = s.Spec.Ordinals.Start
	}
	for i := start; i < start+replicas; i++ {
		name := fmt.Sprintf("%s-%d", s.Name, i)
		p := have[name]
		if p == nil {
			out = append(out, ordinalPod(s, name, i))
		}
		if s.Spec.PodManagementPolicy != appsv1.ParallelPodManagement && (p == nil || !isReady(p)) {
			break
		}
	}
	return out
}

func ordinalPod(s *appsv1.StatefulSet, name string, ordinal int32) *corev1.Pod {
	t := s.Spec.Template.DeepCopy()
	labels := map[string]string{appsv1.StatefulSetPodNameLabel: name, appsv1.PodIndexLabel: fmt.Sprint(ordinal)}
	maps.Copy(labels, t.Labels)
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.Namespace, Labels: labels, Annotations: t.Annotations,
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(s, appsv1.SchemeGroupVersion.WithKind("StatefulSet"))}}, Spec: t.Spec}
	p.Spec.Hostname, p.Spec.Subdomain = name, s.Spec.ServiceName
	return p
}
