package checkup

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mpiup/mpiup/gpu"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/topology"
)

// Only what is of the rank's own devices, and came after its start, is told.
func TestTroubles(t *testing.T) {
	at := func(bus uint8) topology.PCIAddr { return topology.PCIAddr{Bus: bus} }
	gpus := []gpu.GPU{{UUID: "GPU-a", At: at(0x17)}, {UUID: "GPU-b", At: at(0x2a), MIG: []gpu.MIG{{UUID: "MIG-b1"}}}, {UUID: "GPU-c"}}
	xid := func(pci string, number int, ago time.Duration) Xid {
		return Xid{PCI: pci, Number: number, Ago: ago}
	}
	own := []Xid{xid("0000:17:00", 31, 50*time.Second), xid("0000:17:00", 79, 4*time.Second), xid("0000:2a:00", 48, time.Second)}
	for _, tt := range []struct {
		name        string
		names       []string
		xids        []Xid
		before, now []string
		want        string
	}{
		{"nothing", nil, nil, nil, nil, ""},
		{"all GPUs", nil, own, nil, nil, "1 0000:2a:00 48 1, 1 0000:17:00 79 4, 2 0000:17:00 31 50"},
		{"its own GPU", []string{"GPU-a"}, own, nil, nil, "1 0000:17:00 79 4, 2 0000:17:00 31 50"},
		{"a part of one", []string{"MIG-b1"}, own, nil, nil, "1 0000:2a:00 48 1"},
		{"another rank's", []string{"GPU-c"}, own, nil, nil, ""},
		{"before its start", nil, []Xid{xid("0000:17:00", 79, 2*time.Minute)}, nil, nil, ""},
		{"another job's GPU", nil, []Xid{xid("0000:99:00", 79, time.Second)}, nil, nil, ""},
		{"a port went down", nil, nil, []string{"mlx5_0:1", "mlx5_1:1"}, []string{"mlx5_1:1"}, "3 mlx5_0:1 0 0"},
		{"a port came", nil, nil, []string{"mlx5_0:1"}, []string{"mlx5_0:1", "mlx5_1:1"}, ""},
	} {
		var got []string
		for _, d := range troubles(gpus, tt.names, tt.xids, time.Minute, tt.before, tt.now) {
			got = append(got, fmt.Sprint(int(d.What), " ", d.Device, " ", d.Number, " ", int(d.Ago.Seconds())))
		}
		if text := strings.Join(got, ", "); text != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, text, tt.want)
		}
	}
	if list := troubles(gpus, nil, make([]Xid, 0), time.Minute, strings.Fields(strings.Repeat("p ", 99)), nil); len(list) != mostTrouble {
		t.Errorf("%d are told", len(list))
	}
}

