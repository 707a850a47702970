package outfit

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/mpiup/mpiup/agent/host"
	"github.com/mpiup/mpiup/internal/job"
)

// Choice is the interface that MPI's traffic uses on this host. A pod with several interfaces (Multus, hostNetwork) makes some libraries use all of
// them, and some the wrong one, whose packets go nowhere. The choice is each host's own: names may differ where networks do not.
//
//	--net net1 ────────────────────────────▶ the interface of that name      ┐
//	--net 10.98.0.0/16 ────────────────────▶ the first with an address in it │  OMPI_MCA_btl_tcp_if_include
//	nothing, one interface ────────────────▶ none: nothing is set            ├─▶ UCX_NET_DEVICES
//	nothing, several ──RDMA-backed, not the ▶ that one                       │  FI_TCP_IFACE
//	                   default route's                                       │  NCCL_SOCKET_IFNAME ...
//	                 └─else────────────────▶ the one of the default route    ┘
type Choice struct {
	host.Interface        // of an empty name: none was chosen, each library does as it likes
	Why            string // the end of "..., since "; without addresses, which differ between hosts
}

// Choose settles which interface MPI's traffic uses. Its error is for the user, and names what there is.
func Choose(n host.Network, asked job.Network) (Choice, error) {
	if !asked.IsZero() {
		return named(n, asked)
	}
	candidates := slices.DeleteFunc(slices.Clone(n.Interfaces), func(i host.Interface) bool { return !reachable(i) })
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

// reachable says that ranks of other hosts may reach this one by the interface.
func reachable(i host.Interface) bool {
	return i.Up && !i.Loopback && slices.ContainsFunc(i.Addrs, func(a netip.Prefix) bool { return !a.Addr().IsLinkLocalUnicast() })
}

// named is the interface that was asked for. Loopback is one, too.
func named(n host.Network, asked job.Network) (Choice, error) {
	why := "--net asks for " + asked.String()
	if asked.CIDR.IsValid() {
		in := func(a netip.Prefix) bool { return asked.CIDR.Contains(a.Addr()) }
		for _, i := range n.Interfaces {
			if i.Up && slices.ContainsFunc(i.Addrs, in) {
				return Choice{i, why}, nil
			}
		}
		return Choice{}, fmt.Errorf("--net %s: no interface here that is up has an address in it; there are %s", asked, n)
	}
	for _, i := range n.Interfaces {
		switch {
		case i.Name != asked.Name:
		case !i.Up, len(i.Addrs) == 0:
			return Choice{}, fmt.Errorf("--net %s: the interface is not up or has no address; there are %s", asked, n)
		default:
			return Choice{i, why}, nil
		}
	}
	return Choice{}, fmt.Errorf("--net %s: there is no such interface here; there are %s (a network such as 10.98.0.0/16 finds it under any name)", asked, n)
}
