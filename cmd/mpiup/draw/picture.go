package draw

import (
	"fmt"
	"strings"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/topology"
)

// sketch is a view as boxes, whose words are those of the lines of text.
type sketch struct{ outline }

// picture is the boxes of the whole view: memory, parts and devices of the machine, then CPUs that are
// offline, whose place the kernel does not tell.
func (v sketch) picture() *box {
	page := &box{class: "page", title: v.caption(), pad: 2 * gap}
	memory, parts, devices := v.contents(v.Machine.Root)
	var offline []*box
	if off := v.offline(); !off.Empty() {
		b := &box{class: "group", title: []string{"offline, place unknown"}, pad: gap}
		offline = []*box{b.stack(v.cells(off))}
	}
	page.stack(memory, parts, devices, offline, v.linkBoxes(), []*box{v.legend()})
	return page
}

// linkBoxes are the pictures of links, side by side.
func (v sketch) linkBoxes() (all []*box) {
	for _, b := range []*box{v.matrixBox(), v.meshBox()} {
		if b != nil {
			all = append(all, b)
		}
	}
	return all
}

// caption is what stands above the picture.
func (v sketch) caption() []string {
	s := Summary(v.View)
	return []string{
		strings.Trim(v.Name+", "+v.hardware(), ", "),
		fmt.Sprintf("%s: %s, %s, %s", v.processor(), visible.Count(len(v.Machine.All(topology.TypeCore)), "core"),
			visible.Count(v.Machine.Root.CPUs.Len(), "CPU"), visible.Count(len(v.nodes()), "NUMA node")),
		fmt.Sprintf("usable: %s, %s, memory of %s, %s, %s", visible.Count(s.Cores, "core"), visible.Count(s.CPUs, "CPU"),
			nodeList(v.usableNodes()), visible.Count(s.GPUs, "GPU"), visible.Count(s.HCAs, "HCA")),
		"sharing: " + v.sharing(),
	}
}

// legend says what the colours mean.
func (v sketch) legend() *box {
	b := &box{class: "plain", pad: 0}
	entries := [][2]string{{"cpu", "usable"}, {"cpu off", "not usable"}}
	if !v.offline().Empty() {
		entries = append(entries, [2]string{"cpu offline", "offline"})
	}
	for i, k := range v.Machine.Kinds {
		entries = append(entries, [2]string{kindClass(i, len(v.Machine.Kinds)), clean(k.Name)})
	}
	var boxes []*box
	for _, e := range entries {
		boxes = append(boxes, (&box{class: e[0], title: []string{e[1]}}).fit())
	}
	return b.stack(boxes)
}

// contents is the boxes of what is inside an object.
func (v sketch) contents(o *topology.Object) (memory, parts, devices []*box) {
	for _, m := range o.Memory {
		memory = append(memory, v.memoryBox(m))
	}
	for _, c := range o.Children {
		parts = append(parts, v.partBox(c))
	}
	for _, b := range v.branches(o.IO) {
		devices = append(devices, v.branchBox(b))
	}
	return memory, parts, devices
}

func (v sketch) memoryBox(o *topology.Object) *box {
	l := v.memoryLine(o)
	b := &box{class: "memory", title: []string{strings.TrimSuffix(l.String(), " [not usable]")}, tip: l.String()}
	if !v.Limits.Of(o) {
		b.class = "memory off"
	}
	return b.fit()
}

