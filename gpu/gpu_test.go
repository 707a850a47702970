package gpu

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/mpiup/mpiup/test/golden"
	"github.com/mpiup/mpiup/test/machine"
	"github.com/mpiup/mpiup/topology/discover"
	"github.com/mpiup/mpiup/topology/sysfs"
)

func noEnv(string) (string, bool) { return "", false }

func env(pairs ...string) LookupEnv {
	return func(name string) (string, bool) {
		for _, p := range pairs {
			if n, v, _ := strings.Cut(p, "="); n == name {
				return v, true
			}
		}
		return "", false
	}
}

// load is a machine of this package's testdata.
func load(t testing.TB, name string) fstest.MapFS {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name + ".txtar")
	if err != nil {
		t.Fatal(err)
	}
	return machine.Parse(t, string(text))
}

// matrix is how each GPU is joined to each.
func matrix(inv *Inventory) (rows [][]string) {
	for i := range inv.GPUs {
		row := make([]string, len(inv.GPUs))
		for j := range inv.GPUs {
			row[j] = inv.GPUs[i].Between(&inv.GPUs[j])
		}
		rows = append(rows, row)
	}
	return rows
}

func describe(inv *Inventory) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s from %s, driver %s\n", inv.Vendor, inv.Source, inv.Driver)
	for _, u := range inv.Units() {
		g := u.GPU
		fmt.Fprintf(&b, "%d %s %s %s minor %d, %d MiB, node %d, CPUs %s, below %s\n",
			g.Number, g.At, u.Name(), g.Model, g.Minor, g.Memory>>20, g.Path.Node, g.Near, g.Path.Host)
		if u.MIG != nil {
			fmt.Fprintf(&b, "  instance %d/%d\n", u.MIG.Instance, u.MIG.Compute)
		}
	}
	for _, row := range matrix(inv) {
		fmt.Fprintf(&b, "%s\n", strings.Join(row, " "))
	}
	return b.String()
}

func TestMachines(t *testing.T) {
	for name, files := range map[string]fstest.MapFS{
		"azure-ndv5": load(t, "azure-ndv5"),
		"xgmi":       load(t, "xgmi"),
		"h100":       machine.Load(t, "h100"),
		"mi300x":     machine.Load(t, "mi300x"),
		"mig":        load(t, "mig"),
		"intel":      load(t, "intel"),
	} {
		t.Run(name, func(t *testing.T) {
			inv := Read(sysfs.New(files), noEnv)
			golden.Is(t, "testdata/"+name+".golden", describe(&inv))
		})
	}
}

// What a container was not given it does not use, whatever /sys shows.
func TestOnlyWhatWasGranted(t *testing.T) {
	without := func(files fstest.MapFS, names ...string) fstest.MapFS {
		for _, name := range names {
			if files[name] == nil {
				t.Fatalf("%s is not there anyway", name)
			}
			delete(files, name)
		}
		return files
	}
	excluded := load(t, "azure-ndv5")
	info := excluded["proc/driver/nvidia/gpus/0003:00:00.0/information"]
	info.Data = []byte(strings.Replace(string(info.Data), "Excluded:\t No", "Excluded:\t Yes", 1))
	amdMinors := func(n int) []string { return []string{fmt.Sprintf("dev/dri/renderD%d", 128+8*n)} }
	for _, tt := range []struct {
		name  string
		files fstest.MapFS
		env   LookupEnv
		want  string // vendor and minors
	}{
		{"two of eight", without(load(t, "azure-ndv5"), "dev/nvidia0", "dev/nvidia2", "dev/nvidia3", "dev/nvidia4", "dev/nvidia5", "dev/nvidia6"), noEnv, "nvidia [1 7]"},
		{"MPI Operator's launcher", load(t, "azure-ndv5"), env("NVIDIA_VISIBLE_DEVICES="), " []"},
		{"none", load(t, "azure-ndv5"), env("NVIDIA_VISIBLE_DEVICES=none"), " []"},
		{"CDI", load(t, "azure-ndv5"), env("NVIDIA_VISIBLE_DEVICES=void"), "nvidia [0 1 2 3 4 5 6 7]"},
		{"excluded by the administrator, and with its file", excluded, noEnv, "nvidia [0 1 3 4 5 6 7]"},
		{"files beside each other", fstest.MapFS{"dev/nvidia0": {}, "dev/nvidia1": {}, "dev/nvidia10": {}, "dev/nvidia3": {}, "dev/nvidiactl": {},
			"dev/nvidia-uvm": {}, "dev/nvidia-caps/nvidia-cap1": {}}, noEnv, "nvidia [0 1 3 10]"},
		{"AMD's in /dev/dri, two of three and one of another driver's", fstest.MapFS{"dev/kfd": {}, "dev/dri/renderD128": {}, "dev/dri/renderD130": {}, "dev/dri/renderD131": {},
			"sys/class/kfd/kfd/topology/nodes/0/properties": {Data: []byte("cpu_cores_count 16\nsimd_count 0\ndrm_render_minor 0\n")},
			"sys/class/kfd/kfd/topology/nodes/1/properties": {Data: []byte("cpu_cores_count 0\nsimd_count 440\ndrm_render_minor 128\n")},
			"sys/class/kfd/kfd/topology/nodes/2/properties": {Data: []byte("simd_count 440\ndrm_render_minor 129\n")},
			"sys/class/kfd/kfd/topology/nodes/3/properties": {Data: []byte("simd_count 440\ndrm_render_minor 130\n")}}, noEnv, "amd [128 130]"},
		{"no /proc/driver", fstest.MapFS{"dev/nvidia1": {}, "dev/nvidia0": {}, "dev/nvidia-modeset": {}}, noEnv, "nvidia [0 1]"},
		{"one of AMD's", without(load(t, "xgmi"), slices.Concat(amdMinors(0), amdMinors(1), amdMinors(2), amdMinors(3), amdMinors(4), amdMinors(5), amdMinors(7))...), noEnv, "amd [176]"},
		{"AMD's without its compute device", without(load(t, "xgmi"), "dev/kfd"), noEnv, " []"},
		{"Intel's, without the render device", without(load(t, "intel"), "dev/dri/renderD130"), noEnv, "intel [129]"},
		{"only the processor's graphics", without(load(t, "intel"), "dev/dri/renderD130", "dev/dri/renderD129"), noEnv, " []"},
		{"nothing", fstest.MapFS{}, noEnv, " []"},
	} {
		inv := Read(sysfs.New(tt.files), tt.env)
		minors := []int{}
		for i := range inv.GPUs {
			minors = append(minors, inv.GPUs[i].Minor)
		}
		if got := fmt.Sprint(inv.Vendor, " ", minors); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
		if (inv.Source == "") != (len(minors) == 0) {
			t.Errorf("%s: source %q of %d GPUs", tt.name, inv.Source, len(minors))
		}
	}
}

