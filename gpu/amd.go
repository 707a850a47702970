package gpu

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/mpiup/mpiup/topology"
)

// kfdNodes has a directory for each node of AMD's compute driver (kfd_topology.c); processors are
// nodes too.
const kfdNodes = "sys/class/kfd/kfd/topology/nodes"

// maxKFDNodes bounds nodes, and links of one. A host of 8 GPUs in 8 partitions has 66.
const maxKFDNodes = 1 << 10

// amd finds the nodes that have vector units (simd_count). This process must be able to open their render
// devices, and /dev/kfd: /sys shows all GPUs of the machine, /dev/dri only the container's.
func (r reader) amd() (gpus []Seen) {
	nodes := r.fs.Numbers(kfdNodes, "", maxKFDNodes)
	if nodes.Empty() {
		return nil
	}
	driver := r.missing("dev/kfd")
	next := 0                        // ROCr counts nodes that it may open
	at := map[int]topology.PCIAddr{} // by node
	var from []int                   // the node of each GPU
	for n := range nodes.All() {
		dir := fmt.Sprintf("%s/%d", kfdNodes, n)
		g, ok := r.amdGPU(dir)
		if !ok || len(gpus) == maxGPUs {
			continue
		}
		if g.Missing = cmp.Or(driver, g.Missing); g.Missing == "" {
			g.Number = next
			next++
		}
		gpus, from = append(gpus, g), append(from, n)
		at[n] = g.At
	}
	for i := range gpus {
		gpus[i].Links = r.xgmi(fmt.Sprintf("%s/%d/io_links", kfdNodes, from[i]), at)
	}
	dropShared(gpus)
	return gpus
}

// properties are a file's lines "simd_count 304". A node of another container has none: the kernel
// answers EPERM.
func (r reader) properties(path string) map[string]uint64 {
	text, err := r.fs.Text(path)
	if err != nil {
		return nil
	}
	values := map[string]uint64{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.ParseUint(value, 10, 64)
		switch {
		case err != nil:
			r.fs.Note(path, "%.40q is not a name and a number", line)
		case len(values) < maxKFDNodes:
			values[name] = n
		}
	}
	return values
}

func (r reader) amdGPU(dir string) (Seen, bool) {
	p := r.properties(dir + "/properties")
	minor := p["drm_render_minor"]
	if p["simd_count"] == 0 || minor == 0 && !r.bare || minor > maxMinor || p["domain"] > 1<<32-1 {
		return Seen{}, false
	}
	render := fmt.Sprintf("renderD%d", minor)
	where := p["location_id"] // bus, device and function as PCI packs them; above, which partition
	g := Seen{Vendor: AMD, Missing: r.missing("dev/dri/" + render), GPU: GPU{
		Minor: int(minor),
		At: topology.PCIAddr{Domain: uint32(p["domain"]), Bus: uint8(where >> 8),
			Device: uint8(where>>3) & 31, Function: uint8(where) & 7},
	}}
	if id := p["unique_id"]; id != 0 {
		g.UUID = fmt.Sprintf("GPU-%016x", id)
	}
	if name, err := r.fs.Text("sys/class/drm/" + render + "/device/product_name"); err == nil {
		g.Model = clean(name)
	}
	g.Memory = r.vram(dir + "/mem_banks")
	return g, true
}

// vram adds a node's banks of its own memory: heap types 1, which processors can reach, and 2
// (kfd_crat.h).
func (r reader) vram(dir string) (bytes uint64) {
	for n := range r.fs.Numbers(dir, "", maxKFDNodes).All() {
		if p := r.properties(fmt.Sprintf("%s/%d/properties", dir, n)); p["heap_type"] == 1 || p["heap_type"] == 2 {
			bytes += p["size_in_bytes"]
		}
	}
	return bytes
}

// linkXGMI is the type of a link between AMD's GPUs (kfd_crat.h); 2 is PCI Express.
const linkXGMI = 11

func (r reader) xgmi(dir string, at map[int]topology.PCIAddr) (links []Link) {
	for n := range r.fs.Numbers(dir, "", maxKFDNodes).All() {
		p := r.properties(fmt.Sprintf("%s/%d/properties", dir, n))
		if to, ok := at[int(min(p["node_to"], maxKFDNodes))]; ok && p["type"] == linkXGMI && len(links) < maxGPUs {
			links = append(links, Link{To: to, Kind: XGMI, Count: 1})
		}
	}
	return links
}

// dropShared takes names away that several GPUs have: partitions of one, before Linux 6.12.
func dropShared(gpus []Seen) {
	count := map[string]int{}
	for i := range gpus {
		count[gpus[i].UUID]++
	}
	for i := range gpus {
		if count[gpus[i].UUID] > 1 {
			gpus[i].UUID = ""
		}
	}
}
