package discover

import (
	"path"
	"slices"
	"strings"

	"github.com/mpiup/mpiup/internal/idset"
)

// readAllowed finds what the cpuset of this process gives it, and its affinity mask
// (Cpus_allowed_list of /proc/self/status, which the kernel has cut to the cpuset).
//
//	v2     MOUNT/GROUP/cpuset.{cpus,mems}.effective
//	v1     MOUNT/GROUP/cpuset.{cpus,mems}
//	older  MOUNT/GROUP/{cpus,mems}                    the cpuset file system
//
// GROUP is /proc/self/cpuset, or named in /proc/self/cgroup. In a container GROUP may be the host's
// name for what is mounted at MOUNT itself.
func (r *reader) readAllowed() {
	if status, err := r.fs.Prefix("proc/self/status", 16<<10); err == nil {
		if _, rest, ok := strings.Cut(string(status), "\nCpus_allowed_list:"); ok {
			list, _, _ := strings.Cut(rest, "\n")
			if cpus, err := idset.Parse(list); err == nil && cpus.Last() <= maxCPU {
				r.parts.Affinity = cpus
			}
		}
	}
	mount, ok := r.cpusetMount()
	if !ok {
		return
	}
	group := r.cpusetGroup()
	for _, dir := range []string{path.Join(mount.dir, group), mount.dir} {
		cpus, err := r.fs.List(dir + "/" + mount.prefix + "cpus" + mount.suffix)
		if err != nil {
			continue
		}
		r.parts.AllowedCPUs = cpus
		r.parts.AllowedNodes, _ = r.fs.List(dir + "/" + mount.prefix + "mems" + mount.suffix)
		return
	}
}

// cpusetMount is where cpusets can be seen and what their files are called.
type cpusetMount struct{ dir, prefix, suffix string }

var (
	cgroup2 = cpusetMount{prefix: "cpuset.", suffix: ".effective"}
	cgroup1 = cpusetMount{prefix: "cpuset."}
	cpusets = cpusetMount{}
)

func (m cpusetMount) at(dir string) cpusetMount {
	m.dir = strings.TrimPrefix(path.Clean("/"+dir), "/")
	return m
}

// cpusetMount looks at the usual places, then at all mounts.
func (r *reader) cpusetMount() (cpusetMount, bool) {
	for _, m := range []cpusetMount{
		cgroup2.at("/sys/fs/cgroup"), cgroup1.at("/sys/fs/cgroup/cpuset"), cpusets.at("/dev/cpuset"),
	} {
		if r.fs.Exists(m.dir + "/" + m.prefix + "cpus" + m.suffix) {
			return m, true
		}
	}
	mounts, _ := r.fs.Text("proc/mounts")
	for line := range strings.Lines(mounts) {
		f := strings.Fields(line) // device, directory, type, options
		if len(f) < 4 {
			continue
		}
		switch options := strings.Split(f[3], ","); {
		case f[2] == "cgroup2":
			controllers, _ := r.fs.Text(cgroup2.at(f[1]).dir + "/cgroup.controllers")
			if slices.Contains(strings.Fields(controllers), "cpuset") {
				return cgroup2.at(f[1]), true
			}
		case f[2] == "cpuset", f[2] == "cgroup" && slices.Contains(options, "cpuset") && slices.Contains(options, "noprefix"):
			return cpusets.at(f[1]), true
		case f[2] == "cgroup" && slices.Contains(options, "cpuset"):
			return cgroup1.at(f[1]), true
		}
	}
	return cpusetMount{}, false
}

// cpusetGroup is this process's group.
func (r *reader) cpusetGroup() string {
	group, err := r.fs.Text("proc/self/cpuset")
	if err != nil || group == "" {
		text, _ := r.fs.Text("proc/self/cgroup")
		for line := range strings.Lines(text) {
			f := strings.SplitN(strings.TrimSpace(line), ":", 3)
			if len(f) == 3 && (f[1] == "" || f[1] == "cpuset") {
				if group = f[2]; f[1] == "cpuset" {
					break
				}
			}
		}
	}
	return path.Clean("/" + group) // "/../x" is seen from a namespace whose root lies elsewhere
}
