package job

import (
	"fmt"

	"github.com/mpiup/mpiup/internal/pattern"
)

// DeviceTrouble is what an agent saw go wrong with a device that a rank had, after its start.
type DeviceTrouble struct {
	What   DeviceFault
	Name   string // a GPU's PCI address, an adapter's port
	Number int    // of the Xid; how many errors; a job.Slow
	Ago    int    // seconds before the rank's end
}

func (d DeviceTrouble) String() string {
	switch d.What {
	case GPUXid:
		return fmt.Sprintf("its GPU at PCI %s had Xid %d (of the GPU, its driver or its links) %d s before", d.Name, d.Number, d.Ago)
	case GPUXidOfProgram:
		return fmt.Sprintf("its GPU at PCI %s had Xid %d, such as a faulty program causes, %d s before", d.Name, d.Number, d.Ago)
	case PortDown:
		return fmt.Sprintf("the adapter's port %s is down, and was up when the rank started", d.Name)
	case GPUMemoryErrors:
		return fmt.Sprintf("its GPU at PCI %s had %d uncorrectable ECC errors since the rank started", d.Name, d.Number)
	case GPUMemoryPending:
		return fmt.Sprintf("memory of its GPU at PCI %s waits to be taken out of use, and did not when the rank started", d.Name)
	case GPUMemoryFailed:
		return fmt.Sprintf("memory of its GPU at PCI %s could not be taken out of use, and was well when the rank started", d.Name)
	case GPUSlow:
		return fmt.Sprintf("its GPU at PCI %s is slowed down by its hardware (%v)", d.Name, Slow(d.Number))
	}
	return ""
}

var (
	gpuID  = pattern.Of(`\bGPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b`)
	pciID  = pattern.Of(`(?i)\bPCI(?: Bus ID)?:? ?((?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}(?:\.[0-7])?)|\bGPU ((?:[0-9a-f]{4,8}:)[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])`)
	hcaIDs = pattern.Of(`\b((?:mlx[45]|bnxt_re|irdma|efa|hfi1|rdmap\d+s|rocep\d+s|ibp\d+s)_?\d+(?:f\d+)?)(?:[:/ ](\d{1,2})\b)?`)
)

// DevicesIn are the GPU's UUID, its PCI address, and the adapter and port that a text names; "" where it names none.
func DevicesIn(text string) (gpu, pci, hca string) {
	gpu = gpuID().FindString(text)
	if m := pciID().FindStringSubmatch(text); m != nil {
		pci = m[1] + m[2]
	}
	if m := hcaIDs().FindStringSubmatch(text); m != nil {
		if hca = m[1]; m[2] != "" {
			hca += ":" + m[2]
		}
	}
	return gpu, pci, hca
}
