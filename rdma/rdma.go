// Package rdma says which RDMA devices (HCAs) this container may use, where they hang in the machine, and which of
// their GIDs belong to this pod. It says what communication libraries should know of them.
//
//	/sys/class/infiniband           every HCA of the machine, whatever was granted   (shared mode)
//	/sys/class/infiniband_verbs     uverbsN ─▶ its HCA
//	/dev/infiniband/uverbsN         granted to this container
//	         │
//	       Read ──▶ Inventory: HCAs, each with the reason why it is not usable; ports, GIDs, what is
//	         │                 missing for all of them (Missing), GPUDirect RDMA
//	         └─▶ Variables          NCCL's, UCX's, libfabric's and Open MPI's, each with its reason
//
// NCCL chooses adapters for each GPU itself and joins what all ranks of a pod have found, so all of them get
// the same list; the nearest adapter of a rank is UCX's business.
//
// All that is read may be missing, wrong or hostile: it is bounded, and what cannot be understood is left out.
// The package keeps no state, sets nothing and starts nothing. Subnet managers, switches and counters are not
// asked.
package rdma

import (
	"net/netip"
	"slices"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/topology"
)

// Kind is what an HCA's driver offers.
type Kind string

// The kinds.
const (
	Verbs    Kind = "verbs"     // InfiniBand, RoCE, iWARP
	EFA      Kind = "efa"       // Amazon's, for libfabric only
	OmniPath Kind = "omni-path" // hfi1, through /dev/hfi1_N
)

// Inventory is a host's HCAs as /sys lists them. The zero Inventory has none.
type Inventory struct {
	HCAs []HCA // in the order of their names' numbers
	GDR  GDR
}

// HCA is one RDMA device.
type HCA struct {
	Name    string // "mlx5_0"
	Driver  string // "mlx5_core", "efa"; "": unknown
	Kind    Kind
	Verbs   string           // its device file below /dev/infiniband, "uverbs0"; "": none in /sys
	At      topology.PCIAddr // of the function, where Path is not zero
	Path    topology.PCIPath // zero: no PCI function (rxe, siw)
	Node    int              // NUMA node; topology.NoIndex: unknown
	Near    idset.Set        // CPUs near it; empty: unknown
	VF      bool             // an SR-IOV virtual function
	Missing string           // what is not here for this container to open it, "/dev/infiniband/uverbs0"; "": it can
	Denied  string           // why this container cannot use it, that or no active port; "": it can
	Ports   []Port

	virtual bool // below /sys/devices/virtual
}

// Port is one port of an HCA.
type Port struct {
	Number   int
	State    string  // "ACTIVE", "DOWN", "INIT", "ARMED" ...; "": unknown
	Layer    string  // in the kernel's word, "InfiniBand" or "Ethernet"; "": unknown
	Ethernet bool    // RoCE; else InfiniBand
	Rate     float64 // Gb/s; 0: unknown
	Speed    string  // the same in the kernel's words, "400 Gb/sec (4X NDR)"; "": unknown
	GIDs     []GID   // of an active port of a usable HCA: those whose interface is this pod's
}

// GID is an entry of a port's table.
type GID struct {
	Index     int
	Addr      netip.Addr // an IPv4 address is not mapped
	V2        bool       // RoCE v2; else IB or RoCE v1
	Interface string     // "": InfiniBand's have none
}

// Active says that traffic can pass.
func (p *Port) Active() bool { return p.State == "ACTIVE" }

// those is pointers to the elements of a list that are wanted, in their order.
func those[T any](list []T, wanted func(*T) bool) (some []*T) {
	for i := range list {
		if wanted(&list[i]) {
			some = append(some, &list[i])
		}
	}
	return some
}

// Usable is the HCAs this container can use, in their order.
func (inv *Inventory) Usable() []*HCA {
	return those(inv.HCAs, func(h *HCA) bool { return h.Denied == "" })
}

// Active is an HCA's ports through which traffic can pass.
func (h *HCA) Active() []*Port { return those(h.Ports, (*Port).Active) }

// Hardware is the HCAs that are, not those that the kernel makes of network interfaces (rxe, siw), in their order.
func (inv *Inventory) Hardware() []*HCA {
	return those(inv.HCAs, func(h *HCA) bool { return !h.virtual })
}

// Wanted says that RDMA is expected here: some HCA of the machine has an active port on an InfiniBand network, or lies
// idle, or the container was given a device, whatever state that is in. Else an adapter is an Ethernet card, most likely.
func (inv *Inventory) Wanted() bool {
	return slices.ContainsFunc(inv.HCAs, func(h HCA) bool {
		infiniband := func(p *Port) bool { return h.Kind == Verbs && !p.Ethernet }
		return h.Missing == "" || h.Kind == Idle || slices.ContainsFunc(h.Active(), infiniband)
	})
}
