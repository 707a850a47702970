package rdma

import (
	"cmp"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/topology"
	"github.com/mpiup/mpiup/topology/sysfs"
)

// Bounds of what is read. A large machine has 16 HCAs of 2 ports; with virtual functions some hundreds.
const (
	maxHCAs  = 1024
	maxPorts = 16
	maxGIDs  = 512 // entries of a table; mlx5 has 255
)

const (
	class   = "sys/class/infiniband/"
	verbs   = "sys/class/infiniband_verbs/"
	granted = "dev/infiniband/"
)

// Config is what files do not tell.
type Config struct {
	// Addresses are those of this pod's interfaces. A GID whose interface cannot be seen counts when it is
	// one of them. Asked for at the first port that is looked into; nil: none are known.
	Addresses func() []Address

	// Survey lists what a machine has, for people to look at: GIDs are not read, and where no device file can be
	// seen at all (no /dev/null: a tree of /sys and /proc alone) none is missed.
	Survey bool
}

// Read lists the HCAs of /sys/class/infiniband. A machine without has an empty inventory.
func Read(fsys sysfs.FS, cfg Config) Inventory {
	names, _ := fsys.Names(strings.TrimSuffix(class, "/"))
	names = slices.DeleteFunc(names, func(n string) bool { return !plain(n) || strings.HasPrefix(n, "scif") }) // the Xeon Phi's
	slices.SortFunc(names, byNumber)
	inv := Inventory{GDR: readGDR(fsys)}
	files := verbsFiles(fsys)
	addresses := func() []Address { return nil }
	if cfg.Addresses != nil {
		addresses = sync.OnceValue(cfg.Addresses)
	}
	bare := cfg.Survey && !fsys.Exists("dev/null")
	for _, name := range names[:min(len(names), maxHCAs)] {
		h := readHCA(fsys, name, files[name])
		for n := range fsys.Numbers(class+name+"/ports", "", 255).All() {
			if n == 0 || len(h.Ports) == maxPorts {
				continue
			}
			h.Ports = append(h.Ports, readPort(fsys, name, n))
		}
		if !bare {
			h.Missing = missing(fsys, &h)
		}
		h.Denied = denied(&h)
		if h.Denied == "" && !cfg.Survey { // a table has 255 entries: those of others' HCAs are nobody's business here
			for _, p := range h.Active() {
				p.GIDs = readGIDs(fsys, portDir(name, p.Number), p.Ethernet, addresses())
			}
		}
		inv.HCAs = append(inv.HCAs, h)
	}
	return inv
}

// plain says that a name from /sys is one that paths can be made of.
func plain(name string) bool {
	return name != "" && len(name) <= 64 && !strings.ContainsAny(name, "/\x00,:= \t\n^") && name[0] != '.'
}

// byNumber orders mlx5_2 before mlx5_10, as the kernel made them.
func byNumber(a, b string) int {
	headA, numA := cutNumber(a)
	headB, numB := cutNumber(b)
	return cmp.Or(cmp.Compare(headA, headB), cmp.Compare(numA, numB), cmp.Compare(a, b))
}

func cutNumber(name string) (head string, number int) {
	head = strings.TrimRight(name, "0123456789")
	number, _ = strconv.Atoi(name[len(head):])
	return head, number
}

// verbsFiles is the device file of each HCA, by /sys/class/infiniband_verbs/uverbsN/ibdev.
func verbsFiles(fsys sysfs.FS) map[string]string {
	files := map[string]string{}
	names, _ := fsys.Names(strings.TrimSuffix(verbs, "/"))
	for _, v := range names {
		if !plain(v) {
			continue
		}
		device, err := fsys.Text(verbs + v + "/ibdev")
		switch {
		case err != nil:
		case plain(device):
			files[device] = v
		default:
			fsys.Note(verbs+v+"/ibdev", "%.40q is not the name of a device", device)
		}
	}
	return files
}

func readHCA(fsys sysfs.FS, name, file string) HCA {
	h := HCA{Name: name, Kind: Verbs, Verbs: file, Node: topology.NoIndex}
	dir := class + name + "/device"
	if link, err := fsys.Link(dir + "/driver"); err == nil {
		h.Driver = path.Base(link)
	}
	switch {
	case h.Driver == "efa" || strings.HasPrefix(name, "efa_"):
		h.Kind = EFA
	case h.Driver == "hfi1" || strings.HasPrefix(name, "hfi1_"):
		h.Kind = OmniPath
	}
	if n, err := fsys.Int(dir + "/numa_node"); err == nil && n >= 0 {
		h.Node = n
	}
	h.Path = pciPath(fsys, name, h.Node)
	h.At = h.Path.At()
	target, _ := fsys.Link(class + name)
	h.virtual = strings.Contains(target, "/virtual/")
	h.VF = fsys.Exists(dir + "/physfn")
	h.Near = near(fsys, dir)
	return h
}

// near is the CPUs of /sys/…/local_cpulist, or of local_cpus.
func near(fsys sysfs.FS, dir string) idset.Set {
	if cpus, err := fsys.List(dir + "/local_cpulist"); err == nil {
		return cpus
	}
	cpus, _ := fsys.Mask(dir + "/local_cpus")
	return cpus
}

// pciPath follows the links by which the HCA is found. That of its class goes through the function's whole path;
// the device link may be short ("../../../0000:3b:00.0"), and then the function's own link is asked.
func pciPath(fsys sysfs.FS, name string, node int) topology.PCIPath {
	for _, link := range []string{class + name, class + name + "/device"} {
		text, err := fsys.Link(link)
		if err != nil {
			continue
		}
		if p, err := topology.ParsePCIPath(text, node); err == nil {
			if p.Host != "" {
				return p
			}
			if full, err := fsys.Link("sys/bus/pci/devices/" + p.At().String()); err == nil {
				if q, err := topology.ParsePCIPath(full, node); err == nil {
					return q
				}
			}
		}
	}
	return topology.PCIPath{}
}
