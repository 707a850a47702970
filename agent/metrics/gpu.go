package metrics

import (
	"github.com/mpiup/mpiup/internal/exposition"
)

// gpuMetrics are the values of a GPU. value is false where it is not known.
func gpuMetrics() []gpuMetric {
	gauge := func(name, help string, value func(*GPU) float64) gpuMetric {
		return gpuMetric{name, exposition.Gauge, help, func(g *GPU) (float64, bool) { return value(g), true }}
	}
	known := func(n *uint64) (float64, bool) {
		if n == nil {
			return 0, false
		}
		return float64(*n), true
	}
	return []gpuMetric{
		gauge("utilization_ratio", "Part of the time since the last sample in which a kernel ran.", func(g *GPU) float64 { return float64(g.Usage.Compute) / 100 }),
		gauge("memory_used_bytes", "Memory in use.", func(g *GPU) float64 { return float64(g.Usage.Memory) }),
		gauge("memory_bytes", "Memory of the GPU.", func(g *GPU) float64 { return float64(g.Memory) }),
		gauge("temperature_celsius", "Temperature of the GPU.", func(g *GPU) float64 { return float64(g.Usage.Celsius) }),
		gauge("power_watts", "Power drawn.", func(g *GPU) float64 { return float64(g.Usage.Power) / 1000 }),
		{"ecc_uncorrected_total", exposition.Counter, "Uncorrected memory errors since the driver was loaded.",
			func(g *GPU) (float64, bool) { return known(g.Uncorrected) }},
		{"ecc_corrected_total", exposition.Counter, "Corrected memory errors since the driver was loaded.",
			func(g *GPU) (float64, bool) { return known(g.Usage.Corrected) }},
		{"xid_errors_total", exposition.Counter, "Critical Xid errors that were seen while metrics were read.",
			func(g *GPU) (float64, bool) { return float64(g.Usage.Xids), true }},
	}
}

type gpuMetric struct {
	name, kind, help string
	value            func(*GPU) (float64, bool)
}

// gpus is the watch's latest report.
func gpus(watch *Watch) []exposition.Family {
	all, fresh := watch.Latest()
	up := 0.0
	if fresh {
		up = 1
	}
	list := []exposition.Family{exposition.One(exposition.Gauge, "mpiup_gpu_up", "1 while mpiup-nvml reports, which it does a moment after the first scrape.", up)}
	for _, m := range gpuMetrics() {
		f := exposition.Family{Name: "mpiup_gpu_" + m.name, Kind: m.kind, Help: m.help}
		for i := range all {
			if v, ok := m.value(&all[i]); ok {
				f.Add(v, "gpu", all[i].UUID, "pci", all[i].PCI)
			}
		}
		list = append(list, f)
	}
	return list
}
