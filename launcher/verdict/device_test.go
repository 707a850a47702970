package verdict

import (
	"slices"
	"testing"
	"time"

	"github.com/mpiup/mpiup/internal/job"
)

// What an agent saw of the rank's own devices stands in the verdict, and is its kind where it explains the end.
func TestDevices(t *testing.T) {
	xid, program := job.DeviceTrouble{What: job.GPUXid, Name: "0000:17:00", Number: 79, Ago: 4}, job.DeviceTrouble{What: job.GPUXidOfProgram, Name: "0000:17:00", Number: 31, Ago: 1}
	down := job.DeviceTrouble{What: job.PortDown, Name: "mlx5_0:1"}
	const xidLine = "w1: its GPU at PCI 0000:17:00 had Xid 79 (of the GPU, its driver or its links) 4 s before"
	for _, tt := range []struct {
		name, line string
		device     job.DeviceTrouble
		kind       Kind
		likely     bool
		evidence   string
	}{
		{"CUDA says so", "RuntimeError: CUDA error: unspecified launch failure", xid, GPUFault, false, xidLine},
		{"it says something else", "ValueError: loss is nan", xid, GPUFault, true, xidLine},
		{"a program's fault", "RuntimeError: CUDA error: an illegal memory access was encountered", program, GPUError, false,
			"w1: its GPU at PCI 0000:17:00 had Xid 31, such as a faulty program causes, 1 s before"},
		{"memory errors came", "RuntimeError: CUDA error: unspecified launch failure", job.DeviceTrouble{What: job.GPUMemoryErrors, Name: "0000:17:00", Number: 3}, GPUFault, false,
			"w1: its GPU at PCI 0000:17:00 had 3 uncorrectable ECC errors since the rank started"},
		{"memory is to go", "ValueError: loss is nan", job.DeviceTrouble{What: job.GPUMemoryPending, Name: "0000:17:00"}, GPUFault, true,
			"w1: memory of its GPU at PCI 0000:17:00 waits to be taken out of use, and did not when the rank started"},
		{"memory cannot go", "ValueError: loss is nan", job.DeviceTrouble{What: job.GPUMemoryFailed, Name: "0000:17:00"}, GPUFault, true,
			"w1: memory of its GPU at PCI 0000:17:00 could not be taken out of use, and was well when the rank started"},
		{"a slow GPU is no reason to end", "ValueError: loss is nan", job.DeviceTrouble{What: job.GPUSlow, Name: "0000:17:00", Number: int(job.SlowByHeat | job.SlowByPower)}, Python, false,
			"w1: its GPU at PCI 0000:17:00 is slowed down by its hardware (heat, the power supply's brake)"},
		{"a port, and a peer is lost", "gloo: Connection reset by peer", down, FabricDown, true, "w1: the adapter's port mlx5_0:1 is down, and was up when the rank started"},
		{"a port that has nothing to do with it", "ValueError: loss is nan", down, Python, false, "w1: the adapter's port mlx5_0:1 is down, and was up when the rank started"},
	} {
		c := &Case{}
		c.Add(Fault{Event: Ended, Host: "w1", Node: 1, ID: 2, Process: job.Process{Rank: 2}, Exit: job.Exit{Code: 1}})
		c.Devices(2, []job.DeviceTrouble{tt.device})
		c.Devices(3, []job.DeviceTrouble{xid}) // of a rank that did not fail
		c.Hear(4, func(int) Said { return Said{Raised: raised(tt.line), Code: 1} }, time.Time{}, nobody)
		v, _ := c.Verdict(Circumstances{Node: "n1"})
		if v.Kind != tt.kind || v.Likely != tt.likely || !slices.Contains(v.Evidence, tt.evidence) || (v.Cordon != "") != (v.Kind == GPUFault || v.Kind == FabricDown) {
			t.Errorf("%s: %+v", tt.name, v)
		}
		const line = "keep jobs off the node: the next attempt goes elsewhere then"
		if v.Kind == GPUFault && v.Advice[0] != line || slices.Contains(v.Advice, line) != (v.Kind == GPUFault) {
			t.Errorf("%s: %s is advised by %q", tt.name, v.Kind, v.Advice)
		}
		if v.Kind == GPUFault && v.PCI != "0000:17:00" {
			t.Errorf("%s: the GPU is %q", tt.name, v.PCI)
		}
	}
}
