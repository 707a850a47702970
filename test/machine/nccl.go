package machine

import (
	"encoding/xml"
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/topology"
	"github.com/mpiup/mpiup/topology/discover"
)

// ncclSystem is NCCL's topology file (NCCL_TOPO_FILE, NCCL_TOPO_DUMP_FILE).
type ncclSystem struct {
	CPUs []struct {
		Node     int       `xml:"numaid,attr"`
		Affinity string    `xml:"affinity,attr"` // a mask, as the kernel writes it
		Vendor   string    `xml:"vendor,attr"`
		Family   string    `xml:"familyid,attr"`
		Model    string    `xml:"modelid,attr"`
		PCI      []ncclPCI `xml:"pci"`
	} `xml:"cpu"`
}

type ncclPCI struct {
	Bus       string    `xml:"busid,attr"`
	Class     string    `xml:"class,attr"` // 0x060400: a bridge
	Vendor    string    `xml:"vendor,attr"`
	Device    string    `xml:"device,attr"`
	SubVendor string    `xml:"subsystem_vendor,attr"`
	SubDevice string    `xml:"subsystem_device,attr"`
	Speed     string    `xml:"link_speed,attr"`
	Width     string    `xml:"link_width,attr"`
	PCI       []ncclPCI `xml:"pci"`
	XGMI      []struct {
		Target string `xml:"target,attr"` // address of another GPU
	} `xml:"gpu>xgmi"`
	Nets []struct {
		Name  string `xml:"name,attr"`
		Speed int    `xml:"speed,attr"` // Mb/s
	} `xml:"nic>net"`
}

// NCCL is the files of the machine that a topology file of NCCL describes, as a container that was
// given all of it sees them. The file has processors as masks, the PCI tree, GPUs and NICs; what it
// does not tell is made up:
//   - a mask of two ranges has two threads a core, the second range has the second ones;
//   - caches, memory (1 TiB a node) and distances (10, 21);
//   - HCAs without a name are mlx5_0, mlx5_1 ... in the file's order, their interfaces ib0, ib1 ...;
//   - GPUs without ids are H100s.
//
// Files for virtual machines have a bridge to another PCI domain, which no machine has, to say who shares a switch.
// It gets addresses of its own, with what is behind it.
func NCCL(text []byte) (discover.Files, error) {
	var sys ncclSystem
	if err := xml.Unmarshal(text, &sys); err != nil {
		return nil, err
	}
	g := &generator{files: discover.Files{}, nodes: len(sys.CPUs), kfd: map[string]int{}}
	for i, cpu := range sys.CPUs {
		set, err := idset.ParseMask(cpu.Affinity)
		if err != nil || set.Empty() {
			return nil, fmt.Errorf("affinity %q: %w", cpu.Affinity, err)
		}
		g.online = g.online.Union(set)
		g.cpuinfo += fmt.Sprintf("processor\t: %d\nvendor_id\t: %s\ncpu family\t: %s\nmodel\t\t: %s\nmodel name\t: %s %s/%s\n\n",
			set.First(), cpu.Vendor, cpu.Family, cpu.Model, cpu.Vendor, cpu.Family, cpu.Model)
		g.processor(i, cpu.Node, set)
		g.mask = cpu.Affinity
		g.node = cpu.Node
		g.made = topology.PCIAddr{Domain: uint32(i / 2), Bus: uint8(i % 2 * 0x80)} // a domain has 256 buses, for two processors
		for k, p := range cpu.PCI {
			if err := g.pci(p, "", k); err != nil {
				return nil, err
			}
		}
	}
	g.whole(len(sys.CPUs))
	return g.files, nil
}

type generator struct {
	files       discover.Files
	online      idset.Set
	cpuinfo     string // of the first CPU of each package
	nodes       int
	node        int
	mask        string
	made        topology.PCIAddr // where made up addresses of a processor begin
	gpus, hcas  int
	renderNodes int
	kfd         map[string]int // AMD's driver's numbers of GPUs, by address
	xgmi        [][2]string    // from one address to another
}

func (g *generator) text(name, text string) {
	g.files[name] = discover.File{Data: []byte(strings.TrimSuffix(text, "\n") + "\n")}
}

// link makes a link from one name to another, relative as the kernel's.
func (g *generator) link(name, to string) {
	up := strings.Repeat("../", strings.Count(path.Dir(name), "/")+1)
	g.files[name] = discover.File{Link: up + to}
}

// Mask is a set as the kernel writes it.
func Mask(s idset.Set) string {
	words := make([]string, s.Last()/32+1)
	for i := range words {
		var w uint32
		for bit := range 32 {
			if s.Contains(32*i + bit) {
				w |= 1 << bit
			}
		}
		words[len(words)-1-i] = fmt.Sprintf("%08x", w)
	}
	return strings.Join(words, ",")
}

