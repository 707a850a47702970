package draw_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/cmd/mpiup/draw"
	"github.com/mpiup/mpiup/gpu"
	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/rdma"
	"github.com/mpiup/mpiup/test/golden"
	"github.com/mpiup/mpiup/test/machine"
	"github.com/mpiup/mpiup/topology"
	"github.com/mpiup/mpiup/topology/discover"
	"github.com/mpiup/mpiup/topology/sysfs"
)

func noEnv(string) (string, bool) { return "", false }

// view looks at a machine as mpiup topo does.
func view(t testing.TB, name string, files fs.FS) *draw.View {
	t.Helper()
	v := &draw.View{Name: name}
	f := sysfs.New(files).Noting(func(err error) { v.Notes = append(v.Notes, err.Error()) })
	var err error
	if v.Machine, err = discover.Machine(f, 4096); err != nil {
		t.Fatal(err)
	}
	if v.Limits, err = discover.FindCgroups(sysfs.New(files)).Limit(v.Machine); err != nil {
		t.Fatal(err)
	}
	v.GPUs, v.Driver, v.HCAs = gpu.Survey(f, noEnv, v.Machine), gpu.Read(f, noEnv), rdma.Read(f, rdma.Config{Survey: true})
	return v
}

func drawn(t *testing.T, file string, write func(io.Writer) error) {
	t.Helper()
	var got bytes.Buffer
	if err := write(&got); err != nil {
		t.Fatal(err)
	}
	golden.Is(t, filepath.Join("testdata", file), got.String())
}

func TestText(t *testing.T) {
	for _, name := range machine.Names(t) {
		t.Run(name, func(t *testing.T) {
			v := view(t, name, machine.FS(t, name))
			drawn(t, name+".txt", func(w io.Writer) error { return draw.Text(w, v) })
		})
	}
}

func TestJSON(t *testing.T) {
	v := view(t, "devices", machine.FS(t, "devices"))
	drawn(t, "devices.json", func(w io.Writer) error { return draw.JSON(w, v) })
	for _, name := range machine.Names(t) {
		v := view(t, name, machine.FS(t, name))
		var b bytes.Buffer
		if err := draw.JSON(&b, v); err != nil {
			t.Fatal(err)
		}
		var got struct{ Summary discover.Summary }
		if err := json.Unmarshal(b.Bytes(), &got); err != nil || got.Summary != draw.Summary(v) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if !strings.HasPrefix(b.String(), "{\n  \"summary\": {") {
			t.Errorf("%s does not begin with the summary: %.40q", name, b.String())
		}
	}
}

// Of packages that are one line, the NUMA nodes keep their numbers.
func TestNodesOfMergedPackages(t *testing.T) {
	const packages = 12
	text := fmt.Sprintf("-- sys/devices/system/cpu/online --\n0-%d\n-- sys/devices/system/node/online --\n0-%d\n", 4*packages-1, packages-1)
	for p := range packages {
		for cpu := 4 * p; cpu < 4*p+4; cpu++ {
			dir := fmt.Sprintf("-- sys/devices/system/cpu/cpu%d/topology/", cpu)
			text += fmt.Sprintf("%sphysical_package_id --\n%d\n%spackage_cpus --\n%s\n%score_id --\n%d\n%score_cpus --\n%s\n",
				dir, p, dir, mask(4*p, 4), dir, cpu, dir, mask(cpu, 1))
		}
		text += fmt.Sprintf("-- sys/devices/system/node/node%d/cpumap --\n%s\n-- sys/devices/system/node/node%d/meminfo --\nNode %d MemTotal: 1048576 kB\n", p, mask(4*p, 4), p, p)
	}
	var b strings.Builder
	if err := draw.Text(&b, view(t, "many", machine.Parse(t, text))); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\n12 × Package 0-11: CPUs 0-3 | 4-7 | 8-11 | … | 44-47\n", "├─ NUMA node 0 | 1 | 2 | … | 11: 1 GiB\n", "└─ 4 × core\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not in\n%s", want, b.String())
		}
	}
}

// mask is n CPUs from the first on, as the kernel writes them.
func mask(first, n int) string {
	words := []uint32{0, 0}
	for cpu := first; cpu < first+n; cpu++ {
		words[1-cpu/32] |= 1 << (cpu % 32)
	}
	return fmt.Sprintf("%08x,%08x", words[0], words[1])
}

// What a machine calls itself may hold anything.
func TestHostileNames(t *testing.T) {
	const nasty = "<a&b>\x1b[31m\x00\"'\u202e\n\xff"
	at := topology.PCIAddr{Bus: 1}
	m, err := topology.New(topology.Parts{
		Present: idset.Of(0), Online: idset.Of(0),
		Packages: []topology.Part{{CPUs: idset.Of(0), Infos: []topology.Info{{Name: "CPUModel", Value: nasty}}}},
		PCI:      []topology.PCIPart{{PCIDevice: topology.PCIDevice{Addr: at}}},
		Devices:  []topology.DevicePart{{Kind: topology.OSDevNetwork, Name: nasty, At: &at}},
		Hardware: []topology.Info{{Name: "DMIProductName", Value: nasty}},
	})
	if err != nil {
		t.Fatal(err)
	}
	v := &draw.View{Name: "x", Machine: m, Limits: discover.Limits{CPUs: m.AllowedCPUs, Memory: m.AllowedNodes},
		GPUs: []gpu.Seen{{GPU: gpu.GPU{Model: nasty, At: at, UUID: nasty}, Missing: nasty}},
		HCAs: rdma.Inventory{HCAs: []rdma.HCA{{Name: nasty, Ports: []rdma.Port{{Number: 1, State: nasty, Layer: nasty, Speed: nasty}}}}}, Notes: []string{nasty}}
	for _, write := range []func(io.Writer, *draw.View) error{draw.Text, draw.JSON} {
		var text bytes.Buffer
		if err := write(&text, v); err != nil || strings.ContainsAny(text.String(), "\x1b\x00\u202e") {
			t.Errorf("%v: %q", err, text.String())
		}
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

func TestAFullDiskIsTold(t *testing.T) {
	v := view(t, "container", machine.FS(t, "container"))
	for _, write := range []func(io.Writer, *draw.View) error{draw.Text, draw.JSON} {
		if err := write(full{}, v); err != io.ErrShortWrite {
			t.Error(err)
		}
	}
}
