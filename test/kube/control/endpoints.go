package control

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// records are the DNS records of headless services (endpoint slices as CoreDNS serves them; the
// DNS specification of Kubernetes, 2.4): a service's name has the addresses of its pods, and a
// pod with the service's name as subdomain has a name of its own. Only pods that are ready count,
// unless the service says otherwise, and none that ends.
func records(services []corev1.Service, pods []corev1.Pod, clusterDomain string) map[string][]netip.Addr {
	out := map[string][]netip.Addr{}
	for i := range services {
		s := &services[i]
		if s.Spec.ClusterIP != corev1.ClusterIPNone || len(s.Spec.Selector) == 0 {
			continue
		}
		name := s.Name + "." + s.Namespace + ".svc." + clusterDomain
		selector := labels.SelectorFromSet(s.Spec.Selector)
		for j := range pods {
			p := &pods[j]
			if p.Namespace != s.Namespace || !selector.Matches(labels.Set(p.Labels)) || !published(s, p) {
				continue
			}
			ips := addresses(s, p)
			out[name] = append(out[name], ips...)
			if p.Spec.Hostname != "" && p.Spec.Subdomain == s.Name {
				full := p.Spec.Hostname + "." + name
				out[full] = append(out[full], ips...)
			}
		}
	}
	return out
}

func published(s *corev1.Service, p *corev1.Pod) bool {
	if p.Status.PodIP == "" || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
		return false
	}
	return s.Spec.PublishNotReadyAddresses || p.DeletionTimestamp == nil && isReady(p)
}

// addresses are a pod's of the service's families: the cluster's first one unless the service
// wants both.
func addresses(s *corev1.Service, p *corev1.Pod) (out []netip.Addr) {
	both := s.Spec.IPFamilyPolicy != nil && *s.Spec.IPFamilyPolicy != corev1.IPFamilyPolicySingleStack
	for _, ip := range p.Status.PodIPs {
		if a, err := netip.ParseAddr(ip.IP); err == nil && (both || len(out) == 0) {
			out = append(out, a)
		}
	}
	return out
}
