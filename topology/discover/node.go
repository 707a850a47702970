package discover

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/topology"
	"github.com/mpiup/mpiup/topology/sysfs"
)

const nodeDir = "sys/devices/system/node"

// maxNode is the largest NUMA node Linux can be built for (NODES_SHIFT 10).
const maxNode = 1023

// readNodes finds NUMA nodes. Kernels without NUMA, and containers that hide it, have no node
// directory; the machine's memory is one node then.
func (r *reader) readNodes(power bool) {
	online, err := r.fs.List(nodeDir + "/online")
	if err != nil || online.Empty() || online.Last() > maxNode {
		online = r.fs.Numbers(nodeDir, "node", maxNode)
	}
	gpus := r.gpuMemory()
	var sizes []string // of large pages: "hugepages-2048kB"
	if !online.Empty() {
		sizes, _ = r.fs.Names("sys/kernel/mm/hugepages")
	}
	var kept idset.Set
	seen := make(map[string]bool) // CPUs of nodes; firmware that has told them wrong says the same of each
	for n := range online.All() {
		dir := nodeDir + "/node" + strconv.Itoa(n)
		cpus, err := r.fs.Mask(dir + "/cpumap")
		gpu, isGPU := gpus[n]
		if err != nil || isGPU && power || seen[cpus.String()] {
			continue
		}
		seen[cpus.String()] = !cpus.Empty()
		node := topology.NodePart{OS: n, CPUs: cpus, Memory: topology.Memory{Size: r.memTotal(dir + "/meminfo")}}
		node.Pages = r.pages(dir, node.Size, sizes)
		if isGPU {
			node.Kind, node.Infos = topology.GPUMemory, []topology.Info{{Name: "PCIBusID", Value: gpu}}
			node.CPUs, _ = r.fs.Mask(pciDir + "/" + gpu + "/local_cpus")
		}
		if cpus.Empty() {
			node.Near = r.initiators(dir, n)
		}
		kept.Add(n)
		r.parts.Nodes = append(r.parts.Nodes, node)
	}
	if len(r.parts.Nodes) == 0 {
		sizes, _ = r.fs.Names("sys/kernel/mm/hugepages")
		r.parts.Memory.Size = r.memTotal("proc/meminfo")
		r.parts.Memory.Pages = r.pages("sys/kernel/mm", r.parts.Memory.Size, sizes)
	}
	if len(r.parts.Nodes) > 1 {
		r.readLatency(online, kept)
	}
	r.compareMemory()
}

// compareMemory notes where the nodes do not have what the kernel has of all: some virtual machines tell nodes of less.
func (r *reader) compareMemory() {
	const file = "proc/meminfo"
	var sum uint64
	for _, n := range r.parts.Nodes {
		sum += n.Size
	}
	if all := r.memTotal(file); sum > 0 && all > 0 && max(sum, all)-min(sum, all) > all/8 {
		r.fs.Note(file, "it has %.1f GiB in all, and the NUMA nodes %.1f GiB", float64(all)/(1<<30), float64(sum)/(1<<30))
	}
}

// gpuMemory is the nodes that are the memory of NVIDIA GPUs, with the GPUs' PCI addresses
// (/proc/driver/nvidia/gpus/*/numa_status). POWER's hwloc hides them.
func (r *reader) gpuMemory() map[int]string {
	const dir = "proc/driver/nvidia/gpus"
	names, _ := r.fs.Names(dir)
	nodes := make(map[int]string)
	for _, gpu := range names {
		addr, err := topology.ParsePCIAddr(strings.ToLower(gpu))
		if err != nil {
			continue
		}
		text, _ := r.fs.Text(dir + "/" + gpu + "/numa_status")
		value, _ := sysfs.Field(text, "Node:")
		if n, err := strconv.Atoi(value); err == nil {
			nodes[n] = addr.String()
		}
	}
	return nodes
}

// memTotal reads "MemTotal: 5597388 kB", with "Node 0 " before it in a node's own file.
func (r *reader) memTotal(name string) uint64 {
	text, err := r.fs.Prefix(name, 4<<10)
	if err != nil {
		return 0
	}
	_, rest, ok := strings.Cut(string(text), "MemTotal:")
	if !ok {
		return 0
	}
	digits, _, _ := strings.Cut(strings.TrimLeft(rest, " \t"), " ")
	kib, err := strconv.ParseUint(digits, 10, 53)
	if err != nil {
		r.fs.Note(name, "MemTotal %.40q is not a number", digits)
		return 0
	}
	return kib << 10
}

// pages is how much of a memory is in large pages (nodeN/hugepages/hugepages-2048kB/nr_hugepages,
// or the same under /sys/kernel/mm) and how much in normal ones.
func (r *reader) pages(dir string, size uint64, sizes []string) []topology.Pages {
	pages := []topology.Pages{{Size: uint64(r.pageSize)}}
	left := size
	for _, name := range sizes {
		kib, ok := strings.CutPrefix(name, "hugepages-")
		kib, isKB := strings.CutSuffix(kib, "kB")
		n, err := strconv.ParseUint(kib, 10, 40)
		if !ok || !isKB || err != nil || n == 0 || len(pages) > 16 {
			continue
		}
		count, err := r.fs.Int(dir + "/hugepages/" + name + "/nr_hugepages")
		if err != nil || count < 0 {
			continue
		}
		pages = append(pages, topology.Pages{Size: n << 10, Count: uint64(count)})
		left -= min(left, uint64(count)*(n<<10))
	}
	pages[0].Count = left / pages[0].Size
	slices.SortFunc(pages, func(x, y topology.Pages) int { return cmp.Compare(x.Size, y.Size) })
	return pages
}

// initiators is the nodes whose CPUs reach a node fastest, by the firmware's HMAT. access1 counts
// CPUs only, access0 other initiators too (Linux 5.10).
func (r *reader) initiators(dir string, self int) []int {
	near := r.fs.Numbers(dir+"/access1/initiators", "node", maxNode)
	if near.Empty() {
		near = r.fs.Numbers(dir+"/access0/initiators", "node", maxNode)
	}
	return near.Sub(idset.Of(self)).Slice()
}

// readLatency reads nodeN/distance, a row of numbers for the nodes that are online, of which some
// may not be kept.
func (r *reader) readLatency(online, kept idset.Set) {
	l := &topology.Latency{Nodes: kept.Slice()}
	for n := range kept.All() {
		name := nodeDir + "/node" + strconv.Itoa(n) + "/distance"
		text, err := r.fs.Text(name)
		if err != nil {
			return
		}
		fields := strings.Fields(text)
		if len(fields) != online.Len() {
			r.fs.Note(name, "%d distances of %d nodes", len(fields), online.Len())
			return
		}
		row := make([]uint64, 0, len(l.Nodes))
		column := 0
		for to := range online.All() {
			d, err := strconv.ParseUint(fields[column], 10, 32)
			if err != nil {
				r.fs.Note(name, "%.40q is no distance", fields[column])
				return
			}
			if column++; kept.Contains(to) {
				row = append(row, d)
			}
		}
		l.Values = append(l.Values, row)
	}
	r.parts.Latency = l
}
