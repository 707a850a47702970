package discover_test

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/mpiup/mpiup/gpu"
	"github.com/mpiup/mpiup/rdma"
	"github.com/mpiup/mpiup/test/cost"
	"github.com/mpiup/mpiup/test/machine"
	"github.com/mpiup/mpiup/topology"
	"github.com/mpiup/mpiup/topology/discover"
	"github.com/mpiup/mpiup/topology/sysfs"
)

// described is all that can be said of a machine, without addresses.
func described(t *testing.T, fsys fs.FS) string {
	t.Helper()
	files := sysfs.New(fsys)
	m, err := discover.Machine(files, 4096)
	if err != nil {
		t.Fatal(err)
	}
	limits, err := discover.FindCgroups(files).Limit(m)
	if err != nil {
		t.Fatal(err)
	}
	text := regexp.MustCompile(`(?m)^.*name="(Address|NodeGUID|SysImageGUID)".*\n`).ReplaceAllString(topology.XML(m), "")
	text += fmt.Sprintf("%+v\n", limits)
	none := func(string) (string, bool) { return "", false }
	text += fmt.Sprintf("%+v\n%+v\n%+v\n", gpu.Survey(files, none, m), gpu.Read(files, none), rdma.Read(files, rdma.Config{Survey: true}))
	return text
}

// A captured machine is the machine, after a walk through its text too.
func TestNothingIsLost(t *testing.T) {
	for _, name := range machine.Names(t) {
		t.Run(name, func(t *testing.T) {
			files := machine.FS(t, name)
			taken, err := discover.Take(sysfs.New(files))
			if err != nil {
				t.Fatal(err)
			}
			text := discover.Format("a machine", taken)
			again, err := discover.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(text), string(discover.Format("a machine", again))); d != "" {
				t.Errorf("the second text differs:\n%s", d)
			}
			for name := range taken {
				if _, ok := again[name]; !ok {
					t.Errorf("%s is not in the text", name)
				}
			}
			if d := cmp.Diff(described(t, files), described(t, again.FS())); d != "" {
				t.Error(d)
			}
		})
	}
}

// This machine's own, whatever it is.
func TestCaptureHere(t *testing.T) {
	taken, err := discover.Take(sysfs.Host())
	if err != nil {
		t.Fatal(err)
	}
	live, err := discover.Machine(sysfs.Host(), 0)
	if err != nil {
		t.Fatal(err)
	}
	m, err := discover.Machine(sysfs.New(taken.FS()), 0)
	if err != nil {
		t.Fatal(err)
	}
	if !m.Root.CPUs.Equal(live.Root.CPUs) || !m.AllowedCPUs.Equal(live.AllowedCPUs) || !m.Root.Nodes.Equal(live.Root.Nodes) {
		t.Errorf("CPUs %s of %s, nodes %s; captured %s of %s, %s", live.AllowedCPUs, live.Root.CPUs, live.Root.Nodes, m.AllowedCPUs, m.Root.CPUs, m.Root.Nodes)
	}
}

