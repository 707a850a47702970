package job

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// A Network and Ports are what a user asks of the network that MPI's own traffic takes: an interface, and the ports to
// listen on. Launcher and agent read both from the same text.

// Network says which interface a job's MPI traffic shall use: by its name, or by a network that it has an
// address in, since several pods may have different names for one network. The zero value leaves the choice
// to each host.
type Network struct {
	Name string
	CIDR netip.Prefix
}

// maxInterface is the longest name of an interface in bytes (IFNAMSIZ less the final zero byte).
const maxInterface = 15

// ParseNetwork reads "net1", "10.98.0.0/16" or "fd98::/64"; "" is the zero value.
func ParseNetwork(s string) (n Network, err error) {
	if s == "" {
		return n, nil
	}
	if n.CIDR, err = netip.ParsePrefix(s); err == nil {
		n.CIDR = n.CIDR.Masked()
		return n, nil
	}
	switch addr, notAddr := netip.ParseAddr(s); {
	case notAddr == nil:
		return n, fmt.Errorf("%s is one address; name an interface or a network such as %s", s, netip.PrefixFrom(addr.WithZone(""), addr.BitLen()/2).Masked())
	case strings.Contains(s, "/"):
		return n, fmt.Errorf("%.50q is no network; write it as 10.98.0.0/16 or fd98::/64", s)
	case len(s) > maxInterface || s == "." || s == ".." || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' || r == ',' || r == ':' }):
		return n, fmt.Errorf("%.50q is no interface's name; write one as net1 or a network as 10.98.0.0/16", s)
	}
	return Network{Name: s}, nil
}

// IsZero says that no interface was asked for.
func (n Network) IsZero() bool { return n == Network{} }

// String is what ParseNetwork reads.
func (n Network) String() string {
	if n.CIDR.IsValid() {
		return n.CIDR.String()
	}
	return n.Name
}

// Ports is a range of TCP ports, both ends in it, that MPI libraries may listen on. The zero value is no
// range: they take any.
type Ports struct{ Low, High uint16 }

// ParsePorts reads "18000-18999"; "" is the zero value. Ports below 1024 need a capability, and are refused.
func ParsePorts(s string) (Ports, error) {
	if s == "" {
		return Ports{}, nil
	}
	low, high, ok := strings.Cut(s, "-")
	a, errA := strconv.ParseUint(low, 10, 16)
	b, errB := strconv.ParseUint(high, 10, 16)
	switch {
	case !ok || errA != nil || errB != nil:
		return Ports{}, fmt.Errorf("%.50q is no range of ports; write it as 18000-18999", s)
	case a < 1024:
		return Ports{}, errors.New("ports below 1024 are the system's; write a range as 18000-18999")
	case a > b:
		return Ports{}, fmt.Errorf("%s ends before it begins", s)
	}
	return Ports{uint16(a), uint16(b)}, nil
}

// IsZero says that there is no range.
func (p Ports) IsZero() bool { return p == Ports{} }

// Len is the number of ports, 0 of the zero value.
func (p Ports) Len() int {
	if p.IsZero() {
		return 0
	}
	return int(p.High) - int(p.Low) + 1
}

// String is what ParsePorts reads.
func (p Ports) String() string {
	if p.IsZero() {
		return ""
	}
	return fmt.Sprintf("%d-%d", p.Low, p.High)
}
