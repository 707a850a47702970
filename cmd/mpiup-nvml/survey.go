//go:build cgo

package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/mpiup/mpiup/gpu"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/visible"
)

// survey asks the library. What a GPU does not answer is left out of its report.
type survey struct {
	lib   nvml.Interface
	usage bool // report how busy GPUs are
	warn  io.Writer

	xids   nvml.EventSet     // critical errors; nil: the library does not tell of them
	counts map[string]uint64 // of them, by UUID
}

func (s *survey) report() (gpu.Report, error) {
	r := gpu.Report{Version: gpu.ReportVersion, GPUs: []gpu.ReportGPU{}}
	count, ret := s.lib.DeviceGetCount()
	if ret != nvml.SUCCESS {
		return r, fmt.Errorf("number of GPUs: %w", ret)
	}
	if v, ret := s.lib.SystemGetDriverVersion(); ret == nvml.SUCCESS {
		r.Driver = v
	}
	if v, ret := s.lib.SystemGetCudaDriverVersion(); ret == nvml.SUCCESS { // 12040 is 12.4
		r.CUDA = fmt.Sprintf("%d.%d", v/1000, v%1000/10)
	}
	for i := range count {
		g, err := s.gpu(i)
		if err != nil { // it has fallen off the bus, or another container has it
			visible.Fprintf(s.warn, "mpiup-nvml: GPU %d: %v\n", i, err)
			continue
		}
		r.GPUs = append(r.GPUs, g)
	}
	return r, nil
}

func (s *survey) gpu(index int) (g gpu.ReportGPU, err error) {
	d, ret := s.lib.DeviceGetHandleByIndex(index)
	if ret != nvml.SUCCESS {
		return g, ret
	}
	pci, ret := d.GetPciInfo()
	if ret != nvml.SUCCESS {
		return g, fmt.Errorf("PCI address: %w", ret)
	}
	g.PCI = busID(pci)
	if g.UUID, ret = d.GetUUID(); ret != nvml.SUCCESS {
		return g, fmt.Errorf("UUID: %w", ret)
	}
	if minor, ret := d.GetMinorNumber(); ret == nvml.SUCCESS {
		g.Minor = &minor
	}
	if name, ret := d.GetName(); ret == nvml.SUCCESS {
		g.Model = name
	}
	memory, ret := d.GetMemoryInfo()
	if ret == nvml.SUCCESS {
		g.Memory = memory.Total
	}
	if s.has("nvmlDeviceGetMigMode") { // since R450
		if mode, _, ret := d.GetMigMode(); ret == nvml.SUCCESS && mode == nvml.DEVICE_MIG_ENABLE {
			g.MIGMode, g.MIG = true, instances(d)
		}
	}
	s.links(d, &g)
	g.Health = s.health(d)
	if s.usage {
		g.Usage = usage(d, memory.Used)
		g.Usage.Xids = s.counts[g.UUID]
	}
	return g, nil
}

// busID is the text of a PCI address, "0000:1b:00.0", of one as NVML writes it: with eight digits of
// domain and in capitals.
func busID(pci nvml.PciInfo) string {
	text := make([]byte, 0, len(pci.BusId))
	for _, c := range pci.BusId {
		if c == 0 {
			break
		}
		text = append(text, byte(c))
	}
	id := strings.ToLower(string(text))
	if domain, rest, ok := strings.Cut(id, ":"); ok && len(domain) == 8 && strings.HasPrefix(domain, "0000") {
		return domain[4:] + ":" + rest
	}
	return id
}

// instances are the MIG devices of a GPU that this container may use.
func instances(d nvml.Device) (found []gpu.MIG) {
	most, ret := d.GetMaxMigDeviceCount()
	if ret != nvml.SUCCESS {
		return nil
	}
	for i := range most {
		m, ret := d.GetMigDeviceHandleByIndex(i)
		if ret != nvml.SUCCESS { // there are fewer than there may be
			continue
		}
		var one gpu.MIG
		var rets [3]nvml.Return
		one.UUID, rets[0] = m.GetUUID()
		one.Instance, rets[1] = m.GetGpuInstanceId()
		one.Compute, rets[2] = m.GetComputeInstanceId()
		if rets == [3]nvml.Return{} {
			found = append(found, one)
		}
	}
	return found
}