// partBox is a package, die, cache, group, core or CPU.
func (v sketch) partBox(o *topology.Object) *box {
	inner, caches := v.chain(o)
	l := v.partLine(o)
	if inner.Type == topology.TypeCore || inner.Type == topology.TypePU {
		b := &box{class: "core", tip: l.String(), pad: 2}
		cells := v.cells(inner.CPUs)
		for i, c := range cells {
			c.x, c.y = b.pad+i*cellWidth, b.pad
		}
		b.inside = cells
		return b.fit()
	}
	b := &box{class: "part", pad: gap, tip: l.String()}
	switch inner.Type {
	case topology.TypePackage, topology.TypeDie:
		b.class = strings.ToLower(inner.Type.String())
		b.title = []string{fmt.Sprintf("%s %d", inner.Type, max(inner.OS, 0))}
		if inner.OS < 0 {
			b.title = []string{inner.Type.String()}
		}
	case topology.TypeGroup:
		b.class, b.title = "group", []string{"Group"}
		if inner.Subtype != "" {
			b.title = []string{clean(inner.Subtype)}
		}
	default:
		b.title = []string{strings.Join(caches, ", ")}
	}
	if each := v.each(inner); each != "" {
		b.title = append(b.title, each)
	}
	memory, parts, devices := v.contents(inner)
	if len(parts) == 1 {
		parts[0].spread(rowWidth(devices))
	}
	b.stack(memory, parts, devices)
	if len(memory)+len(devices) == 0 {
		b.spread(b.w)
	}
	b.widen(memory)
	return b
}

// rowWidth is how wide boxes are together, once placed.
func rowWidth(boxes []*box) int {
	rows(boxes, 0, 0, gap)
	width := 0
	for _, b := range boxes {
		width = max(width, b.x+b.w)
	}
	return width
}

// each says what an object's cores have, if all are alike: "8 cores: L2 512 KiB".
func (v sketch) each(o *topology.Object) string {
	var first string
	for _, c := range o.Children {
		inner, caches := v.chain(c)
		if inner.Type != topology.TypeCore {
			return ""
		}
		if text := strings.Join(caches, ", "); first == "" {
			first = text
		} else if text != first {
			return ""
		}
	}
	if first == "" {
		return ""
	}
	return visible.Count(len(o.Children), "core") + ": " + first
}

// cells is a box for each CPU.
func (v sketch) cells(cpus idset.Set) (cells []*box) {
	for cpu := range cpus.All() {
		b := &box{class: "cpu", title: []string{fmt.Sprint(cpu)}, tip: fmt.Sprintf("CPU %d", cpu), w: cellWidth, h: cellHeight}
		switch {
		case !v.Machine.Root.CPUs.Contains(cpu):
			b.class = "cpu offline"
		case !v.Limits.CPUs.Contains(cpu):
			b.class = "cpu off"
		default:
			for i, k := range v.Machine.Kinds {
				if k.CPUs.Contains(cpu) {
					b.class = kindClass(i, len(v.Machine.Kinds))
				}
			}
		}
		cells = append(cells, b)
	}
	return cells
}

// kindClass is the colour of a kind of core. The fastest kind has that of a machine without kinds.
func kindClass(i, n int) string {
	if i == n-1 {
		return "cpu"
	}
	return fmt.Sprintf("cpu kind%d", min(i, 1))
}

func (v sketch) branchBox(b branch) *box {
	out := &box{class: "pci", tip: v.branchLine(b).String(), pad: gap}
	if len(b.branches) > 0 {
		out.title = []string{b.title() + " " + b.address()}
		var inside []*box
		for _, c := range b.branches {
			inside = append(inside, v.branchBox(c))
		}
		return out.stack(inside)
	}
	out.title, out.pad = []string{b.title(), b.address()}, 2
	if b.at.PCI != nil && b.at.PCI.LinkSpeed > 0 {
		out.title[1] += fmt.Sprintf(", link %.3g GB/s", b.at.PCI.LinkSpeed)
	}
	switch {
	case b.device.gpu != nil:
		out.class = "gpu"
		if m := b.device.gpu.Memory; m > 0 {
			out.title = append(out.title, size(m))
		}
	case b.device.hca != nil:
		out.class = "hca"
		out.title = append(out.title, b.device.ports()...)
	default:
		out.class = "net"
	}
	if !b.device.usable() {
		out.class += " off"
		out.title = append(out.title, "no "+b.device.missing())
	}
	return out.fit()
}
