package discover

import (
	"path"
	"strings"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/podfiles"
	"github.com/mpiup/mpiup/topology/sysfs"
)

// cpuset reads what this process may run on.
type cpuset struct{ fs sysfs.FS }

// allowed finds what the cpuset of this process gives it, both empty where that cannot be known.
//
//	v2     MOUNT/GROUP/cpuset.{cpus,mems}.effective
//	v1     MOUNT/GROUP/cpuset.{cpus,mems}, where nothing was written cpuset.effective_{cpus,mems}
//	older  MOUNT/GROUP/{cpus,mems}        the cpuset file system
//
// MOUNT is what /proc/mounts names, else where it usually is. GROUP is /proc/self/cpuset, or named
// in /proc/self/cgroup; a v2 group without the controller has its parent's. In a container GROUP may
// be the host's name for what is mounted at MOUNT itself.
func (c cpuset) allowed() (cpus, nodes idset.Set) {
	group := c.group()
	for _, m := range c.mounts() {
		for _, dir := range upwards(m.dir, group) {
			for _, file := range m.files {
				if !c.fs.Exists(dir + "/" + file.cpus) {
					continue
				}
				cpus, err := c.fs.List(dir + "/" + file.cpus)
				if err == nil && !cpus.Empty() {
					nodes, _ = c.fs.List(dir + "/" + file.mems)
					return cpus, nodes
				}
			}
		}
	}
	return idset.Set{}, idset.Set{}
}

// affinity is the mask of this process (Cpus_allowed_list of /proc/self/status, which the kernel has cut to the
// cpuset), empty if it cannot be known.
func (c cpuset) affinity() idset.Set {
	list, _ := status(c.fs, "Cpus_allowed_list")
	cpus, err := idset.Parse(list)
	if err != nil || cpus.Last() > maxCPU {
		c.fs.Note("proc/self/status", "Cpus_allowed_list %.40q is not understood", list)
		return idset.Set{}
	}
	return cpus
}

// upwards is the directories of a group and those above it, up to the mount point.
func upwards(mount, group string) (dirs []string) {
	for group = path.Clean("/" + group); group != "/" && len(dirs) < maxDepth; group = path.Dir(group) {
		dirs = append(dirs, path.Join(mount, group))
	}
	return append(dirs, mount)
}

// maxDepth bounds a group's levels; Kubernetes has five.
const maxDepth = 64

// cpusetMount is where cpusets can be seen and what their files are called, in the order in which they are asked.
type cpusetMount struct {
	dir   string
	files []cpusetFiles
}

type cpusetFiles struct{ cpus, mems string }

var (
	cgroup2 = []cpusetFiles{{"cpuset.cpus.effective", "cpuset.mems.effective"}}
	cgroup1 = []cpusetFiles{{"cpuset.cpus", "cpuset.mems"}, {"cpuset.effective_cpus", "cpuset.effective_mems"}}
	cpusets = []cpusetFiles{{"cpus", "mems"}, {"effective_cpus", "effective_mems"}}
)

// mounts are those of /proc/mounts, then the usual places.
func (c cpuset) mounts() (all []cpusetMount) {
	text, _ := c.fs.Text("proc/mounts")
	for _, m := range podfiles.Mounts(text, func(fstype string) bool {
		return fstype == "cgroup2" || fstype == "cgroup" || fstype == "cpuset"
	}) {
		switch {
		case m.Type == "cgroup2":
			all = append(all, cpusetMount{m.Dir, cgroup2})
		case m.Type == "cpuset", m.Has("cpuset") && m.Has("noprefix"):
			all = append(all, cpusetMount{m.Dir, cpusets})
		case m.Has("cpuset"):
			all = append(all, cpusetMount{m.Dir, cgroup1})
		}
	}
	return append(all[:min(len(all), maxMounts)],
		cpusetMount{"sys/fs/cgroup", cgroup2}, cpusetMount{"sys/fs/cgroup/cpuset", cgroup1}, cpusetMount{"dev/cpuset", cpusets})
}

// maxMounts bounds the places that are looked at.
const maxMounts = 64

// group is this process's group.
func (c cpuset) group() string {
	group, err := c.fs.Text("proc/self/cpuset")
	if err != nil || group == "" {
		text, _ := c.fs.Text("proc/self/cgroup")
		for controllers, in := range memberships(text) {
			v1 := strings.Contains(","+controllers+",", ",cpuset,")
			if controllers == "" || v1 {
				group = in
			}
			if v1 {
				break
			}
		}
	}
	return path.Clean("/" + group) // "/../x" is seen from a namespace whose root lies elsewhere
}