// links counts the NVLinks that are up, by what is at the other end. Drivers before R460 do not tell
// switches; there the other end is a switch if it is not a GPU of NVML's.
func (s *survey) links(d nvml.Device, g *gpu.ReportGPU) {
	typed := s.has("nvmlDeviceGetNvLinkRemoteDeviceType")
	peers := map[string]int{}
	for link := range nvml.NVLINK_MAX_LINKS {
		state, ret := d.GetNvLinkState(link)
		if ret != nvml.SUCCESS || state != nvml.FEATURE_ENABLED {
			continue
		}
		if typed {
			if kind, ret := d.GetNvLinkRemoteDeviceType(link); ret == nvml.SUCCESS && kind == nvml.NVLINK_DEVICE_TYPE_SWITCH {
				g.Switch++
				continue
			}
		}
		remote, ret := d.GetNvLinkRemotePciInfo(link)
		if ret != nvml.SUCCESS {
			continue
		}
		id := busID(remote)
		if _, ret := s.lib.DeviceGetHandleByPciBusId(id); ret == nvml.SUCCESS {
			peers[id]++
		} else if !typed {
			g.Switch++
		}
	}
	for id, n := range peers {
		g.Peers = append(g.Peers, gpu.PeerLinks{PCI: id, Links: n})
	}
	slices.SortFunc(g.Peers, func(a, b gpu.PeerLinks) int { return cmp.Compare(a.PCI, b.PCI) })
}

// has reports whether the library on this host has a function; calling one that it lacks ends the
// process.
func (s *survey) has(symbol string) bool { return s.lib.Extensions().LookupSymbol(symbol) == nil }

func (s *survey) health(d nvml.Device) *gpu.Health {
	mode, ret := d.GetPersistenceMode()
	if ret != nvml.SUCCESS {
		return nil
	}
	h := &gpu.Health{Persistence: mode == nvml.FEATURE_ENABLED}
	if ecc, _, ret := d.GetEccMode(); ret == nvml.SUCCESS && ecc == nvml.FEATURE_ENABLED {
		h.ECC = true
		if n, ret := d.GetTotalEccErrors(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.VOLATILE_ECC); ret == nvml.SUCCESS {
			h.Uncorrected = n
		}
	}
	if s.has("nvmlDeviceGetRetiredPagesPendingStatus") { // before Ampere
		if state, ret := d.GetRetiredPagesPendingStatus(); ret == nvml.SUCCESS {
			h.Pending = state == nvml.FEATURE_ENABLED
		}
	}
	if s.has("nvmlDeviceGetRemappedRows") { // since Ampere
		if _, _, pending, failed, ret := d.GetRemappedRows(); ret == nvml.SUCCESS {
			h.Pending, h.Failed = h.Pending || pending, failed
		}
	}
	if s.has("nvmlDeviceGetCurrentClocksThrottleReasons") {
		if reasons, ret := d.GetCurrentClocksThrottleReasons(); ret == nvml.SUCCESS {
			h.Slow = slow(reasons)
		}
	}
	return h
}

// slow is the reasons for which hardware holds clocks back: those of power caps and applications' clocks are as they were asked for.
func slow(reasons uint64) (s job.Slow) {
	for bit, of := range map[uint64]job.Slow{nvml.ClocksThrottleReasonHwThermalSlowdown: job.SlowByHeat, nvml.ClocksEventReasonSwThermalSlowdown: job.SlowByHeat,
		nvml.ClocksThrottleReasonHwPowerBrakeSlowdown: job.SlowByPower, nvml.ClocksThrottleReasonHwSlowdown: job.SlowByOther} {
		if reasons&bit != 0 {
			s |= of
		}
	}
	return s
}

func usage(d nvml.Device, used uint64) *gpu.Usage {
	u := &gpu.Usage{Memory: used}
	if rates, ret := d.GetUtilizationRates(); ret == nvml.SUCCESS {
		u.Compute = int(rates.Gpu)
	}
	if mw, ret := d.GetPowerUsage(); ret == nvml.SUCCESS {
		u.Power = mw
	}
	if c, ret := d.GetTemperature(nvml.TEMPERATURE_GPU); ret == nvml.SUCCESS {
		u.Celsius = c
	}
	if ecc, _, ret := d.GetEccMode(); ret == nvml.SUCCESS && ecc == nvml.FEATURE_ENABLED {
		if n, ret := d.GetTotalEccErrors(nvml.MEMORY_ERROR_TYPE_CORRECTED, nvml.VOLATILE_ECC); ret == nvml.SUCCESS {
			u.Corrected = &n
		}
	}
	return u
}
