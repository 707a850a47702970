package launcher

import (
	"github.com/mpiup/mpiup/gpu"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/idset"
)

// maxUnits bounds what an agent tells of its GPUs.
const maxUnits = 1 << 12

// nearGPUs is the CPUs near the GPUs of each local rank of a host, of those that it was wished to see;
// without a wish near one each. nil: there is no GPU, or where one is is not known.
func nearGPUs(units []*apiv1.GpuUnit, wish gpu.Wish) (near []idset.Set) {
	units = units[:min(len(units), maxUnits)]
	all := make([]idset.Set, len(units))
	for i, u := range units {
		cpus, err := idset.Parse(u.NearCpus)
		if err != nil || cpus.Empty() {
			return nil
		}
		all[i] = cpus
	}
	union := func(numbers idset.Set) (cpus idset.Set) {
		for n := range numbers.All() {
			if n < len(all) { // else the agent says that it has no such GPU
				cpus = cpus.Union(all[n])
			}
		}
		return cpus
	}
	switch {
	case len(wish.Sets) > 0 && len(all) > 0:
		for _, set := range wish.Sets {
			near = append(near, union(set))
		}
		return near
	case wish.PerRank > 1:
		for first := 0; first+wish.PerRank <= len(all); first += wish.PerRank {
			near = append(near, union(idset.Range(first, first+wish.PerRank-1)))
		}
		return near
	}
	return all
}

// gpuWish is what was checked when the command line was read.
func (c *Config) gpuWish() gpu.Wish {
	wish, _ := gpu.ParseWish(c.GPUsPerRank, c.GPUBind)
	return wish
}
