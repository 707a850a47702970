package draw

import (
	"encoding/json"
	"io"

	"github.com/mpiup/mpiup/gpu"
	"github.com/mpiup/mpiup/topology"
	"github.com/mpiup/mpiup/topology/discover"
)

// document is the JSON. Sets of CPUs and nodes are lists as the kernel writes them ("0-3,8"); sizes
// are bytes. Fields are added, never changed.
type document struct {
	Summary   discover.Summary  `json:"summary"`
	Name      string            `json:"name,omitempty"`
	Hardware  string            `json:"hardware,omitempty"`
	Limits    limits            `json:"limits"`
	CPUs      cpus              `json:"cpus"`
	Distances *topology.Latency `json:"distances,omitempty"`
	GPUs      []deviceJSON      `json:"gpus"`
	HCAs      []deviceJSON      `json:"hcas"`
	Links     *table            `json:"links,omitempty"`
	Driver    *driver           `json:"gpu_driver,omitempty"`
	Direct    *direct           `json:"gpudirect_rdma,omitempty"`
	Tree      *object           `json:"tree"`
	Warnings  []string          `json:"warnings,omitempty"` // what the machine has and the container cannot use
	Notes     []string          `json:"notes,omitempty"`
}

type limits struct {
	CPUs     string   `json:"cpus"`
	Memory   string   `json:"numa_nodes"`
	Affinity string   `json:"affinity,omitempty"`
	Cpuset   string   `json:"cpuset"`
	Quota    *float64 `json:"quota"` // in CPUs; null: none
	Sharing  string   `json:"sharing"`
}

type cpus struct {
	Online  string `json:"online"`
	Offline string `json:"offline"`
	Kinds   []kind `json:"kinds,omitempty"`
}

type kind struct {
	Name string `json:"name"`
	CPUs string `json:"cpus"`
}

type deviceJSON struct {
	ID      string    `json:"id,omitempty"`
	Name    string    `json:"name"`
	PCI     string    `json:"pci,omitempty"`
	Usable  bool      `json:"usable"`
	Missing string    `json:"missing,omitempty"`
	CPUs    string    `json:"near_cpus,omitempty"`
	Nodes   string    `json:"near_numa_nodes,omitempty"`
	UUID    string    `json:"uuid,omitempty"`
	Memory  uint64    `json:"memory,omitempty"`
	MIG     []gpu.MIG `json:"mig,omitempty"`
	VF      bool      `json:"virtual_function,omitempty"`
	Ports   []port    `json:"ports,omitempty"`
}

type port struct {
	Number int    `json:"port"`
	State  string `json:"state,omitempty"` // "ACTIVE"
	Layer  string `json:"link,omitempty"`  // "InfiniBand", "Ethernet"
	Speed  string `json:"rate,omitempty"`  // "400 Gb/sec (4X NDR)"
}

// driver is who told of the usable GPUs.
type driver struct {
	Vendor  string `json:"vendor"`
	Version string `json:"version,omitempty"`
	CUDA    string `json:"cuda,omitempty"`
	Source  string `json:"source"`
}

// direct is what can be seen of GPUDirect RDMA.
type direct struct {
	PeerMemory string `json:"peer_memory,omitempty"` // version of the module
	DMABuf     bool   `json:"dma_buf"`               // the kernel is new enough
	GDRCopy    bool   `json:"gdrcopy"`
}

// object is one of the tree.
type object struct {
	Type     string    `json:"type"`
	OS       *int      `json:"os_index,omitempty"`
	Name     string    `json:"name,omitempty"`
	Subtype  string    `json:"subtype,omitempty"`
	CPUs     string    `json:"cpus,omitempty"`
	Usable   *bool     `json:"usable,omitempty"`
	Size     uint64    `json:"size,omitempty"`
	PCI      string    `json:"pci,omitempty"`
	Class    string    `json:"class,omitempty"`
	ID       string    `json:"id,omitempty"`
	Speed    float32   `json:"link_gb_per_s,omitempty"`
	Buses    string    `json:"buses,omitempty"`
	Memory   []*object `json:"memory,omitempty"`
	Children []*object `json:"children,omitempty"`
	IO       []*object `json:"io,omitempty"`
}

