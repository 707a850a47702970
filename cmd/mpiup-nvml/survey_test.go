//go:build cgo

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxa100"
	"github.com/google/go-cmp/cmp"

	"github.com/mpiup/mpiup/gpu"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/topology/sysfs"

	"testing/fstest"
)

// dgx is go-nvml's DGX A100 with the functions filled in that its mock leaves out: the first GPU is
// at 0000:01:00.0, the next at 0000:02:00.0, and each has 12 NVLinks to switches.
func dgx() (*dgxa100.Server, []*dgxa100.Device) {
	server := dgxa100.New()
	var devices []*dgxa100.Device
	for i, d := range server.Devices {
		d := d.(*dgxa100.Device)
		devices = append(devices, d)
		d.UUID = fmt.Sprintf("GPU-%d", i)
		d.GetPciInfoFunc = func() (nvml.PciInfo, nvml.Return) {
			return pciInfo(fmt.Sprintf("00000000:0%X:00.0", i+1)), nvml.SUCCESS
		}
		d.GetPersistenceModeFunc = func() (nvml.EnableState, nvml.Return) { return nvml.FEATURE_ENABLED, nvml.SUCCESS }
		d.GetEccModeFunc = func() (nvml.EnableState, nvml.EnableState, nvml.Return) {
			return nvml.FEATURE_ENABLED, nvml.FEATURE_ENABLED, nvml.SUCCESS
		}
		d.GetTotalEccErrorsFunc = func(nvml.MemoryErrorType, nvml.EccCounterType) (uint64, nvml.Return) { return uint64(i), nvml.SUCCESS }
		d.GetRetiredPagesPendingStatusFunc = func() (nvml.EnableState, nvml.Return) { return nvml.FEATURE_DISABLED, nvml.ERROR_NOT_SUPPORTED }
		d.GetRemappedRowsFunc = func() (int, int, bool, bool, nvml.Return) { return 0, i, false, false, nvml.SUCCESS }
		d.GetCurrentClocksThrottleReasonsFunc = func() (uint64, nvml.Return) { return nvml.ClocksThrottleReasonGpuIdle, nvml.SUCCESS }
		d.GetNvLinkStateFunc = func(link int) (nvml.EnableState, nvml.Return) {
			if link < 12 {
				return nvml.FEATURE_ENABLED, nvml.SUCCESS
			}
			return nvml.FEATURE_DISABLED, nvml.ERROR_INVALID_ARGUMENT
		}
		d.GetNvLinkRemoteDeviceTypeFunc = func(int) (nvml.IntNvLinkDeviceType, nvml.Return) {
			return nvml.NVLINK_DEVICE_TYPE_SWITCH, nvml.SUCCESS
		}
		d.GetNvLinkRemotePciInfoFunc = func(int) (nvml.PciInfo, nvml.Return) { return pciInfo("00000000:C4:00.0"), nvml.SUCCESS }
	}
	server.DeviceGetHandleByPciBusIdFunc = func(id string) (nvml.Device, nvml.Return) {
		for _, d := range devices {
			if pci, _ := d.GetPciInfo(); busID(pci) == id {
				return d, nvml.SUCCESS
			}
		}
		return nil, nvml.ERROR_NOT_FOUND
	}
	return server, devices
}

func pciInfo(id string) (p nvml.PciInfo) {
	copy(p.BusId[:], id)
	return p
}

