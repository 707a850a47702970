package discover

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/mpiup/mpiup/internal/podfiles"
	"github.com/mpiup/mpiup/topology/sysfs"
)

// hierarchy is one cgroup tree this process is in, as far as its mount shows it.
type hierarchy struct {
	v2          bool
	controllers []string // of a v1 mount, and "noprefix" where files' names lack them
	mount       string   // where, without the leading "/"
	own         string   // directory of the own group, at or below mount
}

// Cgroups are the groups that this process is in. Each method reads anew what they allow and count. FindCgroups looks
// up where they are, once: that means reading every mount, and nothing moves a container's processes.
type Cgroups struct {
	fs     sysfs.FS
	groups map[string]string // this process's, by controller; "" of v2
	all    []hierarchy
	err    error // why none is known
}

// FindCgroups looks up where the groups are under fsys. Where that cannot be read, methods with an error say so.
//
// It joins /proc/self/cgroup (where the process is) with /proc/self/mountinfo (what of it can be seen). Three cases,
// cgroups(7) and proc_pid_mountinfo(5):
//
//	cgroup namespace    path "/", mount shows "/"       the group is the mount point
//	no namespace, v1    path "/kubepods/x", mount
//	                    shows "/kubepods/x"             the group is the mount point
//	host's whole tree   path "/a/b", mount shows "/"    the group is mount/a/b
//
// A path that leads out of what is mounted falls back to the mount point. hwloc's trees of machines have only /proc/mounts
// and /proc/self/cpuset, which are read instead.
func FindCgroups(fsys sysfs.FS) *Cgroups {
	g := &Cgroups{fs: fsys, groups: map[string]string{}}
	membership, err := fsys.Text("proc/self/cgroup")
	for controllers, group := range memberships(membership) {
		for c := range strings.SplitSeq(controllers, ",") {
			g.groups[c] = group
		}
	}
	if len(g.groups) == 0 {
		group, err2 := fsys.Text("proc/self/cpuset")
		if err2 == nil {
			err = nil
		}
		g.groups[""], g.groups["cpuset"] = group, group
	}
	mounts, err2 := cgroupMounts(fsys)
	g.err = cmp.Or(err, err2)
	for _, m := range mounts[:min(len(mounts), maxMounts)] {
		g.all = append(g.all, g.at(m))
	}
	return g
}

// at is the hierarchy that a mount shows. A captured machine has no group of which it has no file: the one above is taken.
func (g *Cgroups) at(m podfiles.Mount) hierarchy {
	h := hierarchy{mount: m.Dir, own: m.Dir, v2: m.Type == "cgroup2"}
	own := g.groups[""]
	if !h.v2 {
		h.controllers, own = m.Options, ""
		if m.Type == "cpuset" {
			h.controllers = []string{"cpuset", "noprefix"}
		}
		for _, c := range h.controllers {
			own = cmp.Or(g.groups[c], own)
		}
	}
	if rest, inside := below(own, m.Root); inside && strings.Count(rest, "/") < maxLevels {
		h.own = path.Join(h.mount, rest)
		dirs := h.upTo()
		h.own = dirs[max(0, slices.IndexFunc(dirs, g.fs.Exists))]
	}
	return h
}

// maxMounts bounds the places that are looked at.
const maxMounts = 64

// cgroupMounts is where cgroups and cpusets can be seen.
func cgroupMounts(fsys sysfs.FS) ([]podfiles.Mount, error) {
	text, err := fsys.Long("proc/self/mountinfo")
	if err == nil {
		return podfiles.MountInfo(text, groupFS), nil
	}
	if text, err2 := fsys.Long("proc/mounts"); err2 == nil {
		return podfiles.Mounts(text, groupFS), nil
	}
	return nil, err
}

func groupFS(fstype string) bool {
	return fstype == "cgroup" || fstype == "cgroup2" || fstype == "cpuset"
}

// memberships are the lines "4:memory,cpu:/path" (v1) and "0::/path" (v2) of /proc/self/cgroup: controllers and the group.
func memberships(text string) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for line := range strings.Lines(text) {
			f := strings.SplitN(strings.TrimSpace(line), ":", 3)
			if len(f) == 3 && !yield(f[1], f[2]) {
				return
			}
		}
	}
}

// below is the part of p under root, and whether p is root or under it.
func below(p, root string) (string, bool) {
	if p == "" || strings.Contains(p, "..") || strings.Contains(root, "..") {
		return "", false // seen from a namespace whose root lies elsewhere
	}
	if root = strings.TrimSuffix(root, "/"); p == root {
		return "", true
	}
	return strings.CutPrefix(p, root+"/")
}

// has says that a controller may have files here. Of v2 the files tell.
func (h hierarchy) has(controller string) bool {
	return h.v2 || slices.Contains(h.controllers, controller)
}

// upTo yields dir and the directories above it, mount the last.
func (h hierarchy) upTo() []string {
	dirs := []string{h.own}
	for d := h.own; d != h.mount && len(d) > len(h.mount); {
		d = path.Dir(d)
		dirs = append(dirs, d)
	}
	return dirs
}

// quota is the smallest CFS quota that binds this process, in CPUs; 0 if none does.
func (g *Cgroups) quota() (float64, error) {
	if g.err != nil {
		return 0, g.err
	}
	least := 0.0
	var errs []error
	for _, h := range g.all {
		if !h.has("cpu") {
			continue
		}
		for _, dir := range h.upTo() {
			q, err := quotaOf(g.fs, dir, h.v2)
			if err != nil {
				errs = append(errs, err)
			} else if q > 0 && (least == 0 || q < least) {
				least = q
			}
		}
	}
	return least, errors.Join(errs...)
}