// What NVIDIA's library told before a job and tells when a rank fails: of the rank's own GPUs, and what is worse.
func TestWorse(t *testing.T) {
	at := func(bus uint8) topology.PCIAddr { return topology.PCIAddr{Bus: bus} }
	own := []gpu.GPU{{UUID: "GPU-a", At: at(0x17)}, {UUID: "GPU-b", At: at(0x2a)}}
	with := func(uuid string, bus uint8, h *gpu.Health) gpu.GPU {
		return gpu.GPU{UUID: uuid, At: at(bus), Health: h}
	}
	was := []gpu.GPU{with("GPU-a", 0x17, &gpu.Health{Uncorrected: 2, Pending: true}), with("GPU-b", 0x2a, &gpu.Health{})}
	for _, tt := range []struct {
		name        string
		names       []string
		before, now []gpu.GPU
		want        string
	}{
		{"as it was", nil, was, was, ""},
		{"errors came", nil, was, []gpu.GPU{with("GPU-a", 0x17, &gpu.Health{Uncorrected: 5, Pending: true})}, "4 0000:17:00 3"},
		{"the driver was loaded anew", nil, was, []gpu.GPU{with("GPU-a", 0x17, &gpu.Health{Uncorrected: 1})}, ""},
		{"all at once", nil, was, []gpu.GPU{with("GPU-b", 0x2a, &gpu.Health{Uncorrected: 1, Pending: true, Failed: true, Slow: job.SlowByHeat | job.SlowByOther})},
			"4 0000:2a:00 1, 6 0000:2a:00 0, 5 0000:2a:00 0, 7 0000:2a:00 5"},
		{"another rank's", []string{"GPU-b"}, was, []gpu.GPU{with("GPU-a", 0x17, &gpu.Health{Uncorrected: 5})}, ""},
		{"another container's", nil, was, []gpu.GPU{with("GPU-c", 0x99, &gpu.Health{Slow: job.SlowByHeat})}, ""},
		{"nobody knows how it was", nil, nil, []gpu.GPU{with("GPU-a", 0x17, &gpu.Health{Uncorrected: 5, Pending: true, Failed: true, Slow: job.SlowByPower})}, "7 0000:17:00 2"},
		{"nobody knows its UUID", []string{"GPU-b"}, was, []gpu.GPU{with("", 0x17, &gpu.Health{Uncorrected: 5})}, ""},
		{"another GPU is in its place", nil, was, []gpu.GPU{with("GPU-x", 0x17, &gpu.Health{Uncorrected: 5})}, ""},
		{"it tells no health", nil, was, []gpu.GPU{with("GPU-a", 0x17, nil)}, ""},
		{"it tells nothing", nil, was, nil, ""},
	} {
		var got []string
		for _, d := range worse(own, tt.names, tt.before, tt.now) {
			got = append(got, fmt.Sprint(int(d.What), " ", d.Device, " ", d.Number))
		}
		if text := strings.Join(got, ", "); text != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, text, tt.want)
		}
	}
}

// The library is asked once when a job starts, and once for ranks that fail together; it never answers for longer than HealthBound.
func TestAsking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		health := func(ctx context.Context) []gpu.GPU {
			if asked++; asked == 3 { // it hangs in the kernel
				<-ctx.Done()
				return nil
			}
			return []gpu.GPU{{UUID: "GPU-a", At: topology.PCIAddr{Bus: 1}, Health: &gpu.Health{Uncorrected: uint64(asked)}}}
		}
		var wg sync.WaitGroup
		d := WatchDevices(t.Context(), []gpu.GPU{{At: topology.PCIAddr{Bus: 1}}}, health, wg.Go)
		wg.Wait()
		for range 3 {
			if list := d.Later(t.Context(), nil); len(list) != 1 || list[0].What != job.GPUMemoryErrors || list[0].Number != 1 {
				t.Errorf("%+v", list)
			}
		}
		time.Sleep(lasting + 1)
		begun := time.Now()
		if list := d.Later(t.Context(), nil); list != nil || time.Since(begun) > 2*HealthBound || asked != 3 {
			t.Errorf("%+v after %v, asked %d times", list, time.Since(begun), asked)
		}
	})
	files := []gpu.GPU{{}, {}} // that show no address: GPUs are the container's where there are as many
	told := []gpu.GPU{{UUID: "GPU-a", At: topology.PCIAddr{Bus: 1}, Health: &gpu.Health{Slow: job.SlowByHeat}}, {UUID: "GPU-b", At: topology.PCIAddr{Bus: 2}, Health: &gpu.Health{}}}
	if len(worse(files, nil, nil, told)) != 1 || worse(files, nil, nil, told[:1]) != nil {
		t.Error("by number")
	}
	for _, d := range []*Devices{nil, WatchDevices(t.Context(), nil, func(context.Context) []gpu.GPU { panic("no GPU") }, func(f func()) { f() }), WatchDevices(t.Context(), make([]gpu.GPU, 1), nil, nil)} {
		if list := d.Later(t.Context(), nil); list != nil {
			t.Errorf("%+v", list)
		}
	}
}
