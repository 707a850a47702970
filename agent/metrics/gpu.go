package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/mpiup/mpiup/internal/scrape"
)

// gpuCollector shows the latest report of a Watch.
type gpuCollector struct {
	watch *Watch

	// up is 1 while there is a report that is new.
	up *prometheus.Desc

	values []gpuValue
}

// gpuValue is one value of a GPU. read's second result is false where the value is not known.
type gpuValue struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	read func(*GPU) (float64, bool)
}

func newGPUCollector(watch *Watch) *gpuCollector {
	c := &gpuCollector{
		watch: watch,
		up:    prometheus.NewDesc("mpiup_gpu_up", "1 while mpiup-nvml reports, which it does a moment after the first scrape.", nil, nil),
	}

	add := func(kind prometheus.ValueType, name, help string, read func(*GPU) (float64, bool)) {
		desc := prometheus.NewDesc("mpiup_gpu_"+name, help, []string{"gpu", "pci"}, nil)
		c.values = append(c.values, gpuValue{desc, kind, read})
	}
	gauge := func(name, help string, read func(*GPU) float64) {
		add(prometheus.GaugeValue, name, help, func(g *GPU) (float64, bool) { return read(g), true })
	}
	// Not every GPU counts errors of its memory.
	known := func(n *uint64) (float64, bool) {
		if n == nil {
			return 0, false
		}
		return float64(*n), true
	}

	gauge("utilization_ratio", "Part of the time since the last sample in which a kernel ran.",
		func(g *GPU) float64 { return float64(g.Usage.Compute) / 100 })
	gauge("memory_used_bytes", "Memory in use.", func(g *GPU) float64 { return float64(g.Usage.Memory) })
	gauge("memory_bytes", "Memory of the GPU.", func(g *GPU) float64 { return float64(g.Memory) })
	gauge("temperature_celsius", "Temperature of the GPU.", func(g *GPU) float64 { return float64(g.Usage.Celsius) })
	gauge("power_watts", "Power drawn.", func(g *GPU) float64 { return float64(g.Usage.Power) / 1000 })
	add(prometheus.CounterValue, "ecc_uncorrected_total", "Uncorrected memory errors since the driver was loaded.",
		func(g *GPU) (float64, bool) { return known(g.Uncorrected) })
	add(prometheus.CounterValue, "ecc_corrected_total", "Corrected memory errors since the driver was loaded.",
		func(g *GPU) (float64, bool) { return known(g.Usage.Corrected) })
	add(prometheus.CounterValue, "xid_errors_total", "Critical Xid errors that were seen while metrics were read.",
		func(g *GPU) (float64, bool) { return float64(g.Usage.Xids), true })
	return c
}

// Describe says which series there may be.
func (c *gpuCollector) Describe(to chan<- *prometheus.Desc) {
	to <- c.up
	for _, v := range c.values {
		to <- v.desc
	}
}

// Collect gives the series of the latest report; to ask for it keeps the helper running.
func (c *gpuCollector) Collect(to chan<- prometheus.Metric) {
	gpus, fresh := c.watch.Latest()
	up := 0.0
	if fresh {
		up = 1
	}
	to <- scrape.Sample(c.up, prometheus.GaugeValue, up)

	for i := range gpus {
		for _, v := range c.values {
			if value, ok := v.read(&gpus[i]); ok {
				to <- scrape.Sample(v.desc, v.kind, value, gpus[i].UUID, gpus[i].PCI)
			}
		}
	}
}