// JSON writes the view as one object, indented.
func JSON(w io.Writer, v *View) error {
	m := v.Machine
	d := document{
		Summary: Summary(v), Name: v.Name, Hardware: v.hardware(),
		Limits: limits{CPUs: v.Limits.CPUs.String(), Memory: v.Limits.Memory.String(), Affinity: m.Affinity.String(),
			Cpuset: m.AllowedCPUs.String(), Sharing: string(v.Limits.Sharing)},
		CPUs: cpus{Online: m.Root.CPUs.String(), Offline: v.offline().String()},
		GPUs: []deviceJSON{}, HCAs: []deviceJSON{}, Links: v.links(), Tree: v.object(m.Root),
	}
	d.Warnings, d.Distances = v.warnings(), m.Latency
	for _, n := range v.Notes {
		d.Notes = append(d.Notes, clean(n))
	}
	if v.Limits.Quota > 0 {
		d.Limits.Quota = &v.Limits.Quota
	}
	for _, k := range m.Kinds {
		d.CPUs.Kinds = append(d.CPUs.Kinds, kind{k.Name, k.CPUs.String()})
	}
	for _, dev := range v.devices() {
		if dev.gpu != nil {
			d.GPUs = append(d.GPUs, v.deviceJSON(dev))
		} else {
			d.HCAs = append(d.HCAs, v.deviceJSON(dev))
		}
	}
	if by := v.Driver; by.Source != "" {
		d.Driver = &driver{string(by.Vendor), clean(by.Driver), clean(by.CUDA), by.Source}
	}
	if gdr := v.HCAs.GDR; v.direct() != "" {
		d.Direct = &direct{clean(gdr.PeerMemory), gdr.DMABuf, gdr.GDRCopy}
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(d)
}

func (v *View) deviceJSON(d device) deviceJSON {
	j := deviceJSON{ID: d.id, Name: d.name(), Usable: d.usable(), Missing: d.missing()}
	if path := d.path(); len(path.Way) > 0 {
		j.PCI = path.At().String()
	}
	j.CPUs, j.Nodes = v.near(d)
	if d.gpu != nil {
		j.UUID, j.Memory, j.MIG = clean(d.gpu.UUID), d.gpu.Memory, d.gpu.MIG
		return j
	}
	j.VF = d.hca.VF
	for _, p := range d.hca.Ports {
		j.Ports = append(j.Ports, port{p.Number, clean(p.State), clean(p.Layer), clean(p.Speed)})
	}
	return j
}

func (v *View) object(o *topology.Object) *object {
	j := &object{Type: o.Type.String(), Name: clean(o.Name), Subtype: clean(o.Subtype), CPUs: o.CPUs.String()}
	if o.OS >= 0 {
		j.OS = &o.OS
	}
	if !o.Type.IO() {
		can := v.Limits.Of(o)
		j.Usable = &can
	}
	switch {
	case o.Cache != nil:
		j.Size = o.Cache.Size
	case o.Memo != nil:
		j.Size = o.Memo.Size
	}
	if o.PCI != nil {
		j.PCI, j.Class, j.ID, j.Speed = o.PCI.Addr.String(), hex(o.PCI.Class), hex(o.PCI.Vendor)+":"+hex(o.PCI.Device), o.PCI.LinkSpeed
	}
	if o.Bridge != nil {
		j.Buses = buses(o.Bridge)
	}
	for _, list := range []struct {
		from []*topology.Object
		to   *[]*object
	}{{o.Memory, &j.Memory}, {o.Children, &j.Children}, {o.IO, &j.IO}} {
		for _, c := range list.from {
			*list.to = append(*list.to, v.object(c))
		}
	}
	return j
}
