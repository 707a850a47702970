package podfiles

import (
	"path"
	"slices"
	"strconv"
	"strings"
)

// Mounts and MountInfo read the kernel's tables of mounts, as /proc/mounts and /proc/self/mountinfo have them: text in,
// values out. A line that is none is passed over.

// Mount is where a file system can be seen.
type Mount struct {
	Dir     string   // where, without the leading "/"
	Type    string   // "cgroup2"
	Options []string // of a v1 cgroup its controllers among them
	Root    string   // what of the file system is seen there; "/" where that is not told
	ID      int      // by which /proc/PID/fdinfo names it; 0: not told
	Source  string   // "filer:/export"
}

// Mounts reads the lines of /proc/mounts that are about file systems of a type that keep says yes to: "cgroup /sys/fs/cgroup/cpuset cgroup rw,cpuset 0 0".
func Mounts(text string, keep func(fstype string) bool) (mounts []Mount) {
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) >= 4 && keep(f[2]) {
			mounts = append(mounts, Mount{Dir: mountDir(f[1]), Type: f[2], Options: strings.Split(f[3], ","), Root: "/", Source: unescape(f[0])})
		}
	}
	return mounts
}

// MountInfo reads such lines of /proc/self/mountinfo (proc_pid_mountinfo(5)):
// "31 23 0:28 / /sys/fs/cgroup rw shared:9 - tmpfs tmpfs rw,mode=755".
func MountInfo(text string, keep func(fstype string) bool) (mounts []Mount) {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		dash := slices.Index(f, "-")
		if dash < 6 || len(f) < dash+4 || f[4][0] != '/' || !keep(f[dash+1]) {
			continue
		}
		id, _ := strconv.Atoi(f[0])
		mounts = append(mounts, Mount{
			Dir:     mountDir(f[4]),
			Type:    f[dash+1],
			Options: strings.Split(f[dash+3], ","),
			Root:    unescape(f[3]),
			ID:      id,
			Source:  unescape(f[dash+2]),
		})
	}
	return mounts
}

func mountDir(point string) string {
	if dir := path.Clean("/" + unescape(point)); dir != "/" {
		return dir[1:]
	}
	return "."
}

// unescape undoes the octal of mount tables: space, tab, newline and backslash are "\040" etc.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
