package gpu

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mpiup/mpiup/test/cost"
)

// Tables as reports of users have them; the numbers of NICs and NUMA nodes are shortened.
const (
	hgx = "\t\x1b[4mGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n" +
		"GPU0\t X \tNV18\tPIX\t0-47,96-143\t0\t\tN/A\n" +
		"GPU1\tNV18\t X \tSYS\t48-95,144-191\t1\t\tN/A\n" +
		"NIC0\tPIX\tSYS\t X \t\t\t\t\n\nLegend:\n\n  X    = Self\n  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)\n" +
		"  NV#  = Connection traversing a bonded set of # NVLinks\n\nNIC Legend:\n\n  NIC0: mlx5_0\n\n"
	bridged = `        GPU0    GPU1    GPU2    CPU Affinity    NUMA Affinity
GPU0     X      NV4     NODE    0-31,64-95      0
GPU1    NV4      X      NODE    0-31,64-95      0
GPU2    NODE    NODE     X      0-31,64-95      0
`
	older = `        GPU0    GPU1    mlx4_0  CPU Affinity
GPU0     X      PIX     PHB     0-9,20-29
GPU1    PIX      X      PHB     0-9,20-29
`
)

func TestParseTopo(t *testing.T) {
	many := "GPU" + strings.Join(slices.Repeat([]string{"0"}, 400), " GPU")
	for _, tt := range []struct {
		name, text string
		want       [][]int
	}{
		{"switches", hgx, [][]int{{0, 18}, {18, 0}}},
		{"a bridge between two of three", bridged, [][]int{{0, 4, 0}, {4, 0, 0}, {0, 0, 0}}},
		{"an older one without NVLink", older, [][]int{{0, 0}, {0, 0}}},
		{"no table", "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n", nil},
		{"nothing", "", nil},
		{"a row is missing", "GPU0 GPU1\nGPU0 X NV2\n", nil},
		{"a row is short", "GPU0 GPU1\nGPU0 X NV2\nGPU1 NV2\n", nil},
		{"rows in another order", "GPU0 GPU1\nGPU1 NV2 X\nGPU0 X NV2\n", nil},
		{"columns in another order", "GPU1 GPU0\nGPU1 X NV2\nGPU0 NV2 X\n", nil},
		{"there and back differ", "GPU0 GPU1\nGPU0 X NV2\nGPU1 NV4 X\n", nil},
		{"a link to itself", "GPU0\nGPU0 NV2\n", nil},
		{"more links than there can be", "GPU0 GPU1\nGPU0 X NV999999\nGPU1 NV999999 X\n", [][]int{{0, 0}, {0, 0}}},
		{"a negative number", "GPU0 GPU1\nGPU0 X NV-2\nGPU1 NV-2 X\n", [][]int{{0, 0}, {0, 0}}},
		{"a number that leaves one out", "GPU0 GPU2\nGPU0 X NV2\nGPU2 NV2 X\n", nil},
		{"too many columns", many, nil},
	} {
		if d := cmp.Diff(tt.want, parseTopo([]byte(tt.text))); d != "" {
			t.Errorf("%s: %s", tt.name, d)
		}
	}
}

// Without mpiup-nvml the links are the table's, and what one of them says of other GPUs is left out.
func TestLinksOfNvidiaSMI(t *testing.T) {
	files, all := migSources(t)
	const q, l, m = "nvidia-smi -q -x", "nvidia-smi -L", "nvidia-smi topo -m"
	all[m] = Result{Out: []byte(strings.ReplaceAll(hgx, "NV18", "NV12"))}
	nvml, err := ask(t, files, all, helper)
	if err != nil {
		t.Fatal(err)
	}
	smi, _ := ask(t, files, all, q, l, m)
	for i := range nvml.GPUs {
		if d := cmp.Diff(nvml.GPUs[i].Links, smi.GPUs[i].Links); d != "" || len(smi.GPUs[i].Links) != 1 {
			t.Errorf("GPU %d: mpiup-nvml and nvidia-smi: %s", i, d)
		}
	}
	if got := smi.GPUs[0].Between(&smi.GPUs[1]); got != "NV12" {
		t.Errorf("between GPU 0 and 1 are %s", got)
	}
	all[m] = Result{Out: []byte(bridged)} // of three GPUs, and there are two
	if smi, _ = ask(t, files, all, q, l, m); smi.Source != "nvidia-smi" || smi.GPUs[0].Links != nil {
		t.Errorf("%+v", smi)
	}
	all[m] = Result{Code: 255}
	if smi, _ = ask(t, files, all, q, l, m); smi.Source != "nvidia-smi" || smi.GPUs[0].Links != nil {
		t.Errorf("without a table: %+v", smi)
	}
}

func FuzzTopo(f *testing.F) {
	for _, text := range []string{hgx, bridged, older, ""} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		defer cost.Watch(t, cost.Parser, len(text))()
		table := parseTopo([]byte(text))
		if len(table) > maxGPUs {
			t.Errorf("%d rows", len(table))
		}
		for i, row := range table {
			for j, n := range row {
				if len(row) != len(table) || n < 0 || n > maxLinks || n != table[j][i] || i == j && n != 0 {
					t.Fatalf("%v", table)
				}
			}
		}
	})
}