// migOn gives a GPU MIG devices of these instances; the second of four slots is empty.
func migOn(d *dgxa100.Device, instances ...int) {
	d.MigMode = nvml.DEVICE_MIG_ENABLE
	d.GetMaxMigDeviceCountFunc = func() (int, nvml.Return) { return 4, nvml.SUCCESS }
	d.GetMigDeviceHandleByIndexFunc = func(i int) (nvml.Device, nvml.Return) {
		slots := append([]int{instances[0], -1}, instances[1:]...)
		if i >= len(slots) || slots[i] < 0 {
			return nil, nvml.ERROR_NOT_FOUND
		}
		return &mock.Device{
			GetUUIDFunc:              func() (string, nvml.Return) { return fmt.Sprintf("MIG-%d", slots[i]), nvml.SUCCESS },
			GetGpuInstanceIdFunc:     func() (int, nvml.Return) { return slots[i], nvml.SUCCESS },
			GetComputeInstanceIdFunc: func() (int, nvml.Return) { return 0, nvml.SUCCESS },
			GetMemoryInfoFunc:        func() (nvml.Memory, nvml.Return) { return nvml.Memory{Total: 5 << 30}, nvml.SUCCESS },
		}, nvml.SUCCESS
	}
	d.GetNvLinkStateFunc = func(int) (nvml.EnableState, nvml.Return) { return nvml.FEATURE_DISABLED, nvml.SUCCESS }
}

// asked is the inventory that mpiup makes of what the command prints.
func asked(t *testing.T, server *dgxa100.Server) (gpu.Inventory, string) {
	t.Helper()
	files := fstest.MapFS{}
	for i := range 8 {
		files[fmt.Sprintf("dev/nvidia%d", i)] = &fstest.MapFile{}
	}
	var said bytes.Buffer
	inv, err := gpu.Ask(t.Context(), gpu.Config{FS: sysfs.New(files), Env: func(string) (string, bool) { return "", false }, Helper: "mpiup-nvml",
		Run: func(ctx context.Context, argv []string) (gpu.Result, error) {
			var out bytes.Buffer
			code := run(ctx, server, argv[1:], &out, &said)
			return gpu.Result{Out: out.Bytes(), Code: code, Err: said.String()}, nil
		}})
	if err != nil || inv.Source != "mpiup-nvml" {
		t.Fatalf("source %s, %v", inv.Source, err)
	}
	return inv, said.String()
}

func TestDGX(t *testing.T) {
	server, devices := dgx()
	migOn(devices[3], 1, 5)
	inv, said := asked(t, server)
	if said != "" || inv.Driver != "550.54.15" || inv.CUDA != "12.4" || len(inv.GPUs) != 8 || len(inv.Units()) != 9 {
		t.Fatalf("%d GPUs, %d units, driver %s, CUDA %s, said %q", len(inv.GPUs), len(inv.Units()), inv.Driver, inv.CUDA, said)
	}
	want := gpu.GPU{Number: 3, Model: "Mock NVIDIA A100-SXM4-40GB", UUID: "GPU-3", Minor: 3, Memory: 40 << 30, Partitioned: true,
		MIG:    []gpu.MIG{{UUID: "MIG-1", Instance: 1}, {UUID: "MIG-5", Instance: 5}},
		Health: &gpu.Health{Persistence: true, ECC: true, Uncorrected: 3}}
	want.At.Bus = 4
	got := inv.GPUs[3]
	got.Path = want.Path
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	for i := range inv.GPUs {
		for j := range inv.GPUs {
			word := inv.GPUs[i].Between(&inv.GPUs[j])
			switch {
			case i == j && word != "X", i != j && i != 3 && j != 3 && word != "NV12", i != j && (i == 3 || j == 3) && strings.HasPrefix(word, "NV"):
				t.Errorf("between %d and %d: %s", i, j, word)
			}
		}
	}
}

