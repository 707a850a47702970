// Package draw shows a machine to people and programs: where processors, caches, memories, GPUs and
// HCAs lie to each other, and what of it this container may use.
//
//	Text   a tree of lines for a terminal; what is alike is one line
//	JSON   everything, with a summary first
//
// Both are made from one View, which Look reads, and are the same bytes for the same View. The package keeps no state.
package draw

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/mpiup/mpiup/gpu"
	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/rdma"
	"github.com/mpiup/mpiup/topology"
	"github.com/mpiup/mpiup/topology/discover"
)

// View is one machine and what is known of it.
type View struct {
	Name    string // of the host or of what was read; ""
	Machine *topology.Machine
	Limits  discover.Limits
	GPUs    []gpu.Seen
	Driver  gpu.Inventory // who told of the usable GPUs, and their driver
	HCAs    rdma.Inventory
	Notes   []string // what could not be read or understood
}

// offline is the CPUs the kernel knows and does not run.
func (v *View) offline() idset.Set { return v.Machine.Present.Sub(v.Machine.Root.CPUs) }

// info is what the machine, or an object of it, says of itself.
func info(infos []topology.Info, name string) string {
	for _, i := range infos {
		if i.Name == name {
			return clean(i.Value)
		}
	}
	return ""
}

// clean is text of the machine's as one line of printable characters.
func clean(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '\uFFFD' || r >= 0x80 && r < 0xa0 || !strconv.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
	return strings.Join(strings.Fields(s), " ")
}

// hardware is what the machine calls itself: "Dell Inc. PowerEdge XE9680".
func (v *View) hardware() string {
	infos := v.Machine.Root.Infos
	vendor := cmp.Or(info(infos, "DMISysVendor"), info(infos, "DMIBoardVendor"))
	product := cmp.Or(info(infos, "DMIProductName"), info(infos, "DMIBoardName"))
	if strings.HasPrefix(product, vendor) {
		vendor = ""
	}
	return strings.TrimSpace(vendor + " " + product)
}

// processor is its packages' model: "2 × Intel(R) Xeon(R) Platinum 8480C".
func (v *View) processor() string {
	packages := v.Machine.All(topology.TypePackage)
	if len(packages) == 0 {
		return "processors of an unknown kind"
	}
	model := "processor"
	if part := info(packages[0].Infos, "CPUPart"); part != "" {
		model = "ARM part " + part
	}
	return fmt.Sprintf("%d × %s", len(packages), cmp.Or(info(packages[0].Infos, "CPUModel"), model))
}

// drivers is who told of the usable GPUs: "nvidia driver 550.54, CUDA 12.4, as nvidia-smi tells"; "" without any.
func (v *View) drivers() string {
	d := v.Driver
	if d.Source == "" {
		return ""
	}
	words := string(d.Vendor)
	if d.Driver != "" {
		words += " driver " + clean(d.Driver)
	}
	if d.CUDA != "" {
		words += ", CUDA " + clean(d.CUDA)
	}
	return words + ", as " + d.Source + " tells"
}

// direct is what can be seen of GPUDirect RDMA, where there are NVIDIA's GPUs and HCAs.
func (v *View) direct() string {
	if s := Summary(v); v.Driver.Vendor != gpu.NVIDIA || s.GPUs == 0 || s.HCAs == 0 {
		return ""
	}
	return clean(v.HCAs.GDR.String())
}

// warnings is what the machine has and this container cannot use, and what to do about it.
func (v *View) warnings() (all []string) {
	for _, s := range v.HCAs.Missing(rdma.Locked{Any: true}) {
		all = append(all, clean(s))
	}
	return all
}

// size is bytes in the largest unit with at least three digits of them, "126 GiB", "1008 KiB".
func size(bytes uint64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	v, u := float64(bytes), 0
	for u < len(units)-1 && v >= 1024 {
		v /= 1024
		u++
	}
	if v == float64(uint64(v)) || v >= 100 {
		return fmt.Sprintf("%.0f %s", v, units[u])
	}
	return fmt.Sprintf("%.3g %s", v, units[u])
}

// nodes is the NUMA nodes that are main memory.
func (v *View) nodes() []*topology.Object {
	return slices.DeleteFunc(slices.Clone(v.Machine.All(topology.TypeNUMANode)),
		func(o *topology.Object) bool { return o.Subtype == topology.GPUMemory })
}

// usableNodes is those of them whose memory may be used.
func (v *View) usableNodes() (usable idset.Set) {
	for _, n := range v.nodes() {
		if v.Limits.Of(n) {
			usable.Add(n.OS)
		}
	}
	return usable
}

// sharing says in a sentence what Limits.Sharing means here.
func (v *View) sharing() string {
	l := v.Limits
	quota := "no CPU quota"
	if l.Quota > 0 {
		quota = "CPU quota " + strconv.FormatFloat(l.Quota, 'f', -1, 64)
	}
	switch l.Sharing {
	case discover.Shared:
		return fmt.Sprintf("shared (%s of %s: others run on them too)", quota, visible.Count(l.CPUs.Len(), "CPU"))
	case discover.Exclusive:
		return fmt.Sprintf("exclusive (some of the machine's CPUs, %s)", quota)
	default:
		return fmt.Sprintf("the whole machine (all CPUs that are online, %s)", quota)
	}
}
