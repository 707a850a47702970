package discover

import (
	"strings"

	"github.com/mpiup/mpiup/topology"
)

// maxDevices bounds each class; a node with many pods has hundreds of (virtual) interfaces.
const maxDevices = 1 << 12

// readDevices finds network interfaces and InfiniBand devices that are hardware. In a pod
// /sys/class/net has those of its own network namespace only.
func (r *reader) readDevices() {
	for _, class := range []struct {
		name  string
		kind  topology.OSDevKind
		infos [][2]string // file, hwloc's name
	}{
		{"net", topology.OSDevNetwork, [][2]string{{"address", "Address"}}},
		{"infiniband", topology.OSDevOpenFabrics, [][2]string{{"node_guid", "NodeGUID"}, {"sys_image_guid", "SysImageGUID"}}},
	} {
		names, _ := r.fs.Names("sys/class/" + class.name)
		for _, name := range names[:min(len(names), maxDevices)] {
			dir := "sys/class/" + class.name + "/" + name
			target, err := r.fs.Link(dir)
			if err != nil || strings.Contains(target, "/virtual/") || strings.Contains(target, "/usb") ||
				strings.HasPrefix(name, "scif") { // the Xeon Phi's pretended InfiniBand
				continue
			}
			d := topology.DevicePart{Kind: class.kind, Name: name, At: lastAddress(target), Node: topology.NoIndex}
			if d.At == nil {
				d.Node = r.id(dir + "/device/numa_node")
			}
			for _, info := range class.infos {
				if value, err := r.fs.Text(dir + "/" + info[0]); err == nil && value != "" {
					d.Infos = append(d.Infos, topology.Info{Name: info[1], Value: value})
				}
			}
			r.parts.Devices = append(r.parts.Devices, d)
		}
	}
}

// lastAddress is the innermost PCI function in a device's path
// "../../devices/pci0000:40/0000:40:03.0/0000:43:00.0/net/ib0".
func lastAddress(target string) *topology.PCIAddr {
	var last *topology.PCIAddr
	for part := range strings.SplitSeq(target, "/") {
		if at, err := topology.ParsePCIAddr(part); err == nil {
			last = &at
		}
	}
	return last
}
