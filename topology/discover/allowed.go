package discover

import (
	"slices"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/podfiles"
	"github.com/mpiup/mpiup/topology/sysfs"
)

// cpuset finds what the cpuset of this process gives it, both empty where that cannot be known.
//
//	v2     MOUNT/GROUP/cpuset.{cpus,mems}.effective
//	v1     MOUNT/GROUP/cpuset.{cpus,mems}, where nothing was written cpuset.effective_{cpus,mems}
//	older  MOUNT/GROUP/{cpus,mems}        the cpuset file system
//
// A v2 group without the controller has its parent's. Where the kernel's tables name no MOUNT, it is where it usually is.
func (g *Cgroups) cpuset() (cpus, nodes idset.Set) {
	all := slices.Clone(g.all)
	for _, m := range usualMounts {
		all = append(all, g.at(m))
	}
	for _, h := range all {
		for _, dir := range h.upTo() {
			for _, file := range h.cpusetFiles() {
				if !g.fs.Exists(dir + "/" + file.cpus) {
					continue
				}
				cpus, err := g.fs.List(dir + "/" + file.cpus)
				if err == nil && !cpus.Empty() {
					nodes, _ = g.fs.List(dir + "/" + file.mems)
					return cpus, nodes
				}
			}
		}
	}
	return idset.Set{}, idset.Set{}
}

var usualMounts = []podfiles.Mount{
	{Dir: "sys/fs/cgroup", Type: "cgroup2", Root: "/"},
	{Dir: "sys/fs/cgroup/cpuset", Type: "cgroup", Options: []string{"cpuset"}, Root: "/"},
	{Dir: "dev/cpuset", Type: "cgroup", Options: []string{"cpuset", "noprefix"}, Root: "/"},
}

type cpusetFiles struct{ cpus, mems string }

// cpusetFiles are how cpusets' files are called in a hierarchy, in the order in which they are asked; none: it has no cpusets.
func (h hierarchy) cpusetFiles() []cpusetFiles {
	switch {
	case h.v2:
		return []cpusetFiles{{"cpuset.cpus.effective", "cpuset.mems.effective"}}
	case !h.has("cpuset"):
		return nil
	case h.has("noprefix"):
		return []cpusetFiles{{"cpus", "mems"}, {"effective_cpus", "effective_mems"}}
	}
	return []cpusetFiles{{"cpuset.cpus", "cpuset.mems"}, {"cpuset.effective_cpus", "cpuset.effective_mems"}}
}

// affinity is the mask of this process (Cpus_allowed_list of /proc/self/status, which the kernel has cut to the
// cpuset), empty if it cannot be known.
func affinity(f sysfs.FS) idset.Set {
	list, _ := status(f, "Cpus_allowed_list")
	cpus, err := idset.Parse(list)
	if err != nil || cpus.Last() > maxCPU {
		f.Note("proc/self/status", "Cpus_allowed_list %.40q is not understood", list)
		return idset.Set{}
	}
	return cpus
}
