package badinput

import (
	"strings"
	"testing"
)

// TestHorovodrunKeepsToSlots: slots that an operator names are a limit, as Horovod's own launcher has those of -H; a machine's own are none.
func TestHorovodrunKeepsToSlots(t *testing.T) {
	one := write(t, t.TempDir(), "hostfile", "127.0.0.1 slots=1\n", 0o644)
	for _, tt := range []struct {
		env, line string
		code      int
		says      string
	}{
		{"OMPI_MCA_orte_default_hostfile=" + one, "horovodrun -np 4 true", 240, "has 1 slot"},
		{"", "horovodrun -np 4 -H localhost:1 true", 240, "has 1 slot"},
		{"", "horovodrun -np 9 true", 0, ""},
		{"HOROVOD_START_TIMEOUT=soon", "horovodrun -np 1 true", 240, "HOROVOD_START_TIMEOUT"},
		{"HOROVOD_START_TIMEOUT=1 OMPI_MCA_orte_default_hostfile=" + write(t, t.TempDir(), "hostfile", "192.0.2.1 slots=1\n", 0o644),
			"horovodrun -np 1 true", 243, "1s (HOROVOD_START_TIMEOUT)"},
		{"OMPI_MCA_orte_default_hostfile=" + write(t, t.TempDir(), "hostfile", "192.0.2.1 slots=1\n192.0.2.2 slots=1\n", 0o644),
			"torchrun --nnodes 2 --rdzv-conf join_timeout=1 --nproc-per-node 1 --no-python true", 243, "1s (join_timeout)"},
	} {
		t.Run(tt.env+" "+tt.line, func(t *testing.T) {
			mpiup(t, strings.Fields(tt.env), strings.Fields(tt.line)...).check(t, tt.code, tt.says)
		})
	}
}
