package gpu

import "github.com/mpiup/mpiup/internal/idset"

// The pairing of ranks and units that nobody asked for: local rank i has unit i, modulo their count. Scripts that
// take GPU LOCAL_RANK % count do the same.

// UnitOf is the unit of a local rank, false without units.
func UnitOf(units []Unit, localRank int) (Unit, bool) {
	if len(units) == 0 || localRank < 0 {
		return Unit{}, false
	}
	return units[localRank%len(units)], true
}

// NearCPUs is the CPUs near any of some units, as far as they are known.
func NearCPUs(units ...Unit) (cpus idset.Set) {
	for _, u := range units {
		cpus = cpus.Union(u.GPU.Near)
	}
	return cpus
}
