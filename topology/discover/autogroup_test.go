package discover

import (
	"testing"
	"testing/fstest"

	"github.com/mpiup/mpiup/topology/sysfs"
)

func TestAutogrouped(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	const v2 = "30 29 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
	for _, tt := range []struct {
		name  string
		files fstest.MapFS
		want  bool
	}{
		{"root of v2", fstest.MapFS{"proc/self/cgroup": file("0::/\n"), "proc/self/mountinfo": file(v2), "sys/fs/cgroup/cgroup.procs": file("")}, true},
		{"a session of systemd's without CPU control", fstest.MapFS{"proc/self/cgroup": file("0::/user.slice/s.scope\n"), "proc/self/mountinfo": file(v2),
			"sys/fs/cgroup/user.slice/s.scope/cgroup.procs": file("")}, true},
		{"a slice with CPU control", fstest.MapFS{"proc/self/cgroup": file("0::/user.slice/s.scope\n"), "proc/self/mountinfo": file(v2),
			"sys/fs/cgroup/user.slice/cpu.weight": file("100\n"), "sys/fs/cgroup/user.slice/s.scope/cgroup.procs": file("")}, false},
		{"a container", fstest.MapFS{"proc/self/cgroup": file("0::/\n"), "proc/self/mountinfo": file(v2), "sys/fs/cgroup/cpu.weight": file("79\n")}, false},
		{"root of v1", fstest.MapFS{"proc/self/cgroup": file("4:cpu,cpuacct:/\n"), "sys/fs/cgroup/cpu/release_agent": file("\n"),
			"proc/self/mountinfo": file("31 29 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n")}, true},
		{"below the root of v1", fstest.MapFS{"proc/self/cgroup": file("4:cpu:/a\n"), "sys/fs/cgroup/cpu/release_agent": file("\n"), "sys/fs/cgroup/cpu/a/tasks": file(""),
			"proc/self/mountinfo": file("31 29 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n")}, false},
		{"a container of v1", fstest.MapFS{"proc/self/cgroup": file("4:cpu,cpuacct:/\n"),
			"proc/self/mountinfo": file("31 29 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n")}, false},
		{"v1 without", fstest.MapFS{"proc/self/cgroup": file("8:pids:/\n"),
			"proc/self/mountinfo": file("31 29 0:27 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n")}, true},
		{"nothing to be seen", fstest.MapFS{}, false},
	} {
		for _, on := range []string{"1\n", "0\n", ""} {
			delete(tt.files, "proc/sys/kernel/sched_autogroup_enabled")
			if on != "" {
				tt.files["proc/sys/kernel/sched_autogroup_enabled"] = file(on)
			}
			if got := FindCgroups(sysfs.New(tt.files)).Autogrouped(); got != (tt.want && on == "1\n") {
				t.Errorf("%s, switch %q: %v", tt.name, on, got)
			}
		}
	}
}
