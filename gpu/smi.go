package gpu

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"strconv"
	"strings"

	"github.com/mpiup/mpiup/topology"
)

// smiLog is what we take of nvidia-smi -q -x (nvsmi_device_v10.dtd to v12.dtd).
type smiLog struct {
	XMLName xml.Name `xml:"nvidia_smi_log"`
	Driver  string   `xml:"driver_version"`
	CUDA    string   `xml:"cuda_version"`
	GPUs    []smiGPU `xml:"gpu"`
}

type smiGPU struct {
	ID          string   `xml:"id,attr"`
	Model       string   `xml:"product_name"`
	UUID        string   `xml:"uuid"`
	Minor       string   `xml:"minor_number"`
	BusID       string   `xml:"pci>pci_bus_id"`
	Memory      string   `xml:"fb_memory_usage>total"`
	Persistence string   `xml:"persistence_mode"`
	ECC         string   `xml:"ecc_mode>current_ecc"`
	Errors      struct { // of Ampere; others name their memories differently and are summed up alike
		All []struct {
			XMLName xml.Name
			Count   string `xml:",chardata"`
		} `xml:",any"`
	} `xml:"ecc_errors>volatile"`
	MIGMode string `xml:"mig_mode>current_mig"`
	MIG     []struct {
		Instance string `xml:"gpu_instance_id"`
		Compute  string `xml:"compute_instance_id"`
		Index    string `xml:"index"`
	} `xml:"mig_devices>mig_device"`
}

// parseSMI reads the output of nvidia-smi -q -x, and of nvidia-smi -L, which alone names MIG
// devices; list may be empty.
func parseSMI(text, list []byte) (Inventory, error) {
	var log smiLog
	if err := xml.Unmarshal(text, &log); err != nil {
		return Inventory{}, fmt.Errorf("nvidia-smi -q -x wrote no report: %w", err)
	}
	inv := Inventory{Source: "nvidia-smi", Vendor: NVIDIA, Driver: known(log.Driver), CUDA: known(log.CUDA)}
	names := parseList(string(list))
	for _, from := range log.GPUs[:min(len(log.GPUs), maxGPUs)] {
		g, err := from.gpu(names)
		if err != nil {
			return Inventory{}, err
		}
		inv.GPUs = append(inv.GPUs, g)
	}
	inv.GPUs = order(inv.GPUs, itself)
	number(inv.GPUs)
	return inv, nil
}

func (from *smiGPU) gpu(names map[migKey]string) (GPU, error) {
	at, err := topology.ParsePCIAddr(cmp.Or(from.ID, from.BusID))
	if err != nil {
		return GPU{}, fmt.Errorf("nvidia-smi -q -x: %w", err)
	}
	g := GPU{At: at, UUID: nvidiaName(from.UUID, "GPU-"), Model: known(from.Model), Minor: decimal(from.Minor, maxMinor), Memory: mebibytes(from.Memory),
		Partitioned: from.MIGMode == "Enabled"}
	if from.Persistence != "" {
		g.Health = &Health{Persistence: from.Persistence == "Enabled", ECC: from.ECC == "Enabled"}
		for _, e := range from.Errors.All {
			if strings.Contains(e.XMLName.Local, "uncorrectable") {
				g.Health.Uncorrected += uint64(max(decimal(e.Count, 1<<30), 0))
			}
		}
	}
	for i, m := range from.MIG[:min(len(from.MIG), maxGPUs)] {
		index := decimal(m.Index, maxGPUs)
		if index < 0 {
			index = i
		}
		g.MIG = append(g.MIG, MIG{UUID: names[migKey{g.UUID, index}], Instance: decimal(m.Instance, maxMinor),
			Compute: decimal(m.Compute, maxMinor)})
	}
	sortMIG(g.MIG)
	return g, nil
}

type migKey struct {
	gpu   string // UUID
	index int
}

// parseList reads MIG devices' names of nvidia-smi -L:
//
//	GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-4d0f…)
//	  MIG 1g.5gb      Device  0: (UUID: MIG-7c6b…)
func parseList(text string) map[migKey]string {
	names := map[migKey]string{}
	gpu := ""
	for line := range strings.Lines(text) {
		before, after, ok := strings.Cut(line, "(UUID: ")
		uuid, _, closed := strings.Cut(after, ")")
		if !ok || !closed {
			continue
		}
		if id := nvidiaName(uuid, "GPU-"); id != "" {
			gpu = id
			continue
		}
		_, number, _ := strings.Cut(before, "Device")
		index := decimal(strings.Trim(number, " :"), maxGPUs)
		if id := nvidiaName(uuid, "MIG-"); id != "" && index >= 0 && len(names) < maxGPUs*maxGPUs {
			names[migKey{gpu, index}] = id
		}
	}
	return names
}

// known is a value; nvidia-smi writes N/A and the like for what it cannot tell.
func known(text string) string {
	switch text = clean(text); text {
	case "N/A", "[N/A]", "Unknown Error", "GPU requires reset":
		return ""
	}
	return text
}

// mebibytes is "81559 MiB" in bytes; 0 of all else.
func mebibytes(text string) uint64 {
	number, ok := strings.CutSuffix(strings.TrimSpace(text), " MiB")
	n, err := strconv.ParseUint(number, 10, 40)
	if !ok || err != nil {
		return 0
	}
	return n << 20
}
