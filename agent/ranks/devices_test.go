package ranks

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mpiup/mpiup/agent/checkup"
	"github.com/mpiup/mpiup/gpu"
	"github.com/mpiup/mpiup/topology"
)

// Only what is of the rank's own devices, and came after its start, is told.
func TestTroubles(t *testing.T) {
	at := func(bus uint8) topology.PCIAddr { return topology.PCIAddr{Bus: bus} }
	gpus := []gpu.GPU{{UUID: "GPU-a", At: at(0x17)}, {UUID: "GPU-b", At: at(0x2a), MIG: []gpu.MIG{{UUID: "MIG-b1"}}}, {UUID: "GPU-c"}}
	xid := func(pci string, number int, ago time.Duration) checkup.Xid {
		return checkup.Xid{PCI: pci, Number: number, Ago: ago}
	}
	own := []checkup.Xid{xid("0000:17:00", 31, 50*time.Second), xid("0000:17:00", 79, 4*time.Second), xid("0000:2a:00", 48, time.Second)}
	for _, tt := range []struct {
		name        string
		names       []string
		xids        []checkup.Xid
		before, now []string
		want        string
	}{
		{"nothing", nil, nil, nil, nil, ""},
		{"all GPUs", nil, own, nil, nil, "1 0000:2a:00 48 1, 1 0000:17:00 79 4, 2 0000:17:00 31 50"},
		{"its own GPU", []string{"GPU-a"}, own, nil, nil, "1 0000:17:00 79 4, 2 0000:17:00 31 50"},
		{"a part of one", []string{"MIG-b1"}, own, nil, nil, "1 0000:2a:00 48 1"},
		{"another rank's", []string{"GPU-c"}, own, nil, nil, ""},
		{"before its start", nil, []checkup.Xid{xid("0000:17:00", 79, 2*time.Minute)}, nil, nil, ""},
		{"another job's GPU", nil, []checkup.Xid{xid("0000:99:00", 79, time.Second)}, nil, nil, ""},
		{"a port went down", nil, nil, []string{"mlx5_0:1", "mlx5_1:1"}, []string{"mlx5_1:1"}, "3 mlx5_0:1 0 0"},
		{"a port came", nil, nil, []string{"mlx5_0:1"}, []string{"mlx5_0:1", "mlx5_1:1"}, ""},
	} {
		var got []string
		for _, d := range troubles(gpus, tt.names, tt.xids, time.Minute, tt.before, tt.now) {
			got = append(got, fmt.Sprint(int(d.What), " ", d.Device, " ", d.Number, " ", d.Seconds))
		}
		if text := strings.Join(got, ", "); text != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, text, tt.want)
		}
	}
	if list := troubles(gpus, nil, make([]checkup.Xid, 0), time.Minute, strings.Fields(strings.Repeat("p ", 99)), nil); len(list) != maxDevices {
		t.Errorf("%d are told", len(list))
	}
}