// processor makes a package that is a NUMA node.
func (g *generator) processor(pkg, node int, cpus idset.Set) {
	all := cpus.Slice()
	threads := 1
	if strings.Count(cpus.String(), ",") == 1 {
		threads = 2
	}
	cores := len(all) / threads
	for i, cpu := range all {
		var core idset.Set
		for t := range threads {
			core.Add(all[i%cores+t*cores])
		}
		dir := fmt.Sprintf("sys/devices/system/cpu/cpu%d/", cpu)
		g.text(dir+"topology/core_cpus", Mask(core))
		g.text(dir+"topology/package_cpus", Mask(cpus))
		g.text(dir+"topology/core_id", strconv.Itoa(i%cores))
		g.text(dir+"topology/physical_package_id", strconv.Itoa(pkg))
		for index, c := range []struct {
			level, kib, sets int
			kind             string
			cpus             idset.Set
		}{{1, 48, 64, "Data", core}, {1, 32, 64, "Instruction", core}, {2, 2048, 2048, "Unified", core}, {3, 105 << 10, 114688, "Unified", cpus}} {
			dir := fmt.Sprintf("%scache/index%d/", dir, index)
			g.text(dir+"level", strconv.Itoa(c.level))
			g.text(dir+"size", strconv.Itoa(c.kib)+"K")
			g.text(dir+"type", c.kind)
			g.text(dir+"coherency_line_size", "64")
			g.text(dir+"number_of_sets", strconv.Itoa(c.sets))
			g.text(dir+"physical_line_partition", "1")
			g.text(dir+"shared_cpu_map", Mask(c.cpus))
		}
	}
	dir := fmt.Sprintf("sys/devices/system/node/node%d/", node)
	g.text(dir+"cpumap", Mask(cpus))
	g.text(dir+"meminfo", fmt.Sprintf("Node %d MemTotal:       1073741824 kB", node))
	g.text(dir+"hugepages/hugepages-2048kB/nr_hugepages", "0")
	distances := make([]string, g.nodes)
	for i := range distances {
		if distances[i] = "21"; i == pkg {
			distances[i] = "10"
		}
	}
	g.text(dir+"distance", strings.Join(distances, " "))
}

