package watch

import (
	"bytes"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/mpiup/mpiup/agent/reap/proctree"
	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/layout"
	"github.com/mpiup/mpiup/topology/sysfs"
)

// Bounds of what is read of NUMA nodes. The kernel walks a process's pages as numa_maps is read, so that what is not read costs nothing.
const (
	maxNodes    = 1024
	maxNumaMaps = 128 << 10
	maxStatus   = 16 << 10
)

// FarOf is the share of a process's own memory that is on NUMA nodes where it may use no processor: N0=PAGES and so on of
// /proc/PID/numa_maps (proc_pid_numa_maps(5)), for nodes none of whose CPUs (/sys/devices/system/node/node0/cpulist) is in its
// Cpus_allowed_list. Files that it maps are in memory wherever somebody read them first, and do not count. It is 0 where there is one node only,
// and where nothing shows. root is what stands before /proc and /sys.
func FarOf(root string, pid int) (share float64) {
	nodes := nodesOf(root)
	if len(nodes) < 2 {
		return 0
	}
	proc := filepath.Join(root, "proc", strconv.Itoa(pid))
	status, err := proctree.ReadSome(filepath.Join(proc, "status"), maxStatus)
	if err != nil {
		return 0
	}
	list, _ := sysfs.Field(string(status), "Cpus_allowed_list:")
	allowed, err := idset.Within(list, layout.MaxThreads)
	if err != nil || allowed.Empty() {
		return 0
	}
	away := slices.ContainsFunc(slices.Collect(maps.Values(nodes)), func(cpus idset.Set) bool { return !cpus.Overlaps(allowed) })
	if !away { // it is not bound: nothing of its need be counted
		return 0
	}
	text, err := proctree.ReadSome(filepath.Join(proc, "numa_maps"), maxNumaMaps)
	if err != nil {
		return 0
	}
	near, all := uint64(0), uint64(0)
	for node, bytes := range onNodes(text) {
		all += bytes
		if nodes[node].Overlaps(allowed) {
			near += bytes
		}
	}
	if all == 0 {
		return 0
	}
	return float64(all-near) / float64(all)
}

// nodesOf are the CPUs of each NUMA node; one with memory alone has none.
func nodesOf(root string) map[int]idset.Set {
	dirs, _ := filepath.Glob(filepath.Join(root, "sys/devices/system/node/node[0-9]*")) // the pattern is well formed
	nodes := map[int]idset.Set{}
	for _, dir := range dirs[:min(len(dirs), maxNodes)] {
		id, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(dir), "node"))
		text, none := proctree.ReadSome(filepath.Join(dir, "cpulist"), maxStatus)
		cpus, bad := idset.Within(strings.TrimSpace(string(text)), layout.MaxThreads)
		if err == nil && none == nil && bad == nil {
			nodes[id] = cpus
		}
	}
	return nodes
}

// onNodes sums the bytes of each line that is of no file, by node. A line that was cut counts as far as it is there.
func onNodes(numaMaps []byte) map[int]uint64 {
	on := map[int]uint64{}
	for line := range bytes.Lines(numaMaps) {
		pages, size := map[int]uint64{}, uint64(0)
		for _, word := range bytes.Fields(line) {
			name, value, _ := bytes.Cut(word, []byte("="))
			n, err := strconv.ParseUint(string(value), 10, 40)
			node, named := bytes.CutPrefix(name, []byte("N"))
			id, bad := strconv.Atoi(string(node))
			switch {
			case string(name) == "file":
				pages = nil
			case err != nil || pages == nil:
			case string(name) == "kernelpagesize_kB":
				size = min(n, 1<<20) << 10 // the largest is 16 GiB; it is a gigabyte on amd64
			case named && bad == nil && id >= 0 && id < maxNodes:
				pages[id] = n
			}
		}
		for id, n := range pages {
			on[id] += min(n*size, 1<<50)
		}
	}
	return on
}
