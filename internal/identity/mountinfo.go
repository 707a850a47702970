package identity

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
)

// Bounds on files of the pod that are read here.
const (
	maxMountInfo = 4 << 20
	maxMounts    = 4096
	maxTextFile  = 1 << 20
)

// mount is one line of /proc/self/mountinfo (proc_pid_mountinfo(5)), as far as it matters:
//
//	36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue
//	                 point                       fstype
type mount struct {
	point  string // cleaned, absolute
	fstype string
}

// parseMountInfo returns the mounts that can be seen, in the file's order: of those at one
// point only the last. Lines that are none are passed over; at most maxMounts are read.
func parseMountInfo(data []byte) []mount {
	var mounts []mount
	at := map[string]int{}
	for line := range bytes.Lines(data) {
		if len(mounts) == maxMounts {
			break
		}
		m, ok := parseMount(string(line))
		if !ok {
			continue
		}
		if i, seen := at[m.point]; seen {
			mounts[i] = m
			continue
		}
		at[m.point] = len(mounts)
		mounts = append(mounts, m)
	}
	return mounts
}

func parseMount(line string) (mount, bool) {
	f := strings.Fields(line)
	if len(f) < 9 || !strings.HasPrefix(f[4], "/") {
		return mount{}, false
	}
	for i := 6; i+1 < len(f); i++ { // optional fields end at "-"
		if f[i] == "-" {
			return mount{point: path.Clean(unescape(f[4])), fstype: f[i+1]}, true
		}
	}
	return mount{}, false
}

// unescape undoes the kernel's \040 and the like (show_mountinfo, mangle: space, tab,
// newline, backslash and, in newer kernels, #).
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) && octal(s[i+1]) && octal(s[i+2]) && octal(s[i+3]) && s[i+1] <= '3' {
			b.WriteByte((s[i+1]-'0')<<6 | (s[i+2]-'0')<<3 | (s[i+3] - '0'))
			i += 3
			continue
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func octal(c byte) bool { return c >= '0' && c <= '7' }

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

// mounts reads proc/self/mountinfo under root. Without one there are no mounts.
func mounts(root string) ([]mount, error) {
	data, err := readBounded(filepath.Join(root, "proc/self/mountinfo"), maxMountInfo)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return parseMountInfo(data), err
}

var (
	errNotRegular = errors.New("not a regular file")
	errTooLarge   = errors.New("too large")
)

// readBounded reads a regular file of at most limit bytes. A FIFO does not block it.
func readBounded(name string, limit int) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "read", Path: name, Err: errNotRegular}
	}
	data, err := io.ReadAll(io.LimitReader(f, int64(limit)+1))
	if err != nil {
		return nil, err
	}
	if len(data) > limit {
		return nil, &fs.PathError{Op: "read", Path: name, Err: errTooLarge}
	}
	return data, nil
}
