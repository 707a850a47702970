package gpu

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/mpiup/mpiup/topology"
)

// MaxReport bounds what is read of mpiup-nvml and nvidia-smi, in bytes. nvidia-smi writes some
// 15 KiB for a GPU, and more where many processes use it.
const MaxReport = 8 << 20

// ReportVersion is the number of the form of a Report. Another form is refused: mpiup-nvml comes with mpiup.
const ReportVersion = 1

// Report is what mpiup-nvml prints, one JSON object a line.
type Report struct {
	Version int         `json:"version"`
	Driver  string      `json:"driver,omitempty"`
	CUDA    string      `json:"cuda,omitempty"`
	GPUs    []ReportGPU `json:"gpus"`
}

// ReportGPU is a GPU as NVML tells of it. What is missing is unknown.
type ReportGPU struct {
	PCI     string      `json:"pci"` // "0000:1b:00.0"
	UUID    string      `json:"uuid"`
	Minor   *int        `json:"minor,omitempty"`
	Model   string      `json:"model,omitempty"`
	Memory  uint64      `json:"memory,omitempty"` // bytes
	MIGMode bool        `json:"mig_mode,omitempty"`
	MIG     []MIG       `json:"mig,omitempty"`
	Peers   []PeerLinks `json:"peers,omitempty"`
	Switch  int         `json:"switch_links,omitempty"` // NVLinks to switches
	Health  *Health     `json:"health,omitempty"`
	Usage   *Usage      `json:"usage,omitempty"` // in a stream
}

// PeerLinks is how many NVLinks lead straight to another GPU.
type PeerLinks struct {
	PCI   string `json:"pci"`
	Links int    `json:"links"`
}

// Usage is how busy a GPU is.
type Usage struct {
	Memory  uint64 `json:"memory_used"`     // bytes
	Compute int    `json:"compute_percent"` // of the time since the last sample in which a kernel ran
	Power   uint32 `json:"power_milliwatt"`
	Celsius uint32 `json:"celsius"`
	// Corrected memory errors since the driver was loaded; nil: unknown, or without ECC.
	Corrected *uint64 `json:"ecc_corrected,omitempty"`
	Xids      uint64  `json:"xids,omitempty"` // critical errors since mpiup-nvml was started
}

// parseReport reads one Report.
func parseReport(text []byte) (Inventory, error) {
	var rep Report
	if err := json.Unmarshal(text, &rep); err != nil {
		return Inventory{}, fmt.Errorf("mpiup-nvml wrote no report: %w", err)
	}
	if rep.Version != ReportVersion {
		return Inventory{}, fmt.Errorf("mpiup-nvml writes reports of form %d and mpiup reads %d; take both from one build", rep.Version, ReportVersion)
	}
	inv := Inventory{Source: "mpiup-nvml", Vendor: NVIDIA, Driver: clean(rep.Driver), CUDA: clean(rep.CUDA)}
	switches := map[topology.PCIAddr]int{}
	for _, from := range rep.GPUs[:min(len(rep.GPUs), maxGPUs)] {
		g, err := from.gpu()
		if err != nil {
			return Inventory{}, err
		}
		switches[g.At] = from.Switch
		inv.GPUs = append(inv.GPUs, g)
	}
	inv.GPUs = order(inv.GPUs, itself)
	number(inv.GPUs)
	joinSwitched(inv.GPUs, switches)
	return inv, nil
}

// maxLinks bounds NVLinks of a GPU. Blackwell has 18.
const maxLinks = 64

func (from *ReportGPU) gpu() (GPU, error) {
	at, err := topology.ParsePCIAddr(from.PCI)
	if err != nil {
		return GPU{}, fmt.Errorf("mpiup-nvml: %w", err)
	}
	g := GPU{At: at, UUID: nvidiaName(from.UUID, "GPU-"), Model: clean(from.Model), Memory: from.Memory, Minor: -1,
		Health: from.Health, Partitioned: from.MIGMode}
	if from.Minor != nil && *from.Minor >= 0 && *from.Minor <= maxMinor {
		g.Minor = *from.Minor
	}
	for _, m := range from.MIG[:min(len(from.MIG), maxGPUs)] {
		g.MIG = append(g.MIG, MIG{UUID: nvidiaName(m.UUID, "MIG-"), Instance: m.Instance, Compute: m.Compute})
	}
	sortMIG(g.MIG)
	for _, p := range from.Peers[:min(len(from.Peers), maxGPUs)] {
		if to, err := topology.ParsePCIAddr(p.PCI); err == nil && p.Links > 0 && p.Links <= maxLinks {
			g.Links = append(g.Links, Link{To: to, Kind: NVLink, Count: p.Links})
		}
	}
	return g, nil
}

// joinSwitched links all GPUs that have NVLinks to switches with each other, since the switches of a host join all
// its GPUs. A pair has as many links as the one of the two with fewer (nvidia-smi topo -m counts so). Links are in
// the order of the GPUs.
func joinSwitched(gpus []GPU, switches map[topology.PCIAddr]int) {
	for i := range gpus {
		g := &gpus[i]
		for j := range gpus {
			n := min(switches[g.At], switches[gpus[j].At], maxLinks)
			if i == j || n <= 0 || slices.ContainsFunc(g.Links, func(l Link) bool { return l.To == gpus[j].At }) {
				continue
			}
			g.Links = append(g.Links, Link{To: gpus[j].At, Kind: NVLink, Count: n})
		}
		slices.SortFunc(g.Links, func(a, b Link) int { return a.To.Compare(b.To) })
	}
}
