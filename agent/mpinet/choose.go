package mpinet

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/mpiup/mpiup/internal/job"
)

// Choice is the interface that MPI's traffic uses on this host.
type Choice struct {
	Interface        // of an empty name: none was chosen, each library does as it likes
	Why       string // the end of "..., since "; without addresses, which differ between hosts
}

// Choose settles which interface MPI's traffic uses. Its error is for the user, and names what there is.
func Choose(h Host, asked job.Network) (Choice, error) {
	if !asked.IsZero() {
		return h.find(asked)
	}
	var candidates []Interface
	for _, i := range h.Interfaces {
		if i.candidate() {
			candidates = append(candidates, i)
		}
	}
	if len(candidates) < 2 {
		return Choice{Why: "there is no other"}, nil
	}
	for _, i := range candidates {
		if i.RDMA != "" && !i.Default {
			return Choice{i, "it belongs to an RDMA device that can be used"}, nil
		}
	}
	for _, i := range candidates {
		if i.Default {
			return Choice{i, "the default route leaves by it"}, nil
		}
	}
	return Choice{Why: "no default route leaves by one of them"}, nil
}

// find is the interface that was asked for. Loopback is one, too.
func (h Host) find(asked job.Network) (Choice, error) {
	why := "--net asks for " + asked.String()
	if asked.CIDR.IsValid() {
		in := func(a netip.Prefix) bool { return asked.CIDR.Contains(a.Addr()) }
		for _, i := range h.Interfaces {
			if i.Up && slices.ContainsFunc(i.Addrs, in) {
				return Choice{i, why}, nil
			}
		}
		return Choice{}, fmt.Errorf("--net %s: no interface here that is up has an address in it; there are %s", asked, h)
	}
	for _, i := range h.Interfaces {
		switch {
		case i.Name != asked.Name:
		case !i.Up, len(i.Addrs) == 0:
			return Choice{}, fmt.Errorf("--net %s: the interface is not up or has no address; there are %s", asked, h)
		default:
			return Choice{i, why}, nil
		}
	}
	return Choice{}, fmt.Errorf("--net %s: there is no such interface here; there are %s (a network such as 10.98.0.0/16 finds it under any name)", asked, h)
}

// String lists the host's interfaces, a few of them where there are many.
func (h Host) String() string {
	const most = 16
	var names []string
	for _, i := range h.Interfaces[:min(len(h.Interfaces), most)] {
		names = append(names, i.String())
	}
	if n := len(h.Interfaces) - most; n > 0 {
		names = append(names, fmt.Sprintf("%d more", n))
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
