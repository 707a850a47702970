package identity

import (
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	"github.com/mpiup/mpiup/internal/bounded"
	"github.com/mpiup/mpiup/internal/podfiles"
)

// Bounds on files of the pod that are read here.
const (
	maxMountInfo = 4 << 20
	maxMounts    = 4096
	maxTextFile  = 1 << 20
)

// secretVolume says whether a secret may lie on this kind of file system. Kubelet uses tmpfs
// (sandboxed runtimes show it as 9p or virtiofs); the kernel's own file systems hold none,
// and a look at a network file system or an automount may never return.
func (m mount) secretVolume() bool {
	if m.point == "/" {
		return false
	}
	kind, _, _ := strings.Cut(m.fstype, ".")
	switch kind {
	case "proc", "sysfs", "cgroup", "cgroup2", "devpts", "devtmpfs", "mqueue", "debugfs", "tracefs",
		"securityfs", "bpf", "pstore", "configfs", "hugetlbfs", "binfmt_misc", "nsfs", "fusectl", "rpc_pipefs",
		"autofs", "nfs", "nfs4", "cifs", "smb3", "ceph", "fuse", "fuseblk", "lustre", "gpfs", "beegfs", "glusterfs",
		"afs", "orangefs", "pvfs2", "wekafs", "panfs", "ocfs2", "gfs2":
		return false
	}
	return true
}

// mount is where a file system can be seen.
type mount struct {
	point  string // cleaned, absolute
	fstype string
}

// mountsOf reads proc/self/mountinfo under root. Without one there are no mounts. They are in the file's order, of those
// at one point only the last; at most maxMounts are read.
func mountsOf(root string) ([]mount, error) {
	data, err := bounded.Regular(filepath.Join(root, "proc/self/mountinfo"), maxMountInfo)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return parseMountInfo(data), err
}

func parseMountInfo(data []byte) (found []mount) {
	at := map[string]int{}
	for _, m := range podfiles.MountInfo(string(data), func(string) bool { return true }) {
		point := path.Join("/", m.Dir)
		i, seen := at[point]
		switch {
		case seen:
			found[i].fstype = m.Type
		case len(found) < maxMounts:
			at[point] = len(found)
			found = append(found, mount{point, m.Type})
		}
	}
	return found
}
