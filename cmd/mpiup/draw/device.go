package draw

import (
	"fmt"
	"strings"

	"github.com/mpiup/mpiup/gpu"
	"github.com/mpiup/mpiup/rdma"
	"github.com/mpiup/mpiup/topology"
	"github.com/mpiup/mpiup/topology/discover"
)

// device is a GPU or an HCA; the zero device is neither.
type device struct {
	id  string // "GPU0", counted among the usable ones; "mlx5_0"; "" of a GPU that cannot be used
	gpu *gpu.Seen
	hca *rdma.HCA
}

// devices are those that are drawn: GPUs first, then HCAs.
func (v *View) devices() (all []device) {
	next := 0
	for i := range v.GPUs {
		d := device{gpu: &v.GPUs[i]}
		if d.usable() {
			d.id = fmt.Sprint("GPU", next)
			next++
		}
		all = append(all, d)
	}
	for _, h := range v.HCAs.Hardware() {
		all = append(all, device{id: clean(h.Name), hca: h})
	}
	return all
}

// device is the one at a PCI function. A function can be several HCAs; the first is enough to know it by.
func (v *View) device(at topology.PCIAddr) device {
	for _, d := range v.devices() {
		if path := d.path(); len(path.Way) > 0 && path.At() == at {
			return d
		}
	}
	return device{}
}

// Summary counts what may be used.
func Summary(v *View) discover.Summary {
	gpus, hcas := 0, 0
	for _, d := range v.devices() {
		switch {
		case !d.usable():
		case d.gpu != nil:
			gpus++
		default:
			hcas++
		}
	}
	return v.Limits.Summary(v.Machine, gpus, hcas)
}

// name is "mlx5_0", "NVIDIA H100 80GB HBM3", "NVIDIA 10de:2330".
func (d device) name() string {
	if d.gpu != nil {
		return clean(d.gpu.Title())
	}
	return clean(d.hca.Name)
}

// missing is what is not there for it to be used; "": nothing.
func (d device) missing() string {
	switch {
	case d.gpu != nil:
		return clean(d.gpu.Missing)
	case d.hca != nil:
		return clean(d.hca.Missing)
	}
	return ""
}

func (d device) usable() bool { return d.missing() == "" }

func (d device) path() topology.PCIPath {
	switch {
	case d.gpu != nil && len(d.gpu.Path.Way) == 0 && d.gpu.Located():
		return topology.PCIPath{Way: []topology.PCIAddr{d.gpu.At}, Node: topology.NoIndex}
	case d.gpu != nil:
		return d.gpu.Path
	case d.hca != nil:
		return d.hca.Path
	}
	return topology.PCIPath{}
}

// to is how two devices are joined, as nvidia-smi topo -m words it.
func (d device) to(other device) string {
	if d.gpu != nil && other.gpu != nil {
		return d.gpu.Between(&other.gpu.GPU)
	}
	if d == other {
		return topology.Same.String()
	}
	return d.path().To(other.path()).String()
}

// near is the CPUs and NUMA nodes near a device.
func (v *View) near(d device) (cpus, nodes string) {
	if path := d.path(); len(path.Way) > 0 {
		if o := v.Machine.Device(path.At()); o != nil {
			return o.Place().CPUs.String(), o.Place().Nodes.String()
		}
	}
	return "", ""
}

// ports says how an HCA's ports are: "port 1 ACTIVE InfiniBand 400 Gb/sec (4X NDR)".
func (d device) ports() (all []string) {
	if d.hca == nil {
		return nil
	}
	for _, p := range d.hca.Ports {
		words := []string{fmt.Sprint("port ", p.Number)}
		for _, w := range []string{p.State, p.Layer, p.Speed} {
			if w = clean(w); w != "" {
				words = append(words, w)
			}
		}
		all = append(all, strings.Join(words, " "))
	}
	return all
}
