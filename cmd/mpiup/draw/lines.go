package draw

import (
	"fmt"
	"strings"

	"github.com/mpiup/mpiup/topology"
)

// lines is what is inside an object: memory, parts, devices.
func (v *View) lines(o *topology.Object) (lines []*line) {
	for _, m := range o.Memory {
		lines = append(lines, v.memoryLine(m))
	}
	var parts []*line
	for _, c := range o.Children {
		parts = append(parts, v.partLine(c))
	}
	lines = append(folded(lines), folded(parts)...)
	for _, b := range v.branches(o.IO) {
		lines = append(lines, v.branchLine(b))
	}
	return lines
}

func (v *View) memoryLine(o *topology.Object) *line {
	l := &line{what: "NUMA node", memory: true, many: 1, id: []int{o.OS}, fold: 2}
	if o.Subtype == topology.GPUMemory {
		l.what, l.fold = "GPU memory, NUMA node", 0
	}
	if o.Memo.Size > 0 {
		l.more = ": " + size(o.Memo.Size)
	}
	if gpu := info(o.Infos, "PCIBusID"); gpu != "" {
		l.more += " of " + gpu
	}
	if !v.Limits.Of(o) {
		l.more += " [not usable]"
	}
	return l
}

// partLine is a package, die, cache, group, core or CPU. An object with one part inside and nothing
// beside it is one line with it: "core (L2 512 KiB, L1 64 KiB, L1i 64 KiB), 2 threads".
func (v *View) partLine(o *topology.Object) *line {
	l := &line{many: 1, fold: 2, more: v.mark(o)}
	if !o.CPUs.Empty() {
		l.cpus = []string{o.CPUs.String()}
	}
	inner, caches := v.chain(o)
	switch inner.Type {
	case topology.TypePackage, topology.TypeDie:
		l.what = inner.Type.String()
		if l.id = []int{inner.OS}; inner.OS < 0 {
			l.id = nil
		}
		l.fold = 3
	case topology.TypeGroup:
		l.what = "Group"
		if inner.Subtype != "" {
			l.what = clean(inner.Subtype)
		}
	case topology.TypeCore:
		l.what = "core"
	case topology.TypePU:
		l.what, l.fold = "CPU", 2
	default:
		l.what, caches = strings.Join(caches, ", "), nil
	}
	if len(caches) > 0 {
		l.what += " (" + strings.Join(caches, ", ") + ")"
	}
	if inner.Type == topology.TypeCore {
		if n := len(inner.Children); n > 1 {
			l.what += fmt.Sprintf(", %d threads", n)
		}
		return l
	}
	l.below = v.lines(inner)
	return l
}

// chain follows an object inwards as long as there is one part inside and nothing beside it, and names
// the caches on the way.
func (v *View) chain(o *topology.Object) (inner *topology.Object, caches []string) {
	for inner = o; ; inner = inner.Children[0] {
		if inner.Cache != nil {
			caches = append(caches, cacheName(inner))
		}
		if len(inner.Children) != 1 || len(inner.Memory)+len(v.branches(inner.IO)) > 0 || inner.Type == topology.TypePackage ||
			inner.Type == topology.TypeCore || inner.Type == topology.TypePU || inner.Children[0].Type == topology.TypePU {
			return inner, caches
		}
	}
}

func cacheName(o *topology.Object) string {
	name := strings.TrimSuffix(o.Type.String(), "Cache")
	if o.Cache.Kind == topology.Data && o.Cache.Level == 1 {
		name += "d"
	}
	if o.Cache.Size > 0 {
		name += " " + size(o.Cache.Size)
	}
	return name
}

// mark says what of an object may be used, if not all.
func (v *View) mark(o *topology.Object) string {
	own := o.CPUs.Intersect(v.Limits.CPUs)
	switch {
	case own.Equal(o.CPUs):
		return ""
	case own.Empty():
		return " [not usable]"
	}
	return " [usable: " + own.String() + "]"
}

func (v *View) branchLine(b branch) *line {
	l := &line{what: b.title(), many: 1, more: " " + b.address()}
	if b.at.PCI != nil && b.at.PCI.LinkSpeed > 0 && len(b.branches) == 0 {
		l.more += fmt.Sprintf(", link %.3g GB/s", b.at.PCI.LinkSpeed)
	}
	for _, p := range b.device.ports() {
		l.more += ", " + p
	}
	if !b.device.usable() {
		l.more += " [not usable: no " + b.device.missing() + "]"
	}
	for _, c := range b.branches {
		l.below = append(l.below, v.branchLine(c))
	}
	return l
}
