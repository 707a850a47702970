package discover_test

import (
	"fmt"
	"io/fs"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/mpiup/mpiup/test/cost"
	"github.com/mpiup/mpiup/test/machine"
	"github.com/mpiup/mpiup/topology"
	"github.com/mpiup/mpiup/topology/discover"
	"github.com/mpiup/mpiup/topology/sysfs"
)

func read(t testing.TB, files fs.FS) *topology.Machine {
	t.Helper()
	m, err := discover.Machine(sysfs.New(files), 4096)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// counts is how many of each type a machine has: "2 Package, 4 Core".
func counts(m *topology.Machine, types ...topology.Type) string {
	var parts []string
	for _, typ := range types {
		parts = append(parts, fmt.Sprintf("%d %s", len(m.All(typ)), typ))
	}
	return strings.Join(parts, ", ")
}

// The whole of each machine is in topology's golden files; this is what to look at.
func TestMachines(t *testing.T) {
	for _, tt := range []struct {
		name    string
		counts  string
		present string
		allowed string
		mask    string
	}{
		{"dual", "2 Package, 0 Die, 0 Group, 4 Core, 8 PU, 2 NUMANode", "0-7", "0-7", "0-7"},
		{"container", "1 Package, 0 Die, 0 Group, 1 Core, 1 PU, 1 NUMANode", "0", "0", "0"},
		{"hybrid", "1 Package, 0 Die, 0 Group, 6 Core, 8 PU, 1 NUMANode", "0-7", "0-7", "0-7"},
		{"offline", "1 Package, 0 Die, 0 Group, 2 Core, 2 PU, 1 NUMANode", "0-3", "0,2", "0,2"},
		{"cgroup", "2 Package, 0 Die, 0 Group, 4 Core, 8 PU, 2 NUMANode", "0-7", "0,4", "4"},
		{"devices", "2 Package, 0 Die, 0 Group, 4 Core, 8 PU, 2 NUMANode", "0-7", "0-7", "0-7"},
		{"memory", "4 Package, 0 Die, 3 Group, 8 Core, 8 PU, 7 NUMANode", "0-7", "0-7", "0-7"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := read(t, machine.FS(t, tt.name))
			got := counts(m, topology.TypePackage, topology.TypeDie, topology.TypeGroup, topology.TypeCore, topology.TypePU, topology.TypeNUMANode)
			if got != tt.counts {
				t.Errorf("got %s, want %s", got, tt.counts)
			}
			if m.Present.String() != tt.present || m.AllowedCPUs.String() != tt.allowed || m.Affinity.String() != tt.mask {
				t.Errorf("present %s, allowed %s, mask %s; want %s, %s, %s", m.Present, m.AllowedCPUs, m.Affinity, tt.present, tt.allowed, tt.mask)
			}
		})
	}
}

func TestHybridKinds(t *testing.T) {
	m := read(t, machine.Load(t, "hybrid"))
	if got := fmt.Sprint(m.Kinds); got != "[{4-7 IntelAtom [] 1} {0-3 IntelCore [] 2}]" {
		t.Error(got)
	}
	shared := slices.ContainsFunc(m.All(topology.TypeL2Cache), func(c *topology.Object) bool {
		return c.CPUs.String() == "4-7" && c.Cache.Size == 2<<20
	})
	if !shared {
		t.Error("efficiency cores share no L2 of 2 MiB")
	}
}

func TestDevicesBehindASwitch(t *testing.T) {
	m := read(t, machine.Load(t, "devices"))
	gpu, _ := topology.ParsePCIAddr("0000:83:00.0")
	second := m.All(topology.TypePackage)[1]
	if got := m.Device(gpu).Place().CPUs; !second.CPUs.Contains(2) || !got.Equal(second.CPUs) {
		t.Errorf("near the GPU: %s, want %s", got, second.CPUs)
	}
	var names []string
	for _, o := range m.All(topology.TypeOSDevice) {
		names = append(names, o.Parent.PCI.Addr.String()+"="+o.Name)
	}
	if got := strings.Join(names, " "); got != "0000:01:00.0=eth0 0000:84:00.0=ib0 0000:84:00.0=mlx5_0" {
		t.Error(got)
	}
}