// quotaOf reads one group's quota; a group without the file (a root, or the controller is not
// switched on) has none.
func quotaOf(fsys sysfs.FS, dir string, v2 bool) (float64, error) {
	var most, period string
	var err error
	if v2 {
		most, err = fsys.Text(path.Join(dir, "cpu.max")) // "max 100000" or "150000 100000"
		most, period, _ = strings.Cut(most, " ")
	} else if most, err = fsys.Text(path.Join(dir, "cpu.cfs_quota_us")); err == nil {
		period, err = fsys.Text(path.Join(dir, "cpu.cfs_period_us"))
	}
	if err != nil {
		return 0, missing(err)
	}
	if most == "max" || most == "-1" {
		return 0, nil
	}
	m, err1 := strconv.ParseUint(most, 10, 63)
	p, err2 := strconv.ParseUint(period, 10, 63)
	if err1 != nil || err2 != nil || m == 0 || p == 0 {
		return 0, fmt.Errorf("/%s: CPU quota %.40q of period %.40q is not understood", dir, most, period)
	}
	return float64(m) / float64(p), nil
}

// missing is nil for a file that is not there.
func missing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// memory yields the hierarchies that may count memory, each with its version's name of a file.
func (g *Cgroups) memory(v2, v1 string) iter.Seq2[hierarchy, string] {
	return func(yield func(hierarchy, string) bool) {
		for _, h := range g.all {
			file := v2
			if !h.v2 {
				file = v1
			}
			if h.has("memory") && !yield(h, file) {
				return
			}
		}
	}
}

// MemoryLimit is how many bytes the processes of this container may have together, the least of those of its groups that can be
// seen; 0: no limit is seen, or none can be.
func (g *Cgroups) MemoryLimit() (least uint64) {
	const none = 1 << 60 // version 1 writes "no limit" as a number just below 2^63 (mm/memcontrol.c)
	for h, file := range g.memory("memory.max", "memory.limit_in_bytes") {
		for _, dir := range h.upTo() {
			text, _ := g.fs.Text(path.Join(dir, file))
			if n, err := strconv.ParseUint(text, 10, 64); err == nil && n < none && (least == 0 || n < least) {
				least = n
			}
		}
	}
	return least
}

// MemoryUsed is how many bytes the processes of this container use together, but for pages of files that the kernel can drop; 0: it does not show.
func (g *Cgroups) MemoryUsed() uint64 {
	for h, file := range g.memory("memory.current", "memory.usage_in_bytes") {
		text, _ := g.fs.Text(path.Join(h.own, file))
		used, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			continue
		}
		cache := "inactive_file " // Documentation/admin-guide/cgroup-v2.rst
		if !h.v2 {
			cache = "total_inactive_file " // cgroup-v1/memory.rst
		}
		if stat, err := g.fs.Long(path.Join(h.own, "memory.stat")); err == nil {
			if count, ok := sysfs.Field(stat, cache); ok {
				n, _ := strconv.ParseUint(count, 10, 64)
				used -= min(n, used)
			}
		}
		return used
	}
	return 0
}

// MemoryPeak is how many bytes the processes of this container have used together at most, with pages of files; 0: it does not show.
func (g *Cgroups) MemoryPeak() uint64 {
	for h, file := range g.memory("memory.peak", "memory.max_usage_in_bytes") { // since Linux 5.19 in version 2
		text, _ := g.fs.Text(path.Join(h.own, file))
		if n, err := strconv.ParseUint(text, 10, 64); err == nil {
			return n
		}
	}
	return 0
}

// OOMKills is how many processes of this container the kernel has killed for memory so far. A rank that died by
// SIGKILL while this number grew was killed for memory. Where no memory group can be seen the error is
// fs.ErrNotExist.
func (g *Cgroups) OOMKills() (uint64, error) {
	if g.err != nil {
		return 0, g.err
	}
	for h, file := range g.memory("memory.events", "memory.oom_control") { // since Linux 4.13 with oom_kill, in both versions
		n, ok, err := g.oomKills(path.Join(h.own, file))
		if err != nil {
			return 0, err
		}
		if h.v2 { // what is below counts in the first, unless the kernel was told otherwise (cgroup-v2.rst, memory_localevents)
			local, also, _ := g.oomKills(path.Join(h.own, file+".local"))
			n = max(n, local)
			ok = ok || also
		}
		if ok {
			return n, nil
		}
	}
	return 0, fmt.Errorf("no memory cgroup with an oom_kill count: %w", fs.ErrNotExist)
}

// oomKills is the count of one file; ok: it has one. Version 2 without the memory controller, beside version 1, has no file.
func (g *Cgroups) oomKills(file string) (n uint64, ok bool, err error) {
	text, err := g.fs.Text(file)
	if err != nil {
		return 0, false, missing(err)
	}
	count, ok := sysfs.Field(text, "oom_kill ")
	if !ok {
		return 0, false, nil
	}
	if n, err = strconv.ParseUint(count, 10, 64); err != nil {
		return 0, false, fmt.Errorf("/%s: oom_kill %.40q is not a number", file, count)
	}
	return n, true, nil
}
