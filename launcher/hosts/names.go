package hosts

import (
	"cmp"
	"net"
	"net/netip"
	"strings"

	"github.com/mpiup/mpiup/internal/bounded"
	"github.com/mpiup/mpiup/internal/podfiles"
)

// fullName is this pod's name with its subdomain, as kubelet writes it into /etc/hosts
// ("10.0.0.7 pod.sub.ns.svc.cluster.local pod"), else the bare host name.
func (s *Sources) fullName() string {
	b, err := bounded.Regular(s.path("etc/hosts"), maxFile)
	if err != nil {
		return s.Hostname
	}
	return fullName(string(b), s.Hostname)
}

func fullName(etcHosts, host string) string {
	if host == "" || strings.Contains(host, ".") {
		return host
	}
	for _, names := range podfiles.Hosts(etcHosts) {
		for _, n := range names {
			if len(n) > len(host) && n[len(host)] == '.' && strings.EqualFold(n[:len(host)], host) &&
				!strings.HasSuffix(n, ".localdomain") {
				return strings.TrimSuffix(n, ".")
			}
		}
	}
	return host
}

// Subdomain is the headless service this pod belongs to ("" if none shows).
func (s *Sources) Subdomain() string {
	_, domain, _ := strings.Cut(s.fullName(), ".")
	if !strings.Contains(domain, ".svc") {
		return ""
	}
	return domain
}

// OwnAddresses are those of this machine's interfaces: they are no other host's.
func OwnAddresses() map[netip.Addr]bool {
	own := map[netip.Addr]bool{}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return own
	}
	for _, a := range addrs {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			own[p.Addr().Unmap()] = true
		}
	}
	return own
}

// CompareNames orders host names as people count: w2 before w10.
func CompareNames(a, b string) int {
	for a != "" && b != "" {
		na, nb := digits(a), digits(b)
		if na > 0 && nb > 0 {
			x, y := strings.TrimLeft(a[:na], "0"), strings.TrimLeft(b[:nb], "0")
			if c := cmp.Or(cmp.Compare(len(x), len(y)), strings.Compare(x, y)); c != 0 {
				return c
			}
			a, b = a[na:], b[nb:]
			continue
		}
		if a[0] != b[0] {
			return cmp.Compare(a[0], b[0])
		}
		a, b = a[1:], b[1:]
	}
	return cmp.Compare(len(a), len(b))
}

// digits is how many digits s begins with.
func digits(s string) int {
	return len(s) - len(strings.TrimLeft(s, "0123456789"))
}
