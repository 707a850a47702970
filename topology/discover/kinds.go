package discover

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/topology"
)

// readKinds notes the kinds of cores of a hybrid processor: Intel's have performance counters of their own, and those
// tell their CPUs; ARM's have registers of their own.
func (r *reader) readKinds() {
	for order, kind := range []struct{ pmu, name string }{
		{"cpu_lowpower", "IntelLowPower"}, {"cpu_atom", "IntelAtom"}, {"cpu_core", "IntelCore"},
	} {
		if cpus, err := r.fs.List("sys/devices/" + kind.pmu + "/cpus"); err == nil {
			r.parts.Kinds = append(r.parts.Kinds, topology.CPUKind{CPUs: cpus, Name: kind.name, Order: order})
		}
	}
	if first := r.parts.Online.First(); len(r.parts.Kinds) == 0 && first >= 0 && r.fs.Exists(cpuPath(first)+midrFile) {
		r.readARMKinds(r.midr)
	} else if len(r.parts.Kinds) == 0 && first >= 0 && r.fs.Exists(cpuPath(first)+capacityFile) {
		r.readARMKinds(func(cpu int) (string, bool) { return "", true })
	}
}

// Files of a CPU of arm64: its Main ID Register, and its speed compared with the fastest, which has 1024
// (drivers/base/arch_topology.c).
const (
	midrFile     = "/regs/identification/midr_el1"
	capacityFile = "/cpu_capacity"
)

// midr is what tells a CPU's core from other kinds, "0x…" of implementer, variant, part and revision.
func (r *reader) midr(cpu int) (string, bool) {
	text, err := r.fs.Text(cpuPath(cpu) + midrFile)
	if err != nil {
		return "", false
	}
	n, err := strconv.ParseUint(strings.TrimPrefix(text, "0x"), 16, 64)
	return fmt.Sprintf("%#08x", uint32(n)), err == nil
}

// readARMKinds tells CPUs apart by their register, and by their capacity only where the kernel shows no registers.
// Capacities of one kind of core may differ (NVIDIA's GB10 has eight for two kinds). The slowest CPU of a kind gives
// its order.
func (r *reader) readARMKinds(id func(cpu int) (string, bool)) {
	kinds := map[string]*topology.CPUKind{}
	for cpu := range r.parts.Online.All() {
		register, ok := id(cpu)
		if !ok {
			continue
		}
		capacity := max(r.id(cpuPath(cpu)+capacityFile), 0)
		key := register
		if register == "" {
			key = strconv.Itoa(capacity)
		}
		k := kinds[key]
		if k == nil {
			k = &topology.CPUKind{Order: capacity}
			kinds[key] = k
		}
		k.CPUs = k.CPUs.Union(idset.Of(cpu))
		k.Order = min(k.Order, capacity)
	}
	if len(kinds) < 2 {
		return
	}
	inOrder := func(a, b string) int { return cmp.Or(cmp.Compare(kinds[a].Order, kinds[b].Order), cmp.Compare(a, b)) }
	for _, key := range slices.SortedFunc(maps.Keys(kinds), inOrder) {
		k := kinds[key]
		k.Name = fmt.Sprintf("capacity %d", k.Order)
		k.Infos = []topology.Info{{Name: "LinuxCapacity", Value: strconv.Itoa(k.Order)}}
		if n, err := strconv.ParseUint(key, 0, 32); err == nil && strings.HasPrefix(key, "0x") {
			part := fmt.Sprintf("0x%03x", n>>4&0xfff) // ARM's architecture manual, MIDR_EL1.PartNum
			k.Name = "ARM part " + part + ", " + k.Name
			k.Infos = append(k.Infos, topology.Info{Name: "CPUPart", Value: part})
		}
		r.parts.Kinds = append(r.parts.Kinds, *k)
	}
}