// whole makes what is there once.
func (g *generator) whole(nodes int) {
	g.text("sys/devices/system/cpu/online", g.online.String())
	g.text("sys/devices/system/node/online", idset.Range(0, nodes-1).String())
	g.text("proc/self/status", fmt.Sprintf("Cpus_allowed_list:\t%s\nMems_allowed_list:\t%s\n", g.online, idset.Range(0, nodes-1)))
	g.text("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "0")
	g.text("proc/cpuinfo", g.cpuinfo)
	g.text("proc/self/cpuset", "/")
	g.text("proc/self/cgroup", "0::/")
	g.text("proc/mounts", "cgroup /sys/fs/cgroup cgroup2 ro,relatime 0 0")
	g.text("sys/fs/cgroup/cpuset.cpus.effective", g.online.String())
	g.text("sys/fs/cgroup/cpuset.mems.effective", idset.Range(0, nodes-1).String())
	g.text("sys/fs/cgroup/cpu.max", "max 100000")
	g.files["dev/null"] = discover.File{}
	next := map[int]int{}
	for _, x := range g.xgmi {
		from, to := g.kfd[x[0]], g.kfd[x[1]]
		g.text(fmt.Sprintf("sys/class/kfd/kfd/topology/nodes/%d/io_links/%d/properties", from, next[from]), fmt.Sprintf("type 11\nnode_to %d", to))
		next[from]++
	}
}

// pci makes a function and what is behind it, in a directory "" of no bridge.
func (g *generator) pci(p ncclPCI, dir string, k int) error {
	at, err := topology.ParsePCIAddr(p.Bus)
	if err != nil {
		return err
	}
	if foreign := len(p.PCI) > 0 && !strings.HasPrefix(p.PCI[0].Bus, p.Bus[:4]); foreign {
		if k > 30 || len(p.PCI) > 32 { // a bus has 32 devices, the first one the processor's
			return fmt.Errorf("%s: more bridges or functions than have addresses", p.Bus)
		}
		at = g.made
		at.Device = uint8(k + 1)
		for i := range p.PCI {
			p.PCI[i].Bus = topology.PCIAddr{Domain: at.Domain, Bus: at.Bus + at.Device, Device: uint8(i)}.String()
		}
	}
	if _, twice := g.files["sys/bus/pci/devices/"+at.String()]; twice {
		return fmt.Errorf("%s is there twice", at)
	}
	if dir == "" {
		dir = fmt.Sprintf("sys/devices/pci%04x:%02x", at.Domain, at.Bus)
	}
	dir += "/" + at.String()
	g.link("sys/bus/pci/devices/"+at.String(), dir)
	if p.Class == "0x030200" && p.Vendor == "" {
		p.Vendor, p.Device = "0x10de", "0x2330"
	}
	if p.Class == "0x020700" && p.Vendor == "" {
		p.Vendor, p.Device = "0x15b3", "0x101e"
	}
	for _, f := range [][2]string{{"class", p.Class}, {"vendor", p.Vendor}, {"device", p.Device}, {"subsystem_vendor", p.SubVendor},
		{"subsystem_device", p.SubDevice}, {"revision", "0x00"}, {"numa_node", strconv.Itoa(g.node)}, {"local_cpus", g.mask},
		{"current_link_speed", p.Speed}, {"current_link_width", p.Width}} {
		if f[1] != "" {
			g.text(dir+"/"+f[0], f[1])
		}
	}
	last := at.Bus
	for i, c := range p.PCI {
		if err := g.pci(c, dir, i); err != nil {
			return err
		}
		last = max(last, lastBus(c))
	}
	switch {
	case p.Class == "0x060400":
		g.text(dir+"/secondary_bus_number", strconv.Itoa(firstBus(p)))
		g.text(dir+"/subordinate_bus_number", strconv.Itoa(int(last)))
		config := make([]byte, 64) // where hwloc looks: header type 1, buses
		config[0x0e], config[0x18], config[0x19], config[0x1a] = 1, at.Bus, byte(firstBus(p)), last
		g.files[dir+"/config"] = discover.File{Data: config}
	case strings.HasPrefix(p.Class, "0x03"), strings.HasPrefix(p.Class, "0x12"):
		g.gpu(p, at, dir)
	case strings.HasPrefix(p.Class, "0x02"):
		g.hca(p, dir)
	}
	return nil
}

func bus(p ncclPCI) uint8 {
	at, _ := topology.ParsePCIAddr(p.Bus) // checked by pci
	return at.Bus
}

// firstBus is the least bus behind a bridge.
func firstBus(p ncclPCI) int {
	least := 255
	for _, c := range p.PCI {
		least = min(least, int(bus(c)))
	}
	return least
}

// lastBus is the greatest bus of a function and behind it.
func lastBus(p ncclPCI) uint8 {
	last := bus(p)
	for _, c := range p.PCI {
		last = max(last, lastBus(c))
	}
	return last
}

func (g *generator) gpu(p ncclPCI, at topology.PCIAddr, dir string) {
	n := g.gpus
	g.gpus++
	if p.Vendor == "0x10de" {
		g.text(fmt.Sprintf("proc/driver/nvidia/gpus/%s/information", at),
			fmt.Sprintf("Model: \t\t NVIDIA H100 80GB HBM3\nBus Location: \t %s\nDevice Minor: \t %d\n", at, n))
		g.files[fmt.Sprintf("dev/nvidia%d", n)] = discover.File{}
		g.files["dev/nvidiactl"] = discover.File{}
		return
	}
	render := 128 + g.renderNodes
	g.renderNodes++
	g.text(fmt.Sprintf("%s/drm/renderD%d/dev", dir, render), fmt.Sprintf("226:%d", render))
	g.text(fmt.Sprintf("sys/class/kfd/kfd/topology/nodes/%d/properties", g.nodes+n),
		fmt.Sprintf("simd_count 1216\nlocation_id %d\ndomain %d\ndrm_render_minor %d\n", int(at.Bus)<<8|int(at.Device)<<3|int(at.Function), at.Domain, render))
	g.kfd[at.String()] = g.nodes + n
	for _, x := range p.XGMI {
		g.xgmi = append(g.xgmi, [2]string{at.String(), x.Target})
	}
	g.files[fmt.Sprintf("dev/dri/renderD%d", render)] = discover.File{}
	g.files["dev/kfd"] = discover.File{}
}

func (g *generator) hca(p ncclPCI, dir string) {
	n := g.hcas
	g.hcas++
	name, rate := fmt.Sprintf("mlx5_%d", n), 400
	if len(p.Nets) > 0 {
		name, rate = p.Nets[0].Name, p.Nets[0].Speed/1000
	}
	hca, verbs, net := dir+"/infiniband/"+name, fmt.Sprintf("%s/infiniband_verbs/uverbs%d", dir, n), fmt.Sprintf("%s/net/ib%d", dir, n)
	g.link("sys/class/infiniband/"+name, hca)
	g.link(fmt.Sprintf("sys/class/infiniband_verbs/uverbs%d", n), verbs)
	g.link(fmt.Sprintf("sys/class/net/ib%d", n), net)
	g.text(hca+"/node_guid", fmt.Sprintf("0200:0000:0000:%04x", n+1))
	g.text(hca+"/sys_image_guid", fmt.Sprintf("0200:0000:0000:%04x", n+1))
	g.text(hca+"/ports/1/state", "4: ACTIVE")
	g.text(hca+"/ports/1/phys_state", "5: LinkUp")
	g.text(hca+"/ports/1/link_layer", "InfiniBand")
	g.text(hca+"/ports/1/rate", fmt.Sprintf("%d Gb/sec (4X NDR)", rate))
	g.text(verbs+"/ibdev", name)
	g.text(net+"/address", fmt.Sprintf("02:00:00:00:00:%02x", n+1))
	for _, d := range []string{hca, verbs, net} {
		g.files[d+"/device"] = discover.File{Link: "../.."}
	}
	g.files[fmt.Sprintf("dev/infiniband/uverbs%d", n)] = discover.File{}
}