// Level Zero counts the processor's graphics, which comes first.
func TestIntelsNumbers(t *testing.T) {
	inv := Read(sysfs.New(load(t, "intel")), noEnv)
	vars, err := Variables(inv.Vendor, inv.Units(), []int{0, 1})
	if want := []string{"ZE_AFFINITY_MASK=1,2", "ZE_ENABLE_PCI_ID_DEVICE_ORDER=1"}; err != nil || !slices.Equal(vars, want) {
		t.Errorf("%q, %v", vars, err)
	}
}

// Where a GPU hangs is the same by its path in /sys and by the numbers of the buses.
func TestPathsAgreeWithTheMachine(t *testing.T) {
	for _, name := range []string{"h100", "mi300x"} {
		files := sysfs.New(machine.Load(t, name))
		m, err := discover.Machine(files, 4096)
		if err != nil {
			t.Fatal(err)
		}
		inv := Read(files, noEnv)
		if len(inv.GPUs) != 8 {
			t.Fatalf("%s: %d GPUs", name, len(inv.GPUs))
		}
		for i := range inv.GPUs {
			g := &inv.GPUs[i]
			path, ok := m.PCIPath(g.At)
			if d := cmp.Diff(path, g.Path); !ok || d != "" {
				t.Errorf("%s: %s: %s", name, g.At, d)
			}
			if near := m.Device(g.At).Place().CPUs; !near.Equal(g.Near) {
				t.Errorf("%s: %s is near %s, and by the machine near %s", name, g.At, g.Near, near)
			}
		}
	}
}

// AMD's partitions of one GPU have its name before Linux 6.12; numbers tell them apart.
func TestPartitionsAreNumbered(t *testing.T) {
	files := load(t, "xgmi")
	for n := 3; n <= 9; n++ {
		f := files[fmt.Sprintf("sys/class/kfd/kfd/topology/nodes/%d/properties", n)]
		f.Data = []byte(strings.Replace(string(f.Data), fmt.Sprintf("unique_id %d", 11000000000000000000+uint64(n-2)), "unique_id 11000000000000000000", 1))
	}
	inv := Read(sysfs.New(files), noEnv)
	vars, err := Variables(inv.Vendor, inv.Units(), []int{3, 5})
	if err != nil || !slices.Equal(vars, []string{"ROCR_VISIBLE_DEVICES=3,5"}) {
		t.Errorf("%q, %v", vars, err)
	}
}

func TestUnitOf(t *testing.T) {
	inv := Read(sysfs.New(load(t, "azure-ndv5")), noEnv)
	units := inv.Units()
	for rank, want := range map[int]string{0: "0-47", 3: "0-47", 4: "48-95", 7: "48-95", 8: "0-47", 12: "48-95"} {
		u, ok := UnitOf(units, rank)
		if got := u.GPU.Near.String(); !ok || got != want {
			t.Errorf("local rank %d: %s, want %s", rank, got, want)
		}
	}
	if u, ok := UnitOf(nil, 0); ok || u.GPU != nil {
		t.Errorf("a unit of none: %+v", u)
	}
}

func BenchmarkRead(b *testing.B) {
	for _, name := range []string{"h100", "mi300x"} {
		files := sysfs.New(os.DirFS(machine.Unpack(b, machine.Load(b, name))))
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if inv := Read(files, noEnv); len(inv.GPUs) != 8 {
					b.Fatal(len(inv.GPUs))
				}
			}
		})
	}
	b.Run("here", func(b *testing.B) {
		for b.Loop() {
			Read(sysfs.Host(), os.LookupEnv)
		}
	})
}
