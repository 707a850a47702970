package metrics

import (
	"github.com/mpiup/mpiup/agent/gpuwatch"
	"github.com/prometheus/client_golang/prometheus"
)

// gpuMetrics shows the watch's latest report on /metrics.
type gpuMetrics struct {
	watch *gpuwatch.Watch
	up    *prometheus.Desc
	all   []gpuMetric
}

// gpuMetric is one value of a GPU; value is false where it is not known.
type gpuMetric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*gpuwatch.GPU) (float64, bool)
}

func newGPUMetrics(w *gpuwatch.Watch) *gpuMetrics {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("mpiup_gpu_"+name, help, labels, nil)
	}
	c := &gpuMetrics{watch: w, up: desc("up", "1 while mpiup-nvml reports, which it does a moment after the first scrape.")}
	add := func(kind prometheus.ValueType, name, help string, value func(*gpuwatch.GPU) (float64, bool)) {
		c.all = append(c.all, gpuMetric{desc(name, help, "gpu", "pci"), kind, value})
	}
	gauge := func(name, help string, value func(*gpuwatch.GPU) float64) {
		add(prometheus.GaugeValue, name, help, func(g *gpuwatch.GPU) (float64, bool) { return value(g), true })
	}
	gauge("utilization_ratio", "Part of the time since the last sample in which a kernel ran.", func(g *gpuwatch.GPU) float64 { return float64(g.Usage.Compute) / 100 })
	gauge("memory_used_bytes", "Memory in use.", func(g *gpuwatch.GPU) float64 { return float64(g.Usage.Memory) })
	gauge("memory_bytes", "Memory of the GPU.", func(g *gpuwatch.GPU) float64 { return float64(g.Memory) })
	gauge("temperature_celsius", "Temperature of the GPU.", func(g *gpuwatch.GPU) float64 { return float64(g.Usage.Celsius) })
	gauge("power_watts", "Power drawn.", func(g *gpuwatch.GPU) float64 { return float64(g.Usage.Power) / 1000 })
	known := func(n *uint64) (float64, bool) {
		if n == nil {
			return 0, false
		}
		return float64(*n), true
	}
	add(prometheus.CounterValue, "ecc_uncorrected_total", "Uncorrected memory errors since the driver was loaded.",
		func(g *gpuwatch.GPU) (float64, bool) { return known(g.Uncorrected) })
	add(prometheus.CounterValue, "ecc_corrected_total", "Corrected memory errors since the driver was loaded.",
		func(g *gpuwatch.GPU) (float64, bool) { return known(g.Usage.Corrected) })
	add(prometheus.CounterValue, "xid_errors_total", "Critical Xid errors that were seen while metrics were read.",
		func(g *gpuwatch.GPU) (float64, bool) { return float64(g.Usage.Xids), true })
	return c
}

// Describe implements prometheus.Collector.
func (c *gpuMetrics) Describe(to chan<- *prometheus.Desc) {
	to <- c.up
	for _, m := range c.all {
		to <- m.desc
	}
}

// Collect implements prometheus.Collector.
func (c *gpuMetrics) Collect(to chan<- prometheus.Metric) {
	gpus, fresh := c.watch.Latest()
	up := 0.0
	if fresh {
		up = 1
	}
	to <- prometheus.MustNewConstMetric(c.up, prometheus.GaugeValue, up)
	for i := range gpus {
		for _, m := range c.all {
			if v, ok := m.value(&gpus[i]); ok {
				to <- prometheus.MustNewConstMetric(m.desc, m.kind, v, gpus[i].UUID, gpus[i].PCI)
			}
		}
	}
}
