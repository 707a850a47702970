package discover

import (
	"errors"
	"fmt"
	"io/fs"
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
	controllers []string // of a v1 mount
	mount       string   // where, without the leading "/"
	own         string   // directory of the own group, at or below mount
}

// Cgroups are the groups that this process is in. Each method reads anew what they allow and count. FindCgroups looks
// up where they are, once: that means reading every mount, and nothing moves a container's processes.
type Cgroups struct {
	fsys fs.FS
	all  []hierarchy
	err  error // why none is known
}

// FindCgroups looks up where the groups are under fsys. Where that cannot be read, methods with an error say so.
func FindCgroups(fsys fs.FS) *Cgroups {
	g := &Cgroups{fsys: fsys}
	g.all, g.err = hierarchies(fsys)
	return g
}

// hierarchies joins /proc/self/cgroup (where the process is) with /proc/self/mountinfo (what
// of it can be seen). Three cases, cgroups(7) and proc_pid_mountinfo(5):
//
//	cgroup namespace    path "/", mount shows "/"       the group is the mount point
//	no namespace, v1    path "/kubepods/x", mount
//	                    shows "/kubepods/x"             the group is the mount point
//	host's whole tree   path "/a/b", mount shows "/"    the group is mount/a/b
//
// A path that leads out of what is mounted falls back to the mount point. hwloc's trees of machines have only /proc/mounts
// and /proc/self/cpuset, which are read instead.
func hierarchies(fsys fs.FS) ([]hierarchy, error) {
	membership, err := readFile(fsys, "proc/self/cgroup")
	if err != nil {
		group, err2 := readFile(fsys, "proc/self/cpuset")
		if err2 != nil {
			return nil, err
		}
		membership = "0::" + strings.TrimSpace(group) + "\n"
	}
	all, err := cgroupMounts(fsys)
	if err != nil {
		return nil, err
	}
	v2path, v1path := parseMembership(membership)
	var found []hierarchy
	for _, m := range all {
		h := hierarchy{mount: m.Dir, v2: m.Type == "cgroup2"}
		own := v2path
		if !h.v2 {
			h.controllers = m.Options
			own = ""
			for _, c := range h.controllers {
				if p, ok := v1path[c]; ok {
					own = p
				}
			}
		}
		h.own = h.mount
		if rest, inside := below(own, m.Root); inside {
			candidate := path.Join(h.mount, rest)
			if info, err := fs.Stat(fsys, candidate); err == nil && info.IsDir() {
				h.own = candidate
			}
		}
		found = append(found, h)
	}
	return found, nil
}

// cgroupMounts is where cgroups can be seen.
func cgroupMounts(fsys fs.FS) ([]podfiles.Mount, error) {
	cgroup := func(fstype string) bool { return fstype == "cgroup" || fstype == "cgroup2" }
	text, err := readFile(fsys, "proc/self/mountinfo")
	if err == nil {
		return podfiles.MountInfo(text, cgroup), nil
	}
	if text, err2 := readFile(fsys, "proc/mounts"); err2 == nil {
		return podfiles.Mounts(text, cgroup), nil
	}
	return nil, err
}

// parseMembership reads lines "4:memory,cpu:/path" (v1) and "0::/path" (v2).
func parseMembership(text string) (v2 string, v1 map[string]string) {
	v1 = map[string]string{}
	for line := range strings.Lines(text) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) != 3 {
			continue
		}
		if parts[1] == "" {
			v2 = parts[2]
			continue
		}
		for c := range strings.SplitSeq(parts[1], ",") {
			v1[c] = parts[2]
		}
	}
	return v2, v1
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
		if !h.v2 && !slices.Contains(h.controllers, "cpu") {
			continue
		}
		for _, dir := range h.upTo() {
			q, err := quotaOf(g.fsys, dir, h.v2)
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
func quotaOf(fsys fs.FS, dir string, v2 bool) (float64, error) {
	var most, period string
	if v2 {
		text, err := readFile(fsys, path.Join(dir, "cpu.max")) // "max 100000" or "150000 100000"
		if err != nil {
			return 0, missing(err)
		}
		most, period, _ = strings.Cut(strings.TrimSpace(text), " ")
	} else {
		var err error
		if most, err = readFile(fsys, path.Join(dir, "cpu.cfs_quota_us")); err != nil {
			return 0, missing(err)
		}
		if period, err = readFile(fsys, path.Join(dir, "cpu.cfs_period_us")); err != nil {
			return 0, missing(err)
		}
		most, period = strings.TrimSpace(most), strings.TrimSpace(period)
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

// MemoryLimit is how many bytes the processes of this container may have together, the least of those of its groups that can be
// seen; 0: no limit is seen, or none can be.
func (g *Cgroups) MemoryLimit() (least uint64) {
	const none = 1 << 60 // version 1 writes "no limit" as a number just below 2^63 (mm/memcontrol.c)
	for _, h := range g.all {
		file := "memory.max"
		if !h.v2 {
			if !slices.Contains(h.controllers, "memory") {
				continue
			}
			file = "memory.limit_in_bytes"
		}
		for _, dir := range h.upTo() {
			text, err := readFile(g.fsys, path.Join(dir, file))
			if n, bad := strconv.ParseUint(strings.TrimSpace(text), 10, 64); err == nil && bad == nil && n < none && (least == 0 || n < least) {
				least = n
			}
		}
	}
	return least
}

// MemoryUsed is how many bytes the processes of this container use together, but for pages of files that the kernel can drop; 0: it does not show.
func (g *Cgroups) MemoryUsed() uint64 {
	for _, h := range g.all {
		file, cache := "memory.current", "inactive_file " // Documentation/admin-guide/cgroup-v2.rst
		if !h.v2 {
			if !slices.Contains(h.controllers, "memory") {
				continue
			}
			file, cache = "memory.usage_in_bytes", "total_inactive_file " // cgroup-v1/memory.rst
		}
		text, err := readFile(g.fsys, path.Join(h.own, file))
		used, bad := strconv.ParseUint(strings.TrimSpace(text), 10, 64)
		if err != nil || bad != nil {
			continue
		}
		if stat, err := readFile(g.fsys, path.Join(h.own, "memory.stat")); err == nil {
			if count, ok := sysfs.Field(stat, cache); ok {
				n, _ := strconv.ParseUint(count, 10, 64)
				used -= min(n, used)
			}
		}
		return used
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
	for _, h := range g.all {
		file := "memory.events" // since Linux 4.13 with oom_kill, in both versions
		if !h.v2 {
			if !slices.Contains(h.controllers, "memory") {
				continue
			}
			file = "memory.oom_control"
		}
		text, err := readFile(g.fsys, path.Join(h.own, file))
		if errors.Is(err, fs.ErrNotExist) {
			continue // v2 without the memory controller, beside v1
		}
		if err != nil {
			return 0, err
		}
		if count, ok := sysfs.Field(text, "oom_kill "); ok {
			n, err := strconv.ParseUint(count, 10, 64)
			if err != nil {
				return 0, fmt.Errorf("/%s/%s: oom_kill %.40q is not a number", h.own, file, count)
			}
			return n, nil
		}
	}
	return 0, fmt.Errorf("no memory cgroup with an oom_kill count: %w", fs.ErrNotExist)
}
