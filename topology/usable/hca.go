package usable

import (
	"path"
	"strconv"
	"strings"

	"github.com/mpiup/mpiup/topology"
)

// hcas are the hardware of /sys/class/infiniband: InfiniBand, RoCE, EFA. A process reaches one by
// /dev/infiniband/uverbsN, of which /sys/class/infiniband_verbs/uverbsN/ibdev tells the name.
func (f files) hcas() (all []Device) {
	const dir = "sys/class/infiniband"
	verbs := f.verbs()
	names, _ := f.Names(dir)
	for _, name := range names[:min(len(names), maxDevices)] {
		target, err := f.Link(dir + "/" + name)
		if err != nil { // some kernels before 2.6.26 have directories here
			if target, err = f.Link(dir + "/" + name + "/device"); err != nil {
				continue
			}
		}
		if strings.Contains(target, "/virtual/") || strings.HasPrefix(name, "scif") { // rxe, siw; the Xeon Phi's
			continue
		}
		d := Device{Kind: HCA, Name: name, At: innermost(target), Ports: f.ports(dir + "/" + name + "/ports")}
		if file, ok := verbs[name]; ok {
			d.Missing = f.missing("dev/infiniband/" + file)
		} else if f.dev {
			d.Missing = "/sys/class/infiniband_verbs"
		}
		all = append(all, d)
	}
	return all
}

// verbs is which device file is whose.
func (f files) verbs() map[string]string {
	const dir = "sys/class/infiniband_verbs"
	names, _ := f.Names(dir)
	verbs := make(map[string]string)
	for _, file := range names[:min(len(names), maxDevices)] {
		if name, err := f.Text(dir + "/" + file + "/ibdev"); err == nil && strings.HasPrefix(file, "uverbs") {
			verbs[name] = file
		}
	}
	return verbs
}

// maxPorts bounds an HCA's ports; there are HCAs with two, and switches' with some.
const maxPorts = 64

func (f files) ports(dir string) (ports []Port) {
	names, _ := f.Names(dir)
	for _, name := range names[:min(len(names), maxPorts)] {
		number, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		p := Port{Number: number}
		state, _ := f.Text(dir + "/" + name + "/state") // "4: ACTIVE"
		_, p.State, _ = strings.Cut(state, ": ")
		p.Link, _ = f.Text(dir + "/" + name + "/link_layer")
		p.Rate, _ = f.Text(dir + "/" + name + "/rate")
		ports = append(ports, p)
	}
	return ports
}

// innermost is the last PCI address of a device's path.
func innermost(target string) *topology.PCIAddr {
	for ; target != "." && target != "/"; target = path.Dir(target) {
		if at, err := topology.ParsePCIAddr(path.Base(target)); err == nil {
			return &at
		}
	}
	return nil
}