// What tells of somebody does not get out.
func TestPrivate(t *testing.T) {
	const pod = "/kubepods.slice/kubepods-pod5ecre7.slice/cri-5ecre7.scope"
	files := machine.Load(t, "h100")
	for name, text := range map[string]string{
		"proc/self/cgroup":    "0::" + pod + "\n1:name=systemd:/user.slice/5ecre7\n",
		"proc/self/cpuset":    pod + "\n",
		"proc/self/mountinfo": "31 23 0:28 " + pod + " /sys/fs/cgroup rw - cgroup2 cgroup rw\n32 23 0:29 / /home/5ecre7 rw - nfs 5ecre7:/x rw\n",
		"proc/mounts":         "cgroup /sys/fs/cgroup cgroup2 rw 0 0\n5ecre7:/x /home/5ecre7 nfs rw 0 0\n",
		"proc/self/status":    "Name:\t5ecre7\nCpus_allowed_list:\t0-3\nMems_allowed_list:\t0-1\n",
		"proc/self/environ":   "TOKEN=5ecre7\x00",
		"proc/cpuinfo":        "processor\t: 0\nmodel name\t: A\nSerial\t\t: 5ecre7\n\nprocessor\t: 1\n",
		"proc/meminfo":        "MemTotal: 1024 kB\nMemFree: 5 kB # 5ecre7\n",
		"proc/driver/nvidia/gpus/0000:01:00.0/information":                                             "Model:\tH100\nGPU UUID:\tGPU-5ecre7\nVideo BIOS:\t5ecre7\nDevice Minor:\t0\n",
		"sys/class/dmi/id/product_serial":                                                              "5ecre7\n",
		"sys/class/dmi/id/product_uuid":                                                                "5ecre7\n",
		"sys/class/dmi/id/product_name":                                                                "Rack\n",
		"sys/class/kfd/kfd/topology/nodes/1/properties":                                                "simd_count 4\nlocation_id 256\nunique_id 5ecre7\nhive_id 5ecre7\ndrm_render_minor 128\n",
		"sys/devices/pci0000:00/0000:00:01.0/0000:01:01.0/infiniband/mlx5_0/node_guid":                 "5ecr:e700:0001:0203\n",
		"sys/devices/pci0000:00/0000:00:01.0/0000:01:01.0/infiniband/mlx5_0/sys_image_guid":            "5ecr:e700:0001:0203\n",
		"sys/devices/pci0000:00/0000:00:01.0/0000:01:01.0/net/ib0/address":                             "5e:cr:e7:01:02:03\n",
		"sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/uevent":                                      "PCI_CLASS=30200\nPCI_ID=10DE:2330\nSERIAL=5ecre7\n",
		"sys/fs/cgroup/kubepods.slice/kubepods-pod5ecre7.slice/cpu.max":                                "100000 100000\n",
		"sys/fs/cgroup/kubepods.slice/kubepods-pod5ecre7.slice/cri-5ecre7.scope/cpuset.cpus.effective": "0-3\n",
	} {
		files[name] = &fstest.MapFile{Data: []byte(text)}
	}
	files["sys/class/net/veth5ecre7"] = &fstest.MapFile{Mode: fs.ModeSymlink, Data: []byte("../../devices/virtual/net/veth5ecre7")}
	files["sys/devices/virtual/net/veth5ecre7/address"] = &fstest.MapFile{Data: []byte("0a:00:00:5e:cr:e7\n")}

	taken, err := discover.Take(sysfs.New(files))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(taken)) {
		f := taken[name]
		if all := name + " " + f.Link + " " + string(f.Data); strings.Contains(all, "5ecr") || strings.Contains(all, "5e:cr") {
			t.Errorf("%.300s", all)
		}
	}
	for name, want := range map[string]string{
		"proc/self/cgroup":                          "0::/1/2/3\n1:name=systemd:/1/2\n",
		"proc/self/mountinfo":                       "31 23 0:28 /1/2/3 /sys/fs/cgroup rw - cgroup2 cgroup rw\n",
		"sys/fs/cgroup/1/2/cpu.max":                 "100000 100000\n",
		"sys/fs/cgroup/1/2/3/cpuset.cpus.effective": "0-3\n",
		"sys/devices/pci0000:00/0000:00:01.0/0000:01:01.0/infiniband/mlx5_0/sys_image_guid": string(taken["sys/devices/pci0000:00/0000:00:01.0/0000:01:01.0/infiniband/mlx5_0/node_guid"].Data),
		"sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/uevent":                           "PCI_CLASS=30200\nPCI_ID=10DE:2330\n",
	} {
		if got := string(taken[name].Data); got != want || want == "" {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"-- a --\n-- a --\n", "a: not the name of a file, or there twice"},
		{"-- /a --\n", "/a: not the name of a file"},
		{"-- a/../b --\n", "a/../b: not the name of a file"},
		{"-- cpu{0 --\n", "cpu{0: { without }"},
		{"-- cpu{0-x} --\n", `number list "0-x"`},
		{"-- cpu{0-999999} --\n", "{} holds 999999; the limit is 65535"},
		{"-- a{0-65535} --\n-- b{0-65535} --\n-- c{0-65535} --\n-- d{0-65535} --\n-- e{0-65535} --\n", "e0: with it there would be more than 262144 files"},
		{"-- a (hex) --\nzz\n", "a (hex): encoding/hex"},
		{strings.Repeat("x", discover.MaxBytes+1), "an archive of 16777217 bytes"},
	} {
		if _, err := discover.Parse([]byte(tt.text)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%.30q: %v, want %s", tt.text, err, tt.want)
		}
	}
}

// The files in memory behave as files do.
func TestFS(t *testing.T) {
	files := discover.Files{
		"sys/a/b/file":  {Data: []byte("text\n")},
		"sys/a/empty":   {},
		"sys/to":        {Link: "a/b"},
		"sys/abs":       {Link: "/sys/a/b/file"},
		"sys/up":        {Link: "../../../../sys/to/../b/file"},
		"sys/dangling":  {Link: "nothing"},
		"sys/loop":      {Link: "loop"},
		"sys/a/b":       {Data: []byte("a file that stands where a directory is")},
		"sys/a/empty/x": {Data: []byte("a file below a file")},
	}
	for name := range files {
		if strings.HasPrefix(name, "sys/a/b") && name != "sys/a/b/file" || name == "sys/a/empty/x" {
			delete(files, name)
		}
	}
	fsys := files.FS()
	delete(files, "sys/dangling") // TestFS opens everything
	delete(files, "sys/loop")
	if err := fstest.TestFS(files.FS(), "sys/a/b/file", "sys/a/empty"); err != nil {
		t.Error(err)
	}
	f := sysfs.New(fsys)
	for _, name := range []string{"sys/a/b/file", "sys/to/file", "sys/abs", "sys/up"} {
		if text, err := f.Text(name); text != "text" || err != nil {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
	for _, name := range []string{"sys/dangling", "sys/loop", "sys/none", "sys/a/empty/x"} {
		if _, err := f.Text(name); err == nil || !strings.Contains(err.Error(), "/"+name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := f.Text("sys/dangling"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if target, err := f.Link("sys/to"); target != "a/b" || err != nil {
		t.Error(target, err)
	}
	if _, err := f.Link("sys/a"); err == nil {
		t.Error("a directory is no link")
	}
}

// An archive may hold anything.
func FuzzParse(f *testing.F) {
	f.Add([]byte("-- sys/devices/system/cpu/cpu{0-3}/online --\n1\n-- a -> b --\n-- b -> /a --\n-- c (hex) --\n00ff\n"))
	f.Add([]byte("-- a/b --\n-- a --\n-- a/b/c -> ../../.. --\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		// A list of a few bytes stands for many files, as many as the largest machine has (TestHostileArchivesAreCheap).
		defer cost.Watch(t, cost.Bound{Fixed: largest + largest/2, PerByte: cost.Parser.PerByte}, len(text))()
		files, err := discover.Parse(text)
		if err != nil || len(files) > 1<<12 {
			return
		}
		again, err := discover.Parse(discover.Format("", files))
		if err != nil || len(again) != len(files) {
			t.Fatalf("%d files became %d: %v", len(files), len(again), err)
		}
		fsys := sysfs.New(files.FS())
		for name, file := range files {
			_, _ = fsys.Text(name)
			if file.Link != "" {
				_, _ = fsys.Names(name)
			}
		}
	})
}
