package discover

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"runtime"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/topology/sysfs"
)

// Inventory is what this container may use of its machine: hardware threads, memories, and
// whether the kernel's out-of-memory killer struck in it. It is the count behind a host's
// slots; where each thing lies in the machine is another package's business.
//
//	threads   /proc/self/status Cpus_allowed_list     affinity mask within the cpuset
//	          ∩ /sys/devices/system/cpu/online        some kernels list CPUs that are off
//	quota     cpu.max (cgroup v2)                     smallest of the own group and those
//	          cpu.cfs_quota_us / _period_us (v1)      above it, as far as they can be seen
//	CPUs      min(threads, quota rounded up), at least 1
//	OOM       memory.events (v2), memory.oom_control (v1): oom_kill of the own group
//
// Every call reads anew, for a CPU manager changes cpusets of running
// containers.
type Inventory struct {
	CPUs    int       // usable hardware threads, quota considered; at least 1
	Threads idset.Set // their numbers, quota not considered; empty: unknown
	Quota   float64   // CFS quota in CPUs; 0: none
	GPUs    int       // GPUs and MIG devices that a rank can have; package gpu counts them
	Vendor  string    // of the GPUs; "" without any
	Arch    string    // GOARCH
	Kernel  string    // release, as uname -r
}

// Digest is 12 hex digits that change when anything in the inventory does. It tells that two
// reports differ; it is no proof of anything.
func (inv Inventory) Digest() string {
	text := fmt.Sprintf("1|%d|%s|%.6f|%d|%s|%s|%s",
		inv.CPUs, inv.Threads, inv.Quota, inv.GPUs, inv.Vendor, inv.Arch, inv.Kernel)
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:6])
}

// ReadInventory takes the inventory, GPUs aside, of a machine. The inventory is
// good even when the error is not nil. What could not be read has the value that limits nothing, and the error names
// it for the log.
func ReadInventory(fsys sysfs.FS) (Inventory, error) {
	inv := Inventory{Arch: runtime.GOARCH}
	var threadsErr, quotaErr error
	inv.Threads, threadsErr = threads(fsys)
	inv.Quota, quotaErr = FindCgroups(fsys).quota()
	inv.CPUs = inv.Threads.Len()
	if inv.CPUs == 0 {
		inv.CPUs = runtime.NumCPU()
	}
	if inv.Quota > 0 {
		inv.CPUs = max(1, min(inv.CPUs, int(math.Ceil(inv.Quota-1e-6))))
	}
	inv.Kernel, _ = fsys.Text("proc/sys/kernel/osrelease")
	return inv, errors.Join(threadsErr, quotaErr)
}

// threads is the affinity mask the process was born with. The kernel has cut it to the cpuset
// already. Cpus_allowed_list is the main thread's, which mpiup never pins.
func threads(f sysfs.FS) (idset.Set, error) {
	allowed, err := statusList(f, "Cpus_allowed_list")
	if err != nil {
		return idset.Set{}, err
	}
	online, err := f.List("sys/devices/system/cpu/online")
	if both := allowed.Intersect(online); !both.Empty() {
		return both, nil
	}
	return allowed, missing(err) // not mounted; the mask is good enough
}

// status is what /proc/self/status says of a name.
func status(f sysfs.FS, name string) (string, error) {
	text, err := f.Long("proc/self/status") // its line Groups may have 65,536
	if err != nil {
		return "", err
	}
	value, ok := sysfs.Field(text, name+":")
	if !ok {
		return "", fmt.Errorf("/proc/self/status has no %s: %w", name, fs.ErrNotExist)
	}
	return value, nil
}

// statusList is a list that stands there.
func statusList(f sysfs.FS, name string) (idset.Set, error) {
	text, err := status(f, name)
	if err != nil {
		return idset.Set{}, err
	}
	list, err := idset.Parse(text)
	if err != nil {
		return idset.Set{}, fmt.Errorf("/proc/self/status: %w", err)
	}
	return list, nil
}
