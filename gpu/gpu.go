// Package gpu says which GPUs this container may use, where they hang in the machine and how they
// are linked, and which of them a rank is to see.
//
//	                    knows besides the list             asked
//	bin/mpiup-nvml      MIG names, NVLink, memory          when wanted, a process   NVIDIA
//	nvidia-smi -q -x    MIG names, NVLink (topo -m), memory  when wanted, processes NVIDIA
//	/proc/driver/nvidia MIG instances without names        at once                  NVIDIA
//	/sys/class/kfd      xGMI, memory                       at once                  AMD
//	/sys/class/drm                                         at once                  Intel
//
// Read takes what files tell and is cheap; Ask asks the programs, the better one first, and falls back to files. An
// Inventory names its source. Two sources that know the same thing say the same of it.
//
// A GPU is usable when its device files were given to the container: /sys shows every GPU of the
// machine whatever was granted. A host's GPUs are of one vendor, the first of NVIDIA, AMD and Intel
// that has a usable one. Units are what is counted and given to ranks: each MIG device of a GPU that
// has some, else the GPU; the order is that of PCI addresses, as NVML numbers them.
//
// Everything that is read may be missing, wrong or hostile: it is bounded (topology/sysfs, MaxReport) and what cannot
// be understood is left out. The package keeps no state and starts nothing; whoever gives Config.Run makes the
// processes.
//
// It does not ask whether a GPU works, and sets nothing on it.
package gpu

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/topology"
)

// Vendor is who made a GPU, by the name that users know; "" without any.
type Vendor string

// The vendors.
const (
	NVIDIA Vendor = "nvidia"
	AMD    Vendor = "amd"
	Intel  Vendor = "intel"
)

// maxGPUs bounds GPUs of a host, and MIG devices of a GPU. The largest hosts have 16, or 64 of
// AMD's partitions; a GPU has at most 7 MIG devices.
const maxGPUs = 256

// Inventory is the usable GPUs of a host. The zero Inventory has none.
type Inventory struct {
	Source string // "mpiup-nvml", "nvidia-smi" or a directory; "" without GPUs
	Vendor Vendor
	Driver string // the kernel driver's version; "": unknown
	CUDA   string // the version the driver is for, "12.4"; "": unknown, or not NVIDIA's
	GPUs   []GPU  // in the order of PCI addresses; those without one last
}

// GPU is one of them.
type GPU struct {
	Number      int              // in the vendor's own count of the usable ones, which its variables name
	Model       string           // "NVIDIA H100 80GB HBM3"; "": unknown
	UUID        string           // "GPU-…", as the vendor's variable takes it; "": unknown
	At          topology.PCIAddr // zero: unknown
	Minor       int              // N of /dev/nvidiaN or /dev/dri/renderDN; -1: unknown
	Memory      uint64           // bytes; 0: unknown
	MIG         []MIG            // by Instance, then Compute
	Partitioned bool             // MIG is on: without a MIG device nothing can be done with it
	Links       []Link           // to other GPUs, past PCI
	Path        topology.PCIPath // where it hangs; zero: unknown
	Near        idset.Set        // CPUs of the host near it, usable or not; empty: unknown
	Health      *Health          // nil: unknown
}

// MIG is one instance of a partitioned NVIDIA GPU.
type MIG struct {
	UUID     string `json:"uuid,omitempty"`   // "MIG-…"; "": unknown
	Instance int    `json:"gpu_instance"`     // of the GPU
	Compute  int    `json:"compute_instance"` // instance within that
}

// Link is what joins a GPU to another directly.
type Link struct {
	To    topology.PCIAddr
	Kind  LinkKind
	Count int // how many side by side
}

// LinkKind is what a link is.
type LinkKind string

// The kinds, as nvidia-smi and rocm-smi call them.
const (
	NVLink LinkKind = "NV"
	XGMI   LinkKind = "XGMI"
)

