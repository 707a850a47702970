package gpu

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/mpiup/mpiup/topology"
	"github.com/mpiup/mpiup/topology/sysfs"
)

// Seen is a GPU of the machine, whoever may use it.
type Seen struct {
	GPU
	Vendor  Vendor
	Missing string // what is not here for this container to use it, "/dev/nvidia3"; "": it can
	id      string // "10de:2330"; "": unknown
}

// Usable reports whether this container may use it.
func (s *Seen) Usable() bool { return s.Missing == "" }

// Title is its model, or the best that can be said: "AMD 1002:74a1", "NVIDIA".
func (s *Seen) Title() string {
	brand := map[Vendor]string{NVIDIA: "NVIDIA", AMD: "AMD", Intel: "Intel"}[s.Vendor]
	return cmp.Or(s.Model, strings.TrimSpace(brand+" "+s.id))
}

// PCI classes of GPUs (pci_ids.h).
const (
	classVGA         = 0x0300
	class3D          = 0x0302
	classDisplay     = 0x0380 // AMD Instinct up to MI250, Intel Data Center GPUs
	classAccelerator = 0x1200 // AMD Instinct from MI300 on
)

// Survey is the GPUs of a machine in the order of PCI addresses, usable or not: those of Read, those that this
// container was not given, and those that no driver tells of. Where no device file can be seen at all (no /dev/null:
// a tree of /sys and /proc alone), each counts as given.
func Survey(fsys sysfs.FS, env LookupEnv, m *topology.Machine) []Seen {
	r := reader{fs: fsys, bare: !fsys.Exists("dev/null")}
	all := slices.Concat(r.unclaimed(m, NVIDIA, r.nvidia(env)), r.unclaimed(m, AMD, r.amd()), r.unclaimed(m, Intel, r.intel()))
	all = oneVendor(order(all, ofSeen))
	for i := range all {
		s := &all[i]
		r.place(&s.GPU)
		if o := m.Device(s.At); o != nil && s.Located() {
			s.id = fmt.Sprintf("%04x:%04x", o.PCI.Vendor, o.PCI.Device)
		}
	}
	return all
}

// unclaimed adds, to the GPUs that a driver names, those on PCI that it does not name.
func (r reader) unclaimed(m *topology.Machine, v Vendor, told []Seen) []Seen {
	known, loose := make(map[topology.PCIAddr]bool), 0
	for i := range told {
		known[told[i].At] = true
		if !told[i].Located() {
			loose++
		}
	}
	all := onPCI(m, v)
	listed := r.fs.Exists(nvidiaGPUs)
	paired := listed && loose == len(all)-(len(told)-loose) // files and GPUs that are left belong together, in order
	var more []Seen
	for i, p := range all {
		if known[p.Addr] {
			continue
		}
		s := Seen{GPU: GPU{At: p.Addr, Minor: -1}, Vendor: v}
		switch v {
		case NVIDIA:
			// Without the driver's word they count in the order of addresses.
			j := slices.IndexFunc(told, func(s Seen) bool { return !s.Located() && (paired || !listed && s.Minor == i) })
			if j >= 0 {
				told[j].At = p.Addr
				continue
			}
			if s.Missing = r.missing("dev/nvidia" + strconv.Itoa(i)); s.Missing == "" && listed {
				s.Missing = "/" + nvidiaGPUs + "/" + p.Addr.String()
			}
		case AMD:
			if s.Missing = r.missing("dev/kfd"); s.Missing == "" && (len(told) > 0 || !r.bare) {
				s.Missing = "/" + kfdNodes
			}
		case Intel:
			if !r.bare {
				s.Missing = "driver for it (i915 or xe)"
			}
		}
		more = append(more, s)
	}
	return append(told, more...)
}

// onPCI is a vendor's GPUs among the PCI functions; of Intel's not those inside processors.
func onPCI(m *topology.Machine, v Vendor) (found []*topology.PCIDevice) {
	classes := map[Vendor][]uint16{NVIDIA: {0x10de, classVGA, class3D}, AMD: {0x1002, class3D, classDisplay, classAccelerator},
		Intel: {0x8086, classVGA, classDisplay}}[v]
	for _, o := range m.All(topology.TypePCIDevice) {
		if o.PCI.Vendor == classes[0] && slices.Contains(classes[1:], o.PCI.Class) && (v != Intel || o.PCI.Addr.Bus != 0) {
			found = append(found, o.PCI)
		}
	}
	slices.SortFunc(found, func(a, b *topology.PCIDevice) int { return a.Addr.Compare(b.Addr) })
	return found
}

// oneVendor denies all but one vendor's GPUs, since ranks are given those of one only.
func oneVendor(all []Seen) []Seen {
	for _, v := range []Vendor{NVIDIA, AMD, Intel} {
		if !slices.ContainsFunc(all, func(s Seen) bool { return s.Vendor == v && s.Usable() }) {
			continue
		}
		for i := range all {
			if s := &all[i]; s.Vendor != v && s.Usable() {
				s.Missing = "use for it in runs, which take GPUs of one vendor"
			}
		}
		break
	}
	return all
}

// Merge puts what a better source knows of usable GPUs (Ask) into a survey. What that source does not tell of
// cannot be used.
func Merge(all []Seen, inv Inventory) []Seen {
	if inv.Source == "" {
		return all
	}
	all, left := slices.Clone(all), slices.Clone(inv.GPUs)
	for i := range all {
		s := &all[i]
		j := slices.IndexFunc(left, func(g GPU) bool {
			if !s.Located() || inv.Vendor == AMD { // partitions share an address
				return g.Minor == s.Minor && (g.At == s.At || !s.Located())
			}
			return g.At == s.At
		})
		switch {
		case j >= 0:
			s.GPU, s.Missing = left[j], ""
			left = slices.Delete(left, j, j+1)
		case s.Usable() && s.Vendor == inv.Vendor:
			s.Missing = "mention of it by " + inv.Source
		}
	}
	for _, g := range left {
		all = append(all, Seen{GPU: g, Vendor: inv.Vendor})
	}
	return order(all, ofSeen)
}
