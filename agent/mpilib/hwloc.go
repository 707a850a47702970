package mpilib

import (
	"strconv"
	"strings"
)

// hwlocs are the kinds of hwloc that the libraries of a command need: libhwloc.so.5 is hwloc 1,
// libhwloc.so.15 is hwloc 2.
type hwlocs struct{ old, new bool }

const oldHwlocName = "libhwloc.so.5" // 1.3 to 1.11: Ubuntu 18.04, Debian 10, CentOS 7

func (h *hwlocs) note(library string) {
	switch {
	case library == oldHwlocName:
		h.old = true
	case strings.HasPrefix(library, "libhwloc.so."):
		h.new = true
	}
}

// isOld says that hwloc in a program of an MPI library is, or may be, of version 1. hwloc_topology_load of 1.11 fails
// when HWLOC_XMLFILE names a file of version 2 (hwloc's upgrade page, "XML changes"). Where no library needs hwloc,
// it may be a part of the MPI library, or a plugin may bring the system's. system are the libraries there.
func (h hwlocs) isOld(l library, system ldCache) bool {
	switch {
	case h.old:
		return true
	case h.new:
		return false
	case l.family == openMPI && l.version != "":
		major, _, _ := strings.Cut(l.version, ".")
		n, err := strconv.Atoi(major)
		return err == nil && n < 4 // 3.1 holds hwloc 1.11.7, 4.0 holds 2.0.1
	}
	return len(system.find(oldHwlocName)) > 0 && len(system.find("libhwloc.so.15")) == 0
}
