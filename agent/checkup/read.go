package checkup

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/mpiup/mpiup/rdma"
	"github.com/mpiup/mpiup/topology/sysfs"
)

// Read fills in what the kernel tells of this process and its container: ranks inherit all of it.
func (h *Host) Read(fsys sysfs.FS) {
	h.ShmSize, h.ShmFree = Shm()
	h.Root = os.Geteuid() == 0
	h.Files = limit(unix.RLIMIT_NOFILE)
	h.Locked = LockedMemory()
	h.Ptrace = capable(unix.CAP_SYS_PTRACE)
	h.OwnMemory = readsItself()
	h.LinkErrors, h.Uncounted = readErrors(&h.HCAs)
	if len(h.GPUs.GPUs) > 0 {
		h.Xids, h.Log = Xids()
	}
	h.PtraceScope = -1
	if n, err := fsys.Int("proc/sys/kernel/yama/ptrace_scope"); err == nil {
		h.PtraceScope = n
	}
	h.HugePages = -1
	if n, err := fsys.Int("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"); err == nil {
		h.HugePages = n
	}
	// The container's own, of cgroup version 2 and 1.
	for _, file := range []string{"sys/fs/cgroup/hugetlb.2MB.max", "sys/fs/cgroup/hugetlb/hugetlb.2MB.limit_in_bytes"} {
		if text, err := fsys.Text(file); err == nil {
			h.HugePageLimit = text
			break
		}
	}
}

// LockedMemory is what ranks may lock: they inherit this process's limit and, run by the same user, its
// capabilities.
func LockedMemory() rdma.Locked {
	return rdma.Locked{Limit: limit(unix.RLIMIT_MEMLOCK), Any: capable(unix.CAP_IPC_LOCK)}
}

// limit is a resource's hard limit, to which libraries raise the soft one.
func limit(resource int) uint64 {
	var l unix.Rlimit
	if err := unix.Getrlimit(resource, &l); err != nil {
		return ^uint64(0)
	}
	return l.Max
}

func capable(c uint) bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return false
	}
	return data[c/32].Effective&(1<<(c%32)) != 0
}

// readsItself asks process_vm_readv for an address that nothing is at: EFAULT says that the call is let through,
// where a seccomp profile without it answers EPERM or ENOSYS.
func readsItself() bool {
	local := []unix.Iovec{{Base: new(byte), Len: 1}}
	_, err := unix.ProcessVMReadv(os.Getpid(), local, []unix.RemoteIovec{{Base: 0, Len: 1}}, 0)
	return err == unix.EFAULT
}
