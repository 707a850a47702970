package gpu

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/mpiup/mpiup/test/machine"
	"github.com/mpiup/mpiup/topology"
	"github.com/mpiup/mpiup/topology/discover"
	"github.com/mpiup/mpiup/topology/sysfs"
)

// All GPUs of a machine are there, each with what is missing for its use; those without are Read's.
func TestSurvey(t *testing.T) {
	less := func(files fstest.MapFS, prefixes ...string) fstest.MapFS {
		for name := range files {
			for _, p := range prefixes {
				if strings.HasPrefix(name, p) {
					delete(files, name)
				}
			}
		}
		return files
	}
	known := map[string]*topology.Machine{}
	for _, name := range []string{"h100", "mi300x"} {
		m, err := discover.Machine(sysfs.New(machine.FS(t, name)), 4096)
		if err != nil {
			t.Fatal(err)
		}
		known[name] = m
	}
	const gpus = "proc/driver/nvidia/gpus/"
	for _, tt := range []struct {
		name  string
		files fstest.MapFS
		env   LookupEnv
		want  string // titles where they are not the first's, and what is missing
	}{
		{"all", machine.Load(t, "h100"), noEnv, "8 × NVIDIA H100 80GB HBM3"},
		{"one device file less", less(machine.Load(t, "h100"), "dev/nvidia3"), noEnv, "8 × NVIDIA H100 80GB HBM3; 3: /dev/nvidia3"},
		{"MPI Operator's launcher", machine.Load(t, "h100"), env("NVIDIA_VISIBLE_DEVICES="),
			"8 × NVIDIA H100 80GB HBM3" + strings.Repeat("; %: GPU in NVIDIA_VISIBLE_DEVICES", 8)},
		{"the driver tells of others only", less(machine.Load(t, "h100"), gpus+"0000:04", "dev/nvidia3"), noEnv, "8 × NVIDIA H100 80GB HBM3; 3: /dev/nvidia3"},
		{"a device file of which the driver does not tell", less(machine.Load(t, "h100"), gpus+"0000:04"), noEnv, "8 × NVIDIA H100 80GB HBM3"},
		{"no word of the driver", less(machine.Load(t, "h100"), gpus, "dev/nvidia3"), noEnv, "8 × NVIDIA 10de:2330; 3: /dev/nvidia3"},
		{"/sys alone", less(machine.Load(t, "h100"), "proc/driver", "dev/"), noEnv, "8 × NVIDIA 10de:2330"},
		{"AMD's", machine.Load(t, "mi300x"), noEnv, "8 × AMD 1002:74a1"},
		{"AMD's without the compute device", less(machine.Load(t, "mi300x"), "dev/kfd"), noEnv, "8 × AMD 1002:74a1" + strings.Repeat("; %: /dev/kfd", 8)},
		{"AMD's without the driver", less(machine.Load(t, "mi300x"), "sys/class/kfd"), noEnv, "8 × AMD 1002:74a1" + strings.Repeat("; %: /"+kfdNodes, 8)},
		{"AMD's, /sys alone", less(machine.Load(t, "mi300x"), "sys/class/kfd", "dev/"), noEnv, "8 × AMD 1002:74a1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fsys := sysfs.New(tt.files)
			m := known["h100"]
			if strings.HasPrefix(tt.name, "AMD's") {
				m = known["mi300x"]
			}
			all := Survey(fsys, tt.env, m)
			got := fmt.Sprintf("%d × %s", len(all), all[0].Title())
			can := 0
			for i := range all {
				if all[i].Usable() {
					can++
				} else {
					got += fmt.Sprintf("; %d: %s", i, all[i].Missing)
				}
			}
			want := tt.want
			for i := 0; strings.Contains(want, "%"); i++ {
				want = strings.Replace(want, "%", fmt.Sprint(i), 1)
			}
			if got != want {
				t.Errorf("%s, want %s", got, want)
			}
			if read := Read(fsys, tt.env); fsys.Exists("dev/null") && len(read.GPUs) != can {
				t.Errorf("%d can be used, Read has %d", can, len(read.GPUs))
			}
		})
	}
}

// What a better source knows is joined by the address; a GPU that it does not see cannot be used.
func TestMerge(t *testing.T) {
	fsys := sysfs.New(machine.Load(t, "h100"))
	m, err := discover.Machine(sysfs.New(machine.FS(t, "h100")), 4096)
	if err != nil {
		t.Fatal(err)
	}
	inv := Read(fsys, noEnv)
	inv.Source, inv.GPUs = "nvidia-smi", inv.GPUs[:7]
	inv.GPUs[2].UUID = "GPU-2"
	all := Merge(Survey(fsys, noEnv, m), inv)
	if again := Merge(all[1:2], inv); len(again) != 7 || again[0].UUID != "" || again[6].At != inv.GPUs[6].At {
		t.Errorf("GPUs that only the better source has: %+v", again)
	}
	loose := []Seen{{GPU: GPU{Minor: 2}, Vendor: NVIDIA}}
	if again := Merge(loose, inv); len(again) != 7 || again[2].UUID != "GPU-2" {
		t.Errorf("a device file that no other file tells of: %+v", again)
	}
	if len(all) != 8 || all[2].UUID != "GPU-2" || !all[6].Usable() || all[7].Missing != "mention of it by nvidia-smi" {
		t.Errorf("%+v", all)
	}
}

// What is there and not understood is named.
func TestNonsenseIsNamed(t *testing.T) {
	var told []string
	fsys := sysfs.New(fstest.MapFS{
		"dev/kfd": {}, "dev/dri/renderD128": {},
		"proc/driver/nvidia/gpus/0000:01:00.0/information": {Data: []byte("Device Minor: x\n")},
		"sys/class/kfd/kfd/topology/nodes/0/properties":    {Data: []byte("simd_count many\n")},
		"sys/class/kfd/kfd/topology/nodes/1/properties":    {Data: []byte("simd_count 4\ndrm_render_minor 128\nlocation_id 256\n")},
		"sys/bus/pci/devices/0000:01:00.0/numa_node":       {Data: []byte("")},
	}).Noting(func(err error) { told = append(told, err.Error()) })
	if inv := Read(fsys, noEnv); len(inv.GPUs) != 1 || inv.Vendor != AMD {
		t.Errorf("%+v", inv)
	}
	want := []string{
		"/proc/driver/nvidia/gpus/0000:01:00.0/information: no Device Minor from 0 to 1048575",
		`/sys/class/kfd/kfd/topology/nodes/0/properties: "simd_count many" is not a name and a number`,
		`/sys/bus/pci/devices/0000:01:00.0/numa_node: "" is not a number`,
	}
	if d := cmp.Diff(want, told); d != "" {
		t.Error(d)
	}
}