// A link's speed that is no number of the standard's is unknown.
func TestSpeedsThatAreNone(t *testing.T) {
	for _, speed := range []string{"Unknown", "NaN GT/s", "Inf GT/s", "-8 GT/s PCIe", "1e9 GT/s"} {
		files := machine.Load(t, "devices")
		for name, f := range files {
			if strings.HasSuffix(name, "/current_link_speed") {
				f.Data = []byte(speed)
			}
		}
		for _, o := range read(t, files).All(topology.TypePCIDevice) {
			if o.PCI.LinkSpeed != 0 {
				t.Errorf("%s: %v has %v GB/s", speed, o.PCI.Addr, o.PCI.LinkSpeed)
			}
		}
	}
}

// Where a container's cpuset is to be found.
func TestAllowed(t *testing.T) {
	base := machine.Load(t, "dual")
	for _, tt := range []struct{ name, files, cpus, nodes string }{
		{"none", "", "0-7", "0-1"},
		{"v2 in a cgroup namespace", `
-- proc/self/cpuset --
/
-- sys/fs/cgroup/cpuset.cpus.effective --
1,5
-- sys/fs/cgroup/cpuset.mems.effective --
0
`, "1,5", "0"},
		{"v2 in the host's tree, controller found by mounts", `
-- proc/mounts --
x /a cgroup rw,cpu 0 0
x /u cgroup2 rw 0 0
-- u/cgroup.controllers --
cpu cpuset
-- proc/self/cpuset --
/job
-- u/job/cpuset.cpus.effective --
2
-- u/job/cpuset.mems.effective --
1
`, "2", "1"},
		{"v1", `
-- proc/self/cgroup --
4:memory:/x
3:cpuset:/job
0::/other
-- sys/fs/cgroup/cpuset/cpuset.cpus --
0-7
-- sys/fs/cgroup/cpuset/job/cpuset.cpus --
0-1
-- sys/fs/cgroup/cpuset/job/cpuset.mems --
0
`, "0-1", "0"},
		{"v1 of a container: the group's directory is the mount", `
-- proc/self/cpuset --
/kubepods/pod
-- sys/fs/cgroup/cpuset/cpuset.cpus --
3
-- sys/fs/cgroup/cpuset/cpuset.mems --
1
`, "3", "1"},
		{"the cpuset file system", `
-- proc/self/cpuset --
/batch
-- dev/cpuset/cpus --
0-7
-- dev/cpuset/batch/cpus --
6-7
`, "6-7", "0-1"},
		{"v1 at a place of its own, and no table of this process's groups", `
-- proc/mounts --
x /c cgroup rw,cpuset 0 0
-- c/cpuset.cpus --
6
-- c/cpuset.mems --
1
`, "6", "1"},
		{"v2, and a table of groups without a line", `
-- proc/self/cgroup --
-- proc/self/cpuset --
/job
-- sys/fs/cgroup/cpuset.cpus.effective --
0-7
-- sys/fs/cgroup/job/cpuset.cpus.effective --
3
-- sys/fs/cgroup/job/cpuset.mems.effective --
0
`, "3", "0"},
		{"v2 in a captured tree, which has nothing of the group itself", `
-- proc/self/cgroup --
0::/1/2
-- proc/self/mountinfo --
30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup rw
-- sys/fs/cgroup/cpuset.cpus.effective --
0-7
-- sys/fs/cgroup/1/cpuset.cpus.effective --
5
-- sys/fs/cgroup/1/cpuset.mems.effective --
1
`, "5", "1"},
		{"a group of more levels than are looked at", `
-- proc/self/cgroup --
0::` + strings.Repeat("/a", 65) + `
-- sys/fs/cgroup/cpuset.cpus.effective --
0-3
-- sys/fs/cgroup` + strings.Repeat("/a", 65) + `/cpuset.cpus.effective --
2
`, "0-3", "0-1"},
		{"a group outside of the root", `
-- proc/self/cpuset --
/../../etc
-- sys/fs/cgroup/cpuset.cpus.effective --
4
`, "4", "0-1"},
		{"nothing online is allowed", `
-- proc/self/cpuset --
/
-- sys/fs/cgroup/cpuset.cpus.effective --
64
`, "0-7", "0-1"},
		{"nonsense", `
-- proc/self/cpuset --
/
-- sys/fs/cgroup/cpuset.cpus.effective --
all of them
`, "0-7", "0-1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			files := fstest.MapFS{}
			for name, f := range base {
				if !strings.HasPrefix(name, "proc/self/c") {
					files[name] = f
				}
			}
			for name, f := range machine.Parse(t, tt.files) {
				files[name] = f
			}
			m := read(t, files)
			if m.AllowedCPUs.String() != tt.cpus || m.AllowedNodes.String() != tt.nodes {
				t.Errorf("CPUs %s, nodes %s; want %s, %s", m.AllowedCPUs, m.AllowedNodes, tt.cpus, tt.nodes)
			}
		})
	}
}