// Without switches, as in a DGX-1: links lead to GPUs. An older driver does not tell what is at the
// other end.
func TestDirectLinks(t *testing.T) {
	for _, old := range []bool{false, true} {
		server, devices := dgx()
		if old {
			server.LookupSymbolFunc = func(name string) error { return errors.New(name + " is not there") }
		}
		for i, d := range devices {
			d.GetNvLinkStateFunc = func(link int) (nvml.EnableState, nvml.Return) {
				if link < 3 {
					return nvml.FEATURE_ENABLED, nvml.SUCCESS
				}
				return nvml.FEATURE_DISABLED, nvml.SUCCESS
			}
			d.GetNvLinkRemoteDeviceTypeFunc = func(int) (nvml.IntNvLinkDeviceType, nvml.Return) {
				if old {
					t.Error("a function that the library lacks is called")
				}
				return nvml.NVLINK_DEVICE_TYPE_GPU, nvml.SUCCESS
			}
			d.GetNvLinkRemotePciInfoFunc = func(link int) (nvml.PciInfo, nvml.Return) { // two to the neighbour, one opposite
				peer := i ^ 1
				if link == 2 {
					peer = (i + 4) % 8
				}
				return pciInfo(fmt.Sprintf("00000000:0%X:00.0", peer+1)), nvml.SUCCESS
			}
		}
		inv, _ := asked(t, server)
		var row []string
		for j := range inv.GPUs {
			row = append(row, inv.GPUs[0].Between(&inv.GPUs[j]))
		}
		if got := fmt.Sprint(row); got != "[X NV2 NODE NODE NV1 NODE NODE NODE]" {
			t.Errorf("old driver %v: %s", old, got)
		}
	}
}

// A driver before R460 tells a switch as a PCI function that is no GPU.
func TestSwitchesOfAnOldDriver(t *testing.T) {
	server, _ := dgx()
	server.LookupSymbolFunc = func(name string) error { return errors.New(name + " is not there") }
	inv, _ := asked(t, server)
	if got := inv.GPUs[0].Between(&inv.GPUs[7]); got != "NV12" {
		t.Error(got)
	}
}

func TestALostGPUIsLeftOut(t *testing.T) {
	server, devices := dgx()
	devices[2].GetUUIDFunc = func() (string, nvml.Return) { return "", nvml.ERROR_GPU_IS_LOST }
	handle := server.DeviceGetHandleByIndexFunc
	server.DeviceGetHandleByIndexFunc = func(i int) (nvml.Device, nvml.Return) {
		if i == 5 {
			return nil, nvml.ERROR_NO_PERMISSION
		}
		return handle(i)
	}
	inv, said := asked(t, server)
	if len(inv.GPUs) != 6 || !strings.Contains(said, "mpiup-nvml: GPU 2: UUID: ") || !strings.Contains(said, "mpiup-nvml: GPU 5: ") {
		t.Errorf("%d GPUs, said %q", len(inv.GPUs), said)
	}
}

// What NVML tells of memory that fails, and of clocks that hardware holds back.
func TestHealth(t *testing.T) {
	server, devices := dgx()
	devices[1].GetRemappedRowsFunc = func() (int, int, bool, bool, nvml.Return) { return 0, 1, true, false, nvml.SUCCESS }
	devices[2].GetRemappedRowsFunc = func() (int, int, bool, bool, nvml.Return) { return 0, 9, false, true, nvml.SUCCESS }
	devices[3].GetRemappedRowsFunc = func() (int, int, bool, bool, nvml.Return) { return 0, 0, true, true, nvml.ERROR_NOT_SUPPORTED }
	devices[3].GetRetiredPagesPendingStatusFunc = func() (nvml.EnableState, nvml.Return) { return nvml.FEATURE_ENABLED, nvml.SUCCESS }
	for i, reasons := range map[int]uint64{4: nvml.ClocksThrottleReasonHwSlowdown | nvml.ClocksThrottleReasonHwThermalSlowdown, 5: nvml.ClocksThrottleReasonHwPowerBrakeSlowdown,
		6: nvml.ClocksEventReasonSwThermalSlowdown, 7: nvml.ClocksEventReasonSwPowerCap | nvml.ClocksThrottleReasonApplicationsClocksSetting} {
		devices[i].GetCurrentClocksThrottleReasonsFunc = func() (uint64, nvml.Return) { return reasons, nvml.SUCCESS }
	}
	inv, _ := asked(t, server)
	for i, want := range []gpu.Health{{}, {Pending: true}, {Failed: true}, {Pending: true}, {Slow: job.SlowByHeat | job.SlowByOther}, {Slow: job.SlowByPower}, {Slow: job.SlowByHeat}, {}} {
		want.Persistence, want.ECC, want.Uncorrected = true, true, uint64(i)
		if d := cmp.Diff(&want, inv.GPUs[i].Health); d != "" {
			t.Errorf("GPU %d: %s", i, d)
		}
	}
}

