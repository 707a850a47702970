package gpu

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mpiup/mpiup/test/cost"
	"github.com/mpiup/mpiup/test/golden"
	"github.com/mpiup/mpiup/topology/sysfs"
)

// programs answers by command line; what is not in it is not there.
type programs map[string]Result

func (p programs) run(_ context.Context, argv []string) (Result, error) {
	if r, ok := p[strings.Join(argv, " ")]; ok {
		return r, nil
	}
	return Result{}, errors.New("not found on PATH")
}

const helper = "/opt/mpiup-nvml"

// migSources is the machine "mig" and what its programs write.
func migSources(t testing.TB) (fstest.MapFS, programs) {
	files := load(t, "mig")
	return files, programs{
		helper:             {Out: files["report"].Data},
		"nvidia-smi -q -x": {Out: files["nvidia-smi-q-x"].Data},
		"nvidia-smi -L":    {Out: files["nvidia-smi-L"].Data},
	}
}

// ask is the inventory of a machine, from the programs named.
func ask(t testing.TB, files fstest.MapFS, all programs, names ...string) (Inventory, error) {
	t.Helper()
	some := programs{}
	for _, name := range names {
		some[name] = all[name]
	}
	return Ask(t.Context(), Config{FS: sysfs.New(files), Env: noEnv, Helper: helper, Run: some.run})
}

// The same machine by three sources: what two of them know they tell alike.
func TestSourcesAgree(t *testing.T) {
	files, all := migSources(t)
	nvml, err := ask(t, files, all, helper)
	if err != nil || nvml.Source != "mpiup-nvml" {
		t.Fatal(nvml.Source, err)
	}
	smi, err := ask(t, files, all, "nvidia-smi -q -x", "nvidia-smi -L")
	if err == nil || smi.Source != "nvidia-smi" {
		t.Fatal(smi.Source, err)
	}
	proc, err := ask(t, files, all)
	if err == nil || proc.Source != "/proc/driver/nvidia" {
		t.Fatal(proc.Source, err)
	}
	golden.Is(t, "testdata/mig-nvml.golden", describe(&nvml))
	for _, g := range nvml.GPUs {
		if len(g.Links) != 1 || g.Health == nil || !g.Health.ECC {
			t.Errorf("mpiup-nvml: links %v, health %v", g.Links, g.Health)
		}
	}
	forget := func(inv *Inventory, what func(*GPU)) {
		inv.Source = ""
		for i := range inv.GPUs {
			what(&inv.GPUs[i])
		}
	}
	links := func(g *GPU) { g.Links = nil }
	forget(&nvml, links)
	forget(&smi, links)
	if d := cmp.Diff(nvml, smi); d != "" {
		t.Errorf("mpiup-nvml and nvidia-smi: %s", d)
	}
	rest := func(g *GPU) {
		g.Memory, g.Health, g.Partitioned = 0, nil, false
		for i := range g.MIG {
			g.MIG[i].UUID = ""
		}
	}
	forget(&smi, rest)
	forget(&proc, rest)
	smi.CUDA = ""
	if d := cmp.Diff(smi, proc); d != "" {
		t.Errorf("nvidia-smi and files: %s", d)
	}
}

func TestAFailedSourceIsSaidAndTheNextAsked(t *testing.T) {
	files, all := migSources(t)
	for _, tt := range []struct {
		name    string
		helper  Result
		smi     Result
		source  string
		because []string
	}{
		{"no driver's library", Result{Code: 1, Err: "libnvidia-ml.so.1 is not there"}, all["nvidia-smi -q -x"], "nvidia-smi",
			[]string{"/opt/mpiup-nvml ended with code 1: libnvidia-ml.so.1 is not there"}},
		{"another build's helper", Result{Out: []byte(`{"version":7}`)}, all["nvidia-smi -q -x"], "nvidia-smi",
			[]string{"reports of form 7 and mpiup reads 1"}},
		{"both broken", Result{Out: []byte("{")}, Result{Out: []byte("NVIDIA-SMI has failed")}, "/proc/driver/nvidia",
			[]string{"mpiup-nvml wrote no report", "nvidia-smi -q -x wrote no report"}},
		{"none seen", Result{Out: []byte(`{"version":1}`)}, Result{Code: 9}, "/proc/driver/nvidia",
			[]string{"mpiup-nvml sees no GPU, and there are 2 device files", "nvidia-smi -q -x ended with code 9"}},
		{"an address of nothing", Result{Out: []byte(`{"version":1,"gpus":[{"pci":"x"}]}`)}, Result{Out: []byte(`<nvidia_smi_log><gpu id="y"/></nvidia_smi_log>`)}, "/proc/driver/nvidia",
			[]string{`"x" is not a PCI address`, `"y" is not a PCI address`}},
	} {
		inv, err := ask(t, files, programs{helper: tt.helper, "nvidia-smi -q -x": tt.smi}, helper, "nvidia-smi -q -x")
		if inv.Source != tt.source || len(inv.GPUs) != 2 {
			t.Errorf("%s: %d GPUs of %s", tt.name, len(inv.GPUs), inv.Source)
		}
		for _, want := range tt.because {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", tt.name, err, want)
			}
		}
	}
}

func TestAHangingProgramIsGivenUp(t *testing.T) {
	files, _ := migSources(t)
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		inv, err := Ask(t.Context(), Config{FS: sysfs.New(files), Env: noEnv, Helper: helper,
			Run: func(ctx context.Context, _ []string) (Result, error) {
				<-ctx.Done()
				return Result{}, ctx.Err()
			}})
		if took := time.Since(began); took != 40*time.Second || inv.Source != "/proc/driver/nvidia" || !strings.Contains(fmt.Sprint(err), "did not answer in 20s") {
			t.Errorf("%v, %s, %v", took, inv.Source, err)
		}
	})
}