// Containers hide things.
func TestHidden(t *testing.T) {
	for _, tt := range []struct {
		name   string
		hidden string // names that begin so
		want   string
	}{
		{"no node directory", "sys/devices/system/node", "2 Package, 4 Core, 8 PU, 1 NUMANode"},
		{"no caches", "sys/devices/system/cpu/cpu0/cache", "2 Package, 4 Core, 8 PU, 2 NUMANode"},
		{"no topology", "sys/devices/system/cpu/cpu", "0 Package, 0 Core, 8 PU, 2 NUMANode"},
		{"no /sys", "sys", "0 Package, 0 Core, 8 PU, 1 NUMANode"},
		{"no /proc", "proc", "2 Package, 4 Core, 8 PU, 2 NUMANode"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			files := machine.Load(t, "dual")
			for name := range files {
				if strings.HasPrefix(name, tt.hidden) {
					delete(files, name)
				}
			}
			m := read(t, files)
			if got := counts(m, topology.TypePackage, topology.TypeCore, topology.TypePU, topology.TypeNUMANode); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
	if _, err := discover.Machine(sysfs.New(fstest.MapFS{}), 0); err == nil || !strings.Contains(err.Error(), "no CPU is to be seen") {
		t.Errorf("nothing at all: %v", err)
	}
}

// This machine's own files, whatever they are.
func TestHere(t *testing.T) {
	m, err := discover.Machine(sysfs.Host(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(m.All(topology.TypePU)); n < runtime.NumCPU() {
		t.Errorf("%d hardware threads, the Go runtime sees %d", n, runtime.NumCPU())
	}
}

func BenchmarkHere(b *testing.B) {
	for b.Loop() {
		if _, err := discover.Machine(sysfs.Host(), 0); err != nil {
			b.Fatal(err)
		}
	}
}

// FuzzMachine: a tree may hold anything.
func FuzzMachine(f *testing.F) {
	for _, name := range machine.Names(f) {
		if text := machine.Text(f, name); len(text) < 32<<10 {
			f.Add([]byte(text))
		}
	}
	f.Add([]byte("-- sys/devices/system/cpu/online --\n0-8191\n-- sys/devices/system/node/online --\n0-1023\n"))
	f.Add([]byte("-- sys/devices/system/cpu/online --\n0-4294967295\n-- sys/devices/system/cpu/cpu{0-99}/topology/core_cpus -> ../topology/core_cpus --\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		defer cost.Watch(t, cost.Bound{Fixed: 64 << 20, PerByte: 512}, len(text))() // a machine may have 2^20 CPUs
		files, err := discover.Parse(text)
		if err != nil || len(files) > 1<<12 {
			return
		}
		notes := 0
		m, err := discover.Machine(sysfs.New(files.FS()).Noting(func(error) { notes++ }), 4096)
		if err == nil && (len(m.All(topology.TypePU)) == 0 || len(m.All(topology.TypeNUMANode)) == 0 || m.AllowedCPUs.Empty()) {
			t.Fatalf("%d hardware threads, %d nodes, allowed %s", len(m.All(topology.TypePU)), len(m.All(topology.TypeNUMANode)), m.AllowedCPUs)
		}
	})
}

// What is there and makes no sense is left out, and told of by name; what is missing is not.
func TestNonsenseIsNoted(t *testing.T) {
	const cpu0 = "sys/devices/system/cpu/cpu0/"
	for _, tt := range []struct{ name, text, want string }{
		{"sys/devices/system/cpu/online", "0-4294967295", `/sys/devices/system/cpu/online: number list "0-4294967295": "4294967295" is above 1048575`},
		{"sys/devices/system/cpu/online", "0-1048575,x", `/sys/devices/system/cpu/online: number list`},
		{cpu0 + "topology/core_cpus", "0xff", `/` + cpu0 + `topology/core_cpus: bit mask "0xff"`},
		{cpu0 + "topology/core_cpus", "", `/` + cpu0 + `topology/core_cpus: bit mask ""`},
		{cpu0 + "topology/core_cpus", "00000022", ""}, // of another core: not believed
		{cpu0 + "topology/physical_package_id", "none", `/` + cpu0 + `topology/physical_package_id: "none" is not a number`},
		{"sys/devices/system/node/node0/cpumap", "ghi", `/sys/devices/system/node/node0/cpumap: bit mask "ghi"`},
		{"sys/devices/system/node/node0/distance", "10", `/sys/devices/system/node/node0/distance: 1 distances of 2 nodes`},
		{"sys/devices/system/node/node0/distance", "10 x", `/sys/devices/system/node/node0/distance: "x" is no distance`},
		{"sys/devices/system/node/node0/meminfo", "Node 0 MemTotal: much kB", `/sys/devices/system/node/node0/meminfo: MemTotal "much"`},
		{"proc/self/status", "Name:\tx\nCpus_allowed_list:\t0-x\n", `/proc/self/status: Cpus_allowed_list "0-x"`},
		{"sys/fs/cgroup/cpuset.cpus.effective", "some", `/sys/fs/cgroup/cpuset.cpus.effective: number list "some"`},
		{"proc/self/cgroup", strings.Repeat("x", 1<<17), "/proc/self/cgroup is longer than 65535 bytes"},
	} {
		files := machine.Load(t, "dual")
		files[tt.name] = &fstest.MapFile{Data: []byte(tt.text)}
		var notes []string
		m, err := discover.Machine(sysfs.New(files).Noting(func(err error) { notes = append(notes, err.Error()) }), 4096)
		if err != nil || m.Root.CPUs.String() != "0-7" {
			t.Errorf("%s: CPUs %s, %v", tt.name, m.Root.CPUs, err)
		}
		if got := strings.Join(notes, "\n"); (tt.want == "") != (got == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s, %.20q: noted %q, want %q", tt.name, tt.text, got, tt.want)
		}
	}
}

// The corpus is understood without a note, but for a virtual machine whose nodes have less memory than it.
func TestNothingIsNoted(t *testing.T) {
	noted := map[string]string{"vm": "/proc/meminfo: it has 23.5 GiB in all, and the NUMA nodes 15.3 GiB"}
	for _, name := range machine.Names(t) {
		note := func(err error) {
			if err.Error() != noted[name] {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := discover.Machine(sysfs.New(machine.FS(t, name)).Noting(note), 4096); err != nil {
			t.Error(err)
		}
	}
}

// Without registers (Linux before 4.6, or hidden) the capacities tell kinds; where registers are alike, nothing does.
func TestKindsOfARM(t *testing.T) {
	for name, tt := range map[string]struct {
		midr [2]string
		want string
	}{
		"registers":    {[2]string{"0x00000000410fd871", "0x00000000410fd851"}, "ARM part 0xd87, capacity 400: 0; ARM part 0xd85, capacity 1024: 1; "},
		"none":         {[2]string{}, "capacity 400: 0; capacity 1024: 1; "},
		"alike":        {[2]string{"0x410fd851", "0x410fd851"}, ""},
		"not a number": {[2]string{"0x410fd851", "here"}, ""},
	} {
		text := "-- sys/devices/system/cpu/online --\n0-1\n"
		for cpu, capacity := range []int{400, 1024} {
			text += fmt.Sprintf("-- sys/devices/system/cpu/cpu%d/cpu_capacity --\n%d\n", cpu, capacity)
			if tt.midr[cpu] != "" {
				text += fmt.Sprintf("-- sys/devices/system/cpu/cpu%d/regs/identification/midr_el1 --\n%s\n", cpu, tt.midr[cpu])
			}
		}
		m, err := discover.Machine(sysfs.New(machine.Parse(t, text)), 4096)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, k := range m.Kinds {
			got += fmt.Sprintf("%s: %v; ", k.Name, k.CPUs)
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
