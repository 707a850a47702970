package placement

import (
	"fmt"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/layout"
)

// gpuCPUs is the CPUs that a local rank of a host may use and that are near its GPU. Local rank i has GPU i, and
// where there are more ranks the first GPU follows the last.
func gpuCPUs(h job.Host, localRank int) idset.Set {
	if len(h.NearGPUs) == 0 || h.Layout == nil {
		return idset.Set{}
	}
	return h.Layout.CPUs().Intersect(h.NearGPUs[localRank%len(h.NearGPUs)])
}

// chooseGPUs binds each rank to the CPUs near its GPU, if the user said nothing and all hosts have GPUs. known is
// false if that is not so; then the rules for other hosts count. A rank on the wrong NUMA node loses a third of its
// GPU's bandwidth. Each rank may use all CPUs of its node, so others there do not stop it. Hence this is done even
// where ranks share CPUs.
func chooseGPUs(plan *job.Plan, byHost [][]int) (t *target, why string, known bool) {
	apart := false
	for h, host := range plan.Hosts {
		if len(host.NearGPUs) == 0 || host.Layout == nil {
			return nil, "", false
		}
		ranks := map[string]int{}
		for local := range byHost[h] {
			cpus := gpuCPUs(host, local)
			if cpus.Empty() {
				return nil, "", false // no CPU near it may be used, or none is known
			}
			apart = apart || !cpus.Equal(host.Layout.CPUs())
			if ranks[cpus.String()]++; host.Layout.Inside(layout.Core, cpus) < ranks[cpus.String()] {
				return nil, fmt.Sprintf("host %s has fewer cores near a GPU than ranks", host.Name), true
			}
		}
	}
	if !apart {
		return nil, "", false
	}
	return &target{nearGPUs: true}, "", true
}