func TestNoProgramIsAskedWithoutNVIDIA(t *testing.T) {
	for name, files := range map[string]fstest.MapFS{"nothing": {}, "amd": load(t, "xgmi"), "intel": load(t, "intel")} {
		inv, err := Ask(t.Context(), Config{FS: sysfs.New(files), Env: noEnv, Helper: helper,
			Run: func(_ context.Context, argv []string) (Result, error) {
				t.Errorf("%s: %q was started", name, argv)
				return Result{}, nil
			}})
		if err != nil || inv.Source == "mpiup-nvml" {
			t.Errorf("%s: %s, %v", name, inv.Source, err)
		}
	}
}

// NVSwitches join all GPUs of a host, as often as the one of a pair with fewer links to them.
func TestLinks(t *testing.T) {
	const report = `{"version":1,"gpus":[
{"pci":"0000:01:00.0","uuid":"GPU-1","switch_links":18},
{"pci":"0000:02:00.0","uuid":"GPU-2","switch_links":17},
{"pci":"0000:03:00.0","uuid":"GPU-3","peers":[{"pci":"0000:04:00.0","links":4},{"pci":"junk","links":1},{"pci":"0000:01:00.0","links":-1}]},
{"pci":"0000:04:00.0","uuid":"GPU-4","peers":[{"pci":"00000000:03:00.0","links":4}]}]}`
	inv, err := parseReport([]byte(report))
	if err != nil {
		t.Fatal(err)
	}
	want := [][]string{{"X", "NV17", "?", "?"}, {"NV17", "X", "?", "?"}, {"?", "?", "X", "NV4"}, {"?", "?", "NV4", "X"}}
	if d := cmp.Diff(want, matrix(&inv)); d != "" {
		t.Error(d)
	}
}

func FuzzParseReport(f *testing.F) {
	files, _ := migSources(f)
	f.Add(files["report"].Data)
	f.Add([]byte(`{"version":1,"gpus":[{"pci":"0000:00:00.0","minor":-5,"mig":[{}],"peers":[{"pci":"0000:00:00.0","links":64}]}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		defer cost.Watch(t, cost.Parser, len(text))()
		if inv, err := parseReport(text); err == nil {
			exercise(t, &inv)
		}
	})
}

func FuzzParseSMI(f *testing.F) {
	files, _ := migSources(f)
	f.Add(files["nvidia-smi-q-x"].Data, files["nvidia-smi-L"].Data)
	f.Add([]byte(`<nvidia_smi_log><gpu id="00000000:01:00.0"><minor_number>N/A</minor_number></gpu></nvidia_smi_log>`), []byte("GPU 0: x (UUID: GPU-)\n  MIG (UUID: MIG-1)"))
	f.Fuzz(func(t *testing.T, text, list []byte) {
		defer cost.Watch(t, cost.Parser, len(text)+len(list))()
		if inv, err := parseSMI(text, list); err == nil {
			exercise(t, &inv)
		}
	})
}

// Files of the kernel's that are nonsense are none, or give GPUs that can be shown and handed out.
func FuzzRead(f *testing.F) {
	f.Add("simd_count 1216\nlocation_id 3072\ndrm_render_minor 128\nunique_id 1", "type 11\nnode_to 3", "Device Minor: 0\nGPU UUID: GPU-1", "DeviceFileMinor: 3", "0-7")
	f.Add("simd_count -1\ndomain 99999999999", "type 11\nnode_to 18446744073709551615", "Device Minor: 99999999999", "DeviceFileMinor:", "7-0")
	amd, nvidia := load(f, "xgmi"), load(f, "mig")
	with := func(files fstest.MapFS, texts map[string]string) fstest.MapFS {
		files = maps.Clone(files)
		for name, text := range texts {
			files[name] = &fstest.MapFile{Data: []byte(text)}
		}
		return files
	}
	f.Fuzz(func(t *testing.T, node, link, information, access, cpus string) {
		defer cost.Watch(t, cost.Parser, len(node)+len(link)+len(information)+len(access)+len(cpus))()
		const kfd = "sys/class/kfd/kfd/topology/nodes/2"
		for _, files := range []fstest.MapFS{
			with(amd, map[string]string{kfd + "/properties": node, kfd + "/mem_banks/0/properties": node, kfd + "/io_links/1/properties": link}),
			with(nvidia, map[string]string{
				"proc/driver/nvidia/gpus/0000:47:00.0/information":               information,
				"proc/driver/nvidia/capabilities/gpu2/mig/gi1/access":            access,
				"sys/devices/pci0000:00/0000:00:01.1/0000:07:00.0/local_cpulist": cpus,
			}),
		} {
			inv := Read(sysfs.New(files), noEnv)
			exercise(t, &inv)
		}
	})
}

// exercise uses an inventory in all ways; what ranks are given can be a variable.
func exercise(t *testing.T, inv *Inventory) {
	t.Helper()
	units := inv.Units()
	if describe(inv); len(inv.GPUs) > maxGPUs {
		t.Errorf("%d GPUs", len(inv.GPUs))
	}
	for i := range units {
		vars, err := Variables(inv.Vendor, units, []int{i})
		if err == nil && (len(vars) == 0 || strings.ContainsAny(strings.Join(vars, ""), "\x00\n ,")) {
			t.Errorf("unit %d: %q", i, vars)
		}
	}
}
