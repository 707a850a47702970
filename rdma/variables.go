package rdma

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/topology"
)

// Variable is one that a rank gets, and why, as `mpiup env --explain` prints it.
type Variable struct{ Name, Value, Why string }

// Rank is what variables depend on besides the host's HCAs.
type Rank struct {
	Number int              // among the ranks here
	Alone  bool             // no other rank is here
	GPUs   bool             // this host has GPUs
	NCCL   string           // version of its program's NCCL, "2.20.5"; "": unknown
	GPU    topology.PCIPath // of the rank's own; zero: none
	CPUs   idset.Set        // those it is bound to; empty: not bound
}

// Variables is what a rank's libraries are told of the host's HCAs. Each is given only where it helps:
//
//	NCCL_IB_HCA        GPUs, and some HCA of the machine is not to be used; the same for all ranks, exact ("="), without
//	                   which mlx5_1 would be mlx5_10 too
//	NCCL_IB_GID_INDEX  GPUs, RoCE ports that agree on the index, and an NCCL before 2.21, which takes entry 0, RoCE v1;
//	                   later ones choose by themselves, and their guide says not to set it
//	UCX_NET_DEVICES    several usable HCAs and ranks: the one nearest to the rank; some not usable: those that are
//	UCX_IB_GID_INDEX   on request (RDMA) only: UCX's own choice is right
//	FI_PROVIDER        EFA, and no other HCA
//
// TCP switches HCAs off in every library; its values exclude, so that GPUs' own transports stay. Who calls it
// leaves out what the user has set.
func (inv *Inventory) Variables(f Fabric, r Rank) (list []Variable) {
	if f == TCP {
		return []Variable{
			{"NCCL_IB_DISABLE", "1", "--fabric tcp"},
			{"UCX_TLS", "^ib", "--fabric tcp"},
			{"FI_PROVIDER", "tcp", "--fabric tcp"},
		}
	}
	add := func(name, value, why string) {
		if value != "" {
			list = append(list, Variable{name, value, why})
		}
	}
	ports := inv.ports()
	if r.GPUs && inv.others(ports) {
		add("NCCL_IB_HCA", "="+join(ports), "this machine has other RDMA ports, which this container cannot or should not use")
	}
	index, agreed := gidIndex(ports)
	if r.GPUs && agreed && oldNCCL(r.NCCL) {
		add("NCCL_IB_GID_INDEX", index, "the RoCE v2 entry of this pod, which the program's NCCL "+r.NCCL+" does not find (2.21 does)")
	}
	if f == RDMA && agreed {
		add("UCX_IB_GID_INDEX", index, "--fabric rdma, and the RoCE v2 entry of this pod")
	}
	switch h, why := inv.nearest(ports, r); {
	case h != nil:
		add("UCX_NET_DEVICES", join(portsOf(ports, h)), why)
	case inv.others(ports):
		add("UCX_NET_DEVICES", join(ports), "this machine has other RDMA ports, which this container cannot or should not use")
	}
	if len(ports) == 0 && slices.ContainsFunc(inv.Usable(), func(h *HCA) bool { return h.Kind == EFA }) {
		add("FI_PROVIDER", "efa", "this container has an EFA device")
	}
	return list
}

// oldNCCL says that an NCCL does not choose its RoCE entry by itself, as it does since 2.21.
func oldNCCL(version string) bool {
	var major, minor int
	n, _ := fmt.Sscanf(version, "%d.%d", &major, &minor)
	return n == 2 && (major < 2 || major == 2 && minor < 21)
}

// place is a port with its HCA.
type place struct {
	hca  *HCA
	port *Port
}

func (p place) String() string { return p.hca.Name + ":" + strconv.Itoa(p.port.Number) }

// ports is those that NCCL and UCX may use together: active ports of usable HCAs with verbs. They are of one link
// layer, since NCCL refuses a mixture: of that with the higher sum of rates, InfiniBand where the sums are equal.
func (inv *Inventory) ports() []place {
	var layers [2][]place
	var rates [2]float64
	for _, h := range inv.Usable() {
		if h.Kind != Verbs {
			continue
		}
		for _, p := range h.Active() {
			layer := 0
			if p.Ethernet {
				layer = 1
			}
			layers[layer] = append(layers[layer], place{h, p})
			rates[layer] += p.Rate
		}
	}
	if len(layers[0]) == 0 || len(layers[1]) > 0 && rates[1] > rates[0] {
		return layers[1]
	}
	return layers[0]
}

// others says that the machine shows ports that are not among those to be used.
func (inv *Inventory) others(use []place) bool {
	if len(use) == 0 {
		return false
	}
	total := 0
	for i := range inv.HCAs {
		if inv.HCAs[i].Kind == Verbs {
			total += len(inv.HCAs[i].Ports)
		}
	}
	return total > len(use)
}

// nearest is the HCA of a rank that has a place: its GPU's, else its CPUs'. Ranks take turns where several
// are equally near. nil: nothing is known, there is no choice, or all are the rank's, which UCX stripes over.
func (inv *Inventory) nearest(ports []place, r Rank) (*HCA, string) {
	var near []*HCA
	var why string
	switch {
	case r.Alone || len(ports) < 2 || ports[0].hca == ports[len(ports)-1].hca:
		return nil, ""
	case len(r.GPU.Way) > 0:
		near = least(inv.Usable(), func(h *HCA) int { return int(h.Path.To(r.GPU)) })
		why = "the nearest to the rank's GPU (" + near[0].Path.To(r.GPU).String() + ")"
	case !r.CPUs.Empty():
		near = least(inv.Usable(), func(h *HCA) int { return -h.Near.Intersect(r.CPUs).Len() })
		why = "the nearest to the rank's CPUs"
	default:
		return nil, ""
	}
	var allowed []*HCA
	for _, h := range near {
		if portsOf(ports, h) != nil {
			allowed = append(allowed, h)
		}
	}
	if len(allowed) == 0 {
		return nil, why
	}
	return allowed[r.Number%len(allowed)], why
}

// least is the HCAs that are the least far, in their order: all of them where all are as far.
func least(list []*HCA, far func(*HCA) int) (nearest []*HCA) {
	least := math.MaxInt
	for _, h := range list {
		switch n := far(h); {
		case n < least:
			nearest, least = []*HCA{h}, n
		case n == least:
			nearest = append(nearest, h)
		}
	}
	return nearest
}

func portsOf(ports []place, h *HCA) (list []place) {
	for _, p := range ports {
		if p.hca == h {
			list = append(list, p)
		}
	}
	return list
}

// gidIndex is the entry that all RoCE ports agree on. It is the only form in which libraries take one.
func gidIndex(ports []place) (index string, agreed bool) {
	for _, p := range ports {
		g, ok := p.port.RoCE()
		if !ok || !g.V2 || index != "" && index != strconv.Itoa(g.Index) {
			return "", false
		}
		index = strconv.Itoa(g.Index)
	}
	return index, index != ""
}

func join(ports []place) string {
	names := make([]string, len(ports))
	for i, p := range ports {
		names[i] = p.String()
	}
	return strings.Join(names, ",")
}