func TestWhatGoesWrongIsSaid(t *testing.T) {
	broken := func(change func(*dgxa100.Server)) *dgxa100.Server {
		server, _ := dgx()
		change(server)
		return server
	}
	for _, tt := range []struct {
		name string
		lib  *dgxa100.Server
		args string
		code int
		want string
	}{
		{"no library", broken(func(s *dgxa100.Server) { s.InitFunc = func() nvml.Return { return nvml.ERROR_LIBRARY_NOT_FOUND } }), "", 1, "libnvidia-ml.so.1 is not there"},
		{"no driver", broken(func(s *dgxa100.Server) { s.InitFunc = func() nvml.Return { return nvml.ERROR_DRIVER_NOT_LOADED } }), "", 1, "the driver is not loaded"},
		{"no count", broken(func(s *dgxa100.Server) {
			s.DeviceGetCountFunc = func() (int, nvml.Return) { return 0, nvml.ERROR_UNKNOWN }
		}), "", 1, "number of GPUs: "},
		{"too often", broken(func(*dgxa100.Server) {}), "--interval 1ms", 2, "--interval TIME, at least 100ms"},
		{"a word too many", broken(func(*dgxa100.Server) {}), "now", 2, "the only argument is --interval TIME"},
		{"an unknown flag", broken(func(*dgxa100.Server) {}), "--watch", 2, "-watch"},
	} {
		var out, said bytes.Buffer
		code := run(t.Context(), tt.lib, strings.Fields(tt.args), &out, &said)
		if code != tt.code || !strings.Contains(said.String(), tt.want) || out.Len() > 0 {
			t.Errorf("%s: code %d, %q, printed %q", tt.name, code, said.String(), out.String())
		}
	}
}

// quiet fills in what a stream asks for.
func quiet(devices []*dgxa100.Device) {
	for _, d := range devices {
		d.GetUtilizationRatesFunc = func() (nvml.Utilization, nvml.Return) { return nvml.Utilization{Gpu: 87}, nvml.SUCCESS }
		d.GetPowerUsageFunc = func() (uint32, nvml.Return) { return 250_000, nvml.SUCCESS }
		d.GetTemperatureFunc = func(nvml.TemperatureSensors) (uint32, nvml.Return) { return 41, nvml.SUCCESS }
	}
}

// A stream has a report an interval, with what changes, and ends with its reader or the signal.
func TestStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, devices := dgx()
		quiet(devices)
		server.EventSetCreateFunc = func() (nvml.EventSet, nvml.Return) { return nil, nvml.ERROR_NOT_SUPPORTED }
		ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
		defer cancel()
		var out, said bytes.Buffer
		if code := run(ctx, server, []string{"--interval", "10s"}, &out, &said); code != 0 {
			t.Fatalf("code %d: %s", code, said.String())
		}
		reports := json.NewDecoder(&out)
		for n := range 3 {
			var r gpu.Report
			if err := reports.Decode(&r); err != nil || len(r.GPUs) != 8 {
				t.Fatalf("report %d: %d GPUs, %v", n, len(r.GPUs), err)
			}
			if u := r.GPUs[7].Usage; u == nil || !cmp.Equal(*u, gpu.Usage{Compute: 87, Power: 250_000, Celsius: 41, Corrected: new(uint64(7))}) {
				t.Errorf("report %d: %+v", n, u)
			}
		}
		if reports.More() {
			t.Error("more than a report at 0, 10 and 20 s")
		}
		closed, w := io.Pipe()
		closed.Close()
		if code := run(t.Context(), server, []string{"--interval", "10s"}, w, &said); code != 0 {
			t.Errorf("code %d after the reader went: %s", code, said.String())
		}
	})
}
