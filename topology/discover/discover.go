// Package discover reads a Linux machine from /sys and /proc into topology.Parts and has the
// machine assembled.
//
//	cpu.go      /sys/devices/system/cpu           packages, dies, clusters, cores, caches
//	node.go     /sys/devices/system/node          memory, distances
//	pci.go      /sys/bus/pci/devices              functions and bridges
//	device.go   /sys/class/{net,infiniband}       what the kernel calls them
//	allowed.go  cpuset (cgroup v1, v2), /proc/self/status
//	identity.go /proc/cpuinfo, /sys/class/dmi/id
//	inventory.go, limits.go, cgroup.go      what of it this container may use: CPUs, quota, memory
//
// It reads as little as the answer needs: a core's, package's or cache's files are read at its
// first CPU only, for the kernel tells every sharer the same; PCI's configuration space, whose
// reading can wake a sleeping device, only where the kernel gives a bridge's buses nowhere else
// (before 4.13). One machine is some hundred to two thousand files.
//
// Everything may be missing (a container without /sys/devices/system/node), offline or nonsense:
// what cannot be understood is left out, and only a machine without any CPU is an error. What is
// read is bounded (topology/sysfs), and so are the numbers of things.
//
// The package keeps no state and starts nothing. It finds no GPUs, and no devices that have no
// part in messages (disks, consoles): packages gpu and rdma know more of theirs.
package discover

import (
	"errors"
	"fmt"
	"os"

	"github.com/mpiup/mpiup/topology"
	"github.com/mpiup/mpiup/topology/sysfs"
)

// Machine reads the machine of fsys. Its normal pages have so many bytes; 0: as many as this machine's.
func Machine(fsys sysfs.FS, pageSize int) (*topology.Machine, error) {
	if pageSize == 0 {
		pageSize = os.Getpagesize()
	}
	id := readIdentity(fsys)
	r := reader{fs: fsys, pageSize: pageSize, threadsAreCores: id.moduleOfCores()}
	r.parts.Affinity = affinity(fsys)
	r.parts.AllowedCPUs, r.parts.AllowedNodes = FindCgroups(fsys).cpuset()
	if err := r.readCPUs(); err != nil {
		return nil, err
	}
	for i := range r.parts.Packages {
		r.parts.Packages[i].Infos = id.cpu
	}
	r.readNodes(id.power)
	r.readPCI()
	r.readDevices()
	r.parts.Hardware = id.board
	m, err := topology.New(r.parts)
	if err != nil {
		return nil, fmt.Errorf("/sys/devices/system: %w", err)
	}
	return m, nil
}

// reader collects the parts.
type reader struct {
	fs              sysfs.FS
	pageSize        int
	parts           topology.Parts
	threadsAreCores bool // core_cpus is two cores that share a module (AMD family 15h)
}

var errNoCPU = errors.New("no CPU is to be seen in /sys/devices/system/cpu, /proc/cpuinfo or /proc/self/status")
