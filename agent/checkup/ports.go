package checkup

import (
	"cmp"
	"fmt"

	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/rdma"
)

// ports: one port of many that is down, or has come up at a lower rate than the others, slows all ranks that use it.
// A host of which none is up is the check RDMA's.
func ports(h *Host) Finding {
	const name, most = "RDMA ports", 4
	var wrong []string
	fastest := map[bool]float64{} // of Ethernet, and of InfiniBand
	each := func(f func(hca *rdma.HCA, p *rdma.Port)) {
		for i := range h.HCAs.HCAs {
			hca := &h.HCAs.HCAs[i]
			if hca.Missing != "" || hca.Kind != rdma.Verbs {
				continue // not granted
			}
			for k := range hca.Ports {
				f(hca, &hca.Ports[k])
			}
		}
	}
	seen, active := 0, 0
	each(func(_ *rdma.HCA, p *rdma.Port) {
		seen++
		if p.Active() {
			active++
			fastest[p.Ethernet] = max(fastest[p.Ethernet], p.Rate)
		}
	})
	each(func(hca *rdma.HCA, p *rdma.Port) {
		at := fmt.Sprintf("%s:%d", hca.Name, p.Number)
		switch {
		case !p.Active():
			wrong = append(wrong, at+" is "+cmp.Or(p.State, "in an unknown state"))
		case p.Rate > 0 && p.Rate < fastest[p.Ethernet]:
			wrong = append(wrong, fmt.Sprintf("%s has %g Gb/s, where the fastest has %g", at, p.Rate, fastest[p.Ethernet]))
		}
	})
	switch {
	case seen == 0:
		return Finding{Name: name, Text: "no port"}
	case active == 0:
		return Finding{Name: name, Text: "none is active"}
	case len(wrong) == 0:
		return Finding{Name: name, Text: fmt.Sprintf("all %s active", visible.Count(active, "port"))}
	}
	return Finding{name, Warn, visible.Few(wrong, most, ", "), "check the cable, the switch's port and the subnet manager " +
		"(ibstat, ethtool); or grant only ports that are wired"}
}

// portRange: each rank listens on a port of its own, and UCX looks for a free one for ever.
func portRange(h *Host) Finding {
	const name = "MPI's ports"
	switch {
	case h.Ports.IsZero():
		return Finding{Name: name, Text: "any"}
	case h.Ports.Len() < h.ranks():
		return Finding{name, Fail, fmt.Sprintf("%s for %s", visible.Count(h.Ports.Len(), "port"), visible.Count(h.ranks(), "rank")),
			"give a wider range, at least a port for each rank of a host (--mpi-ports)"}
	}
	return Finding{Name: name, Text: fmt.Sprintf("%s for %s", visible.Count(h.Ports.Len(), "port"), visible.Count(h.ranks(), "rank"))}
}
