package look

import (
	"bytes"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mpiup/mpiup/agent/reap/proctree"
	"github.com/mpiup/mpiup/internal/podfiles"
	"github.com/mpiup/mpiup/topology/sysfs"
)

// onFile are the system calls whose first argument is the descriptor of what they wait for.
var onFile = map[int]bool{
	unix.SYS_READ: true, unix.SYS_WRITE: true, unix.SYS_READV: true, unix.SYS_WRITEV: true, unix.SYS_PREAD64: true, unix.SYS_PWRITE64: true,
	unix.SYS_PREADV: true, unix.SYS_PWRITEV: true, unix.SYS_FSYNC: true, unix.SYS_FDATASYNC: true, unix.SYS_GETDENTS64: true, unix.SYS_IOCTL: true,
	unix.SYS_FLOCK: true, unix.SYS_FCNTL: true, unix.SYS_FTRUNCATE: true, unix.SYS_FALLOCATE: true, unix.SYS_FSTAT: true, unix.SYS_CLOSE: true,
	unix.SYS_SYNCFS: true,
}

// fileWaits begin the kernel's functions in which a process waits for a server of files, though its state may be S.
var fileWaits = []string{
	"request_wait_answer", "fuse_", // fs/fuse/dev.c
	"rpc_", "nfs", "__rpc_", // net/sunrpc, fs/nfs
	"ceph_", "cifs_", "smb2_", "wait_for_response", "p9_", "v9fs_", "cl_", "ll_", "ptlrpc_", "gpfs", "beegfs",
}

// remote are the types of file systems that others serve; fuse also stands before what it carries (fuse.sshfs).
var remote = []string{"nfs", "nfs4", "cifs", "smb3", "ceph", "lustre", "gpfs", "beegfs", "9p", "virtiofs", "afs", "wekafs", "fuse",
	"fuseblk", "glusterfs", "pvfs2"}

// Bounds of what is read of a process's mounts.
const (
	maxMounts = 1 << 20 // bytes
	maxMount  = 200     // bytes of a mount's description
)

// heldOn describes the mount whose answer a process waits for: "/data (nfs4, filer:/export)"; "" where it waits for none, or it
// does not show. Nothing here asks the file system itself.
func heldOn(proc proctree.Proc, pid int, state byte, k Kernel) string {
	if state != 'D' && !slices.ContainsFunc(fileWaits, func(name string) bool { return strings.HasPrefix(k.Wchan, name) }) {
		return ""
	}
	text, err := proctree.ReadSome(file(proc, pid, "mountinfo"), maxMounts)
	if err != nil {
		return ""
	}
	mounts := parseMounts(text)
	call, err := proctree.ReadSome(file(proc, pid, "syscall"), maxStat)
	if err == nil {
		if fd, ok := heldFD(call); ok {
			info, _ := proctree.ReadSome(file(proc, pid, "fdinfo/"+strconv.Itoa(fd)), maxStat)
			return mounts[mountID(info)].String() // of a descriptor that is no file's: none
		}
	}
	return onlyRemote(proc, pid, mounts)
}

// onlyRemote is the one remote mount that a process works in or has, where a call tells a path and no descriptor.
func onlyRemote(proc proctree.Proc, pid int, mounts map[int]mount) string {
	cwd, _ := os.Readlink(file(proc, pid, "cwd"))
	var best, only mount
	n := 0
	for _, m := range mounts {
		if !m.remote() || m == only { // one mount over another of the same
			continue
		}
		if only, n = m, n+1; under(cwd, m.point) && len(m.point) > len(best.point) {
			best = m
		}
	}
	if best == (mount{}) && n == 1 {
		best = only
	}
	return best.String()
}

func under(name, dir string) bool {
	return name == dir || strings.HasPrefix(name, strings.TrimSuffix(dir, "/")+"/")
}

// heldFD is the descriptor that /proc/PID/syscall tells of.
func heldFD(text []byte) (fd int, ok bool) {
	f := bytes.Fields(text)
	if len(f) < 2 {
		return 0, false
	}
	n, err := strconv.Atoi(string(f[0]))
	if err != nil || !onFile[n] {
		return 0, false
	}
	arg, err := strconv.ParseUint(strings.TrimPrefix(string(f[1]), "0x"), 16, 64)
	return int(int32(arg)), err == nil && int32(arg) >= 0
}

// mountID is mnt_id of a text of /proc/PID/fdinfo; 0: there is none.
func mountID(text []byte) int {
	field, _ := sysfs.Field(string(text), "mnt_id:")
	id, _ := strconv.Atoi(field)
	return id
}

// mount is one of a process's.
type mount struct{ point, kind, source string }

func (m mount) remote() bool {
	kind, _, _ := strings.Cut(m.kind, ".")
	return slices.Contains(remote, kind)
}

// String is "" for no mount.
func (m mount) String() string {
	if m == (mount{}) {
		return ""
	}
	text := m.point + " (" + m.kind
	if m.source != "" && m.source != "none" && m.source != m.kind {
		text += ", " + m.source
	}
	text += ")"
	return strings.ToValidUTF8(text[:min(len(text), maxMount)], "?")
}

// parseMounts reads /proc/PID/mountinfo: mounts by their numbers.
func parseMounts(text []byte) map[int]mount {
	out := map[int]mount{}
	for _, m := range podfiles.MountInfo(string(text), func(string) bool { return true }) {
		if m.ID > 0 {
			out[m.ID] = mount{path.Join("/", m.Dir), m.Type, m.Source}
		}
	}
	return out
}
