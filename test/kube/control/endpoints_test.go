package control

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestRecords(t *testing.T) {
	both := corev1.IPFamilyPolicyRequireDualStack
	member := func(change func(*corev1.Pod)) corev1.Pod {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "w", Namespace: "n", Labels: map[string]string{"app": "j"}},
			Spec: corev1.PodSpec{Hostname: "w", Subdomain: "j"}}
		p.Status.PodIP, p.Status.PodIPs = "10.0.0.1", []corev1.PodIP{{IP: "10.0.0.1"}, {IP: "fd00::1"}}
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		if change != nil {
			change(&p)
		}
		return p
	}
	notReady := func(p *corev1.Pod) { p.Status.Conditions = nil }
	for _, tt := range []struct {
		name    string
		service func(*corev1.ServiceSpec)
		pod     corev1.Pod
		want    string
	}{
		{"ready", nil, member(nil), "j.n.svc.d=10.0.0.1 w.j.n.svc.d=10.0.0.1"},
		{"not ready", nil, member(notReady), ""},
		{"not ready and published", func(s *corev1.ServiceSpec) { s.PublishNotReadyAddresses = true }, member(notReady),
			"j.n.svc.d=10.0.0.1 w.j.n.svc.d=10.0.0.1"},
		{"ending", nil, member(func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} }), ""},
		{"ended", func(s *corev1.ServiceSpec) { s.PublishNotReadyAddresses = true },
			member(func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }), ""},
		{"both families", func(s *corev1.ServiceSpec) { s.IPFamilyPolicy = &both }, member(nil),
			"j.n.svc.d=10.0.0.1,fd00::1 w.j.n.svc.d=10.0.0.1,fd00::1"},
		{"without a host name", nil, member(func(p *corev1.Pod) { p.Spec.Hostname = "" }), "j.n.svc.d=10.0.0.1"},
		{"of another subdomain", nil, member(func(p *corev1.Pod) { p.Spec.Subdomain = "k" }), "j.n.svc.d=10.0.0.1"},
		{"of another namespace", nil, member(func(p *corev1.Pod) { p.Namespace = "m" }), ""},
		{"not selected", nil, member(func(p *corev1.Pod) { p.Labels = nil }), ""},
		{"not headless", func(s *corev1.ServiceSpec) { s.ClusterIP = "10.1.1.1" }, member(nil), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "j", Namespace: "n"},
				Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Selector: map[string]string{"app": "j"}}}
			if tt.service != nil {
				tt.service(&s.Spec)
			}
			var got []string
			for name, ips := range records([]corev1.Service{s}, []corev1.Pod{tt.pod}, "d") {
				got = append(got, name+"="+strings.ReplaceAll(strings.Trim(fmt.Sprint(ips), "[]"), " ", ","))
			}
			slices.Sort(got)
			if strings.Join(got, " ") != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// Pods of a StatefulSet come one after the other as they are ready, or all at once.
func TestOrdinals(t *testing.T) {
	three := int32(3)
	s := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: appsv1.StatefulSetSpec{Replicas: &three, ServiceName: "svc"}}
	first := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "s-0"}}
	ready := first.DeepCopy()
	ready.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	for _, tt := range []struct {
		name   string
		policy appsv1.PodManagementPolicyType
		have   []*corev1.Pod
		want   string
	}{
		{"none yet", appsv1.OrderedReadyPodManagement, nil, "s-0"},
		{"the first is not ready", appsv1.OrderedReadyPodManagement, []*corev1.Pod{first}, ""},
		{"the first is ready", appsv1.OrderedReadyPodManagement, []*corev1.Pod{ready}, "s-1"},
		{"in parallel", appsv1.ParallelPodManagement, []*corev1.Pod{first}, "s-1 s-2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s.Spec.PodManagementPolicy = tt.policy
			made := missingOrdinals(s, tt.have)
			if got := strings.Join(names(made), " "); got != tt.want {
				t.Errorf("makes %q, want %q", got, tt.want)
			}
			for _, p := range made {
				if p.Spec.Hostname != p.Name || p.Spec.Subdomain != "svc" {
					t.Errorf("%s is known as %s.%s", p.Name, p.Spec.Hostname, p.Spec.Subdomain)
				}
			}
		})
	}
}
