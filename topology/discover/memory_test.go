package discover

import (
	"testing"
	"testing/fstest"

	"github.com/mpiup/mpiup/topology/sysfs"
)

// What a container uses of its memory is without the pages of files that the kernel can drop, in both versions of cgroups.
func TestMemoryUsed(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	v2 := fstest.MapFS{"proc/self/cgroup": file("0::/\n"), "proc/self/mountinfo": file("30 29 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"),
		"sys/fs/cgroup/memory.current": file("5000\n"), "sys/fs/cgroup/memory.stat": file("anon 3000\ninactive_file 1200\n"), "sys/fs/cgroup/memory.max": file("8000\n"),
		"sys/fs/cgroup/memory.peak": file("7900\n")}
	v1 := fstest.MapFS{"proc/self/cgroup": file("4:memory:/a\n"), "proc/self/mountinfo": file("31 29 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"),
		"sys/fs/cgroup/memory/a/memory.max_usage_in_bytes": file("7800\n"), "sys/fs/cgroup/memory/a/memory.usage_in_bytes": file("5000\n"), "sys/fs/cgroup/memory/a/memory.stat": file("inactive_file 1\ntotal_inactive_file 1000\n")}
	odd := fstest.MapFS{"proc/self/cgroup": file("0::/\n"), "proc/self/mountinfo": file("30 29 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"),
		"sys/fs/cgroup/memory.current": file("5000\n"), "sys/fs/cgroup/memory.stat": file("inactive_file 99999\n")}
	for _, tt := range []struct {
		name string
		fsys fstest.MapFS
		want uint64
		peak uint64
	}{{"v2", v2, 3800, 7900}, {"v1", v1, 4000, 7800}, {"more cache than memory", odd, 0, 0}, {"none to be seen", fstest.MapFS{}, 0, 0}} {
		groups := FindCgroups(sysfs.New(tt.fsys))
		if got, peak := groups.MemoryUsed(), groups.MemoryPeak(); got != tt.want || peak != tt.peak {
			t.Errorf("%s: %d, at most %d; want %d, at most %d", tt.name, got, peak, tt.want, tt.peak)
		}
	}
}
