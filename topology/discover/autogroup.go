package discover

import (
	"path"
	"slices"
)

// Autogrouped says that the kernel gives each process session a share of the CPUs (CONFIG_SCHED_AUTOGROUP, sched(7)).
// It does so if that is switched on and this process is in the root CPU cgroup, where alone it counts. sched_yield(2)
// then gives way to processes of the same session only. What cannot be read counts as a cgroup.
func (g *Cgroups) Autogrouped() bool {
	on, err := g.fs.Text("proc/sys/kernel/sched_autogroup_enabled")
	if err != nil || on != "1" || g.err != nil {
		return false
	}
	for _, h := range g.all {
		if !h.v2 {
			if slices.Contains(h.controllers, "cpu") {
				if !g.fs.Exists(path.Join(h.own, "release_agent")) { // in the root only (cgroups.rst, 1.4)
					return false
				}
			}
			continue
		}
		for _, dir := range h.upTo() {
			if g.fs.Exists(path.Join(dir, "cpu.weight")) { // not in the root (cgroup-v2.rst)
				return false
			}
		}
	}
	return true
}
