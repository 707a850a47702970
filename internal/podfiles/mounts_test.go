package podfiles

import (
	"reflect"
	"strings"
	"testing"
)

func TestMounts(t *testing.T) {
	cgroups := func(fstype string) bool { return strings.HasPrefix(fstype, "cgroup") }
	want := []Mount{
		{Dir: "sys/fs/cgroup/cpu set", Type: "cgroup", Options: []string{"rw", "cpuset"}, Root: "/", Source: "c"},
		{Dir: ".", Type: "cgroup2", Options: []string{"rw"}, Root: "/", Source: "x"},
	}
	got := Mounts("tmpfs /sys tmpfs rw 0 0\nc /sys/fs/cgroup/cpu\\040set cgroup rw,cpuset 0 0\nx / cgroup2 rw 0 0\nshort / cgroup\n", cgroups)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	want[0].Root, want[1].Root, want[1].Source = "/a b", "/../..", "c"
	want[0].ID, want[1].ID = 1, 1
	got = MountInfo("1 2 0:3 /a\\040b /sys/fs/cgroup/cpu\\040set rw shared:9 - cgroup c rw,cpuset\n1 2 0:3 /../.. / rw - cgroup2 c rw\n"+
		"1 2 0:3 / /proc rw - proc proc rw\n- cgroup\n1 2 3 4 5 - cgroup\n", cgroups)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
}
