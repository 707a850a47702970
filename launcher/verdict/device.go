package verdict

import (
	"fmt"

	"github.com/mpiup/mpiup/internal/job"
)

// Device is what an agent saw go wrong with a device that a rank had, after its start.
type Device struct {
	What   job.DeviceFault
	Name   string // a GPU's PCI address, an adapter's port
	Number int    // of the Xid
	Ago    int    // seconds before the rank's end
}

func (d Device) String() string {
	switch d.What {
	case job.GPUXid:
		return fmt.Sprintf("its GPU at PCI %s had Xid %d (of the GPU, its driver or its links) %d s before", d.Name, d.Number, d.Ago)
	case job.GPUXidOfProgram:
		return fmt.Sprintf("its GPU at PCI %s had Xid %d, such as a faulty program causes, %d s before", d.Name, d.Number, d.Ago)
	case job.PortDown:
		return fmt.Sprintf("the adapter's port %s is down, and was up when the rank started", d.Name)
	}
	return ""
}