// Health is what is wrong or slow with an NVIDIA GPU.
type Health struct {
	Persistence bool   `json:"persistence"` // the driver keeps it awake
	ECC         bool   `json:"ecc"`         // memory errors are corrected
	Uncorrected uint64 `json:"uncorrected"` // memory errors since the driver was loaded

	Pending bool     `json:"pending,omitempty"` // memory is to be taken out of use, and will be when the GPU is reset
	Failed  bool     `json:"failed,omitempty"`  // memory could not be taken out of use: there are no rows left in its place
	Slow    job.Slow `json:"slow,omitempty"`    // why its hardware holds its clocks back now
}

// Worse is what is worse than before: errors are those that came, and reasons to be slow those of now. before may be nil: then nobody knows
// since when the rest is so, and nothing of it is told.
func (h *Health) Worse(before *Health) (w Health) {
	if h == nil {
		return w
	}
	if w.Slow = h.Slow; before == nil {
		return w
	}
	if h.Uncorrected > before.Uncorrected { // else the driver was loaded anew
		w.Uncorrected = h.Uncorrected - before.Uncorrected
	}
	w.Pending, w.Failed = h.Pending && !before.Pending, h.Failed && !before.Failed
	return w
}

// Unit is what one rank can be given: a GPU or one MIG device.
type Unit struct {
	GPU *GPU
	MIG *MIG // nil: all of the GPU
}

// Units are those of an inventory in their order.
func (inv *Inventory) Units() (units []Unit) {
	for i := range inv.GPUs {
		g := &inv.GPUs[i]
		for j := range g.MIG {
			units = append(units, Unit{g, &g.MIG[j]})
		}
		if len(g.MIG) == 0 && !g.Partitioned {
			units = append(units, Unit{GPU: g})
		}
	}
	return units
}

// UnitOf is the unit of a local rank where nobody asked for a pairing, false without units: local rank i has unit i,
// modulo their count. Scripts that take GPU LOCAL_RANK % count do the same.
func UnitOf(units []Unit, localRank int) (Unit, bool) {
	if len(units) == 0 || localRank < 0 {
		return Unit{}, false
	}
	return units[localRank%len(units)], true
}

// Name is the unit's as the vendor's variables take it; "" where only its number is known.
func (u Unit) Name() string {
	if u.MIG != nil {
		return u.MIG.UUID
	}
	return u.GPU.UUID
}

// order sorts GPUs by address and drops what is there twice or too much.
func order[T any](gpus []T, of func(*T) *GPU) []T {
	slices.SortStableFunc(gpus, func(x, y T) int {
		a, b := of(&x), of(&y)
		if x, y := a.Located(), b.Located(); x != y {
			if x {
				return -1
			}
			return 1
		}
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Minor, b.Minor))
	})
	gpus = slices.CompactFunc(gpus, func(x, y T) bool {
		a, b := of(&x), of(&y)
		return a.Located() && a.At == b.At && a.Minor == b.Minor
	})
	return gpus[:min(len(gpus), maxGPUs)]
}

func itself(g *GPU) *GPU { return g }

func ofSeen(s *Seen) *GPU { return &s.GPU }

func sortMIG(all []MIG) {
	slices.SortFunc(all, func(a, b MIG) int {
		return cmp.Or(cmp.Compare(a.Instance, b.Instance), cmp.Compare(a.Compute, b.Compute))
	})
}

// Located reports whether the PCI address is known.
func (g *GPU) Located() bool { return g.At != topology.PCIAddr{} }

// Between is how two GPUs are joined, as nvidia-smi topo -m words it: "X" of one and itself, "NV18"
// (18 NVLinks), "XGMI", else the distance over PCI.
func (g *GPU) Between(other *GPU) string {
	if g == other || g.Located() && g.At == other.At && g.Minor == other.Minor {
		return topology.Same.String()
	}
	for _, l := range g.Links {
		switch {
		case l.To != other.At:
		case l.Kind == NVLink:
			return string(NVLink) + strconv.Itoa(l.Count)
		default:
			return string(l.Kind)
		}
	}
	return g.Path.To(other.Path).String()
}
