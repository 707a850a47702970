package outfit

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/gpu"
	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/rdma"
	"github.com/mpiup/mpiup/test/golden"
	"github.com/mpiup/mpiup/test/machine"
	"github.com/mpiup/mpiup/topology/sysfs"
)

// Machines of eight GPUs and eight HCAs: what is near what, and what eight ranks are told, without a wish and
// with --gpus-per-rank 1.
func TestEightRanksOfBigMachines(t *testing.T) {
	for _, name := range []string{"h100", "mi300x", "h100-part"} {
		t.Run(name, func(t *testing.T) {
			tree := machine.Load(t, strings.TrimSuffix(name, "-part"))
			if strings.HasSuffix(name, "-part") { // a device plugin keeps two HCAs for others
				delete(tree, "dev/infiniband/uverbs0")
				delete(tree, "dev/infiniband/uverbs7")
			}
			files := sysfs.New(tree)
			gpus := gpu.Read(files, func(string) (string, bool) { return "", false })
			hcas := rdma.Read(files, rdma.Config{})
			got := distances(&gpus, &hcas) + told(t, &gpus, &hcas)
			golden.Is(t, "testdata/"+name+".golden", got)
		})
	}
}

// distances is a table as nvidia-smi topo -m has it.
func distances(gpus *gpu.Inventory, hcas *rdma.Inventory) string {
	var b strings.Builder
	usable := hcas.Usable()
	for i := range gpus.GPUs {
		fmt.Fprintf(&b, "GPU%d", i)
		for j := range gpus.GPUs {
			fmt.Fprintf(&b, " %4s", gpus.GPUs[i].Between(&gpus.GPUs[j]))
		}
		b.WriteString("  |")
		for _, h := range usable {
			fmt.Fprintf(&b, " %4s", gpus.GPUs[i].Path.To(h.Path))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// told is the variables of eight ranks, and the CPUs near the GPU of each.
func told(t *testing.T, gpus *gpu.Inventory, hcas *rdma.Inventory) string {
	t.Helper()
	var b strings.Builder
	units := gpus.Units()
	chosen, err := gpu.Assign(gpu.Wish{PerRank: 1}, units, make([]idset.Set, 8))
	if err != nil {
		t.Fatal(err)
	}
	for rank := range 8 {
		u, _ := gpu.UnitOf(units, rank)
		fmt.Fprintf(&b, "rank %d near CPUs %s\n", rank, u.GPU.Near)
		for _, v := range hcas.Variables(rdma.Auto, rdma.Rank{Number: rank, GPUs: true, GPU: u.GPU.Path}) {
			fmt.Fprintf(&b, "  %s=%s  (%s)\n", v.Name, v.Value, v.Why)
		}
		vars, err := gpu.Variables(gpus.Vendor, units, chosen[rank])
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "  with --gpus-per-rank 1: %s\n", strings.Join(vars, " "))
	}
	return b.String()
}
