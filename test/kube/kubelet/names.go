package kubelet

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// hostname is the container's host name (GeneratePodHostNameAndDomain); a hostNetwork pod has
// its node's, which is not known here.
func hostname(p *corev1.Pod) string {
	if p.Spec.Hostname != "" {
		return p.Spec.Hostname
	}
	return p.Name[:min(len(p.Name), 63)]
}

// hostsFile is /etc/hosts of a pod (managedHostsFileContent): of all names only the pod's own.
// A pod with the node's network has the node's file.
func hostsFile(p *corev1.Pod, clusterDomain string, ips []netip.Addr, node string) string {
	var b strings.Builder
	if p.Spec.HostNetwork {
		b.WriteString("# Kubernetes-managed hosts file (host network).\n127.0.0.1\tlocalhost\n")
		for _, ip := range ips {
			fmt.Fprintf(&b, "%s\t%s.example.org\t%s\n", ip, node, node)
		}
	} else {
		b.WriteString("# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n" +
			"fe00::0\tip6-localnet\nfe00::0\tip6-mcastprefix\nfe00::1\tip6-allnodes\nfe00::2\tip6-allrouters\n")
		for _, ip := range ips {
			name := hostname(p)
			if p.Spec.Subdomain != "" {
				fmt.Fprintf(&b, "%s\t%s.%s.%s.svc.%s\t%[2]s\n", ip, name, p.Spec.Subdomain, p.Namespace, clusterDomain)
			} else {
				fmt.Fprintf(&b, "%s\t%s\n", ip, name)
			}
		}
	}
	if len(p.Spec.HostAliases) > 0 {
		b.WriteString("\n# Entries added by HostAliases.\n")
	}
	for _, a := range p.Spec.HostAliases {
		fmt.Fprintf(&b, "%s\t%s\n", a.IP, strings.Join(a.Hostnames, "\t"))
	}
	return b.String()
}

// resolvConf is /etc/resolv.conf of a pod (dns.Configurer.GetPodDNS) on a node whose own names
// the node's file has.
func resolvConf(p *corev1.Pod, clusterDomain string, server netip.Addr) string {
	var servers, search, options []string
	policy := p.Spec.DNSPolicy
	if policy == corev1.DNSClusterFirst && p.Spec.HostNetwork {
		policy = corev1.DNSDefault
	}
	if policy == "" || policy == corev1.DNSClusterFirst || policy == corev1.DNSClusterFirstWithHostNet {
		space := "svc." + clusterDomain
		servers, search, options = []string{server.String()}, []string{p.Namespace + "." + space, space, clusterDomain}, []string{"ndots:5"}
	}
	if c := p.Spec.DNSConfig; c != nil {
		servers = append(servers, c.Nameservers...)
		search = append(search, c.Searches...)
		for _, o := range c.Options {
			text := o.Name
			if o.Value != nil {
				text += ":" + *o.Value
			}
			options = slices.DeleteFunc(options, func(old string) bool { return strings.HasPrefix(old, o.Name+":") })
			options = append(options, text)
		}
	}
	var b strings.Builder
	if len(search) > 0 {
		b.WriteString("search " + strings.Join(unique(search), " ") + "\n")
	}
	for _, s := range unique(servers) {
		b.WriteString("nameserver " + s + "\n")
	}
	if len(options) > 0 {
		b.WriteString("options " + strings.Join(options, " ") + "\n")
	}
	return b.String()
}

func unique(words []string) (out []string) {
	for _, w := range words {
		if !slices.Contains(out, w) {
			out = append(out, w)
		}
	}
	return out
}
