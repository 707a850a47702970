package rdma

import (
	"strings"
	"testing"

	"github.com/mpiup/mpiup/test/machine"
	"github.com/mpiup/mpiup/topology/sysfs"
)

func TestWishes(t *testing.T) {
	for text, want := range map[string]Fabric{"": "", "auto": Auto, "rdma": RDMA, "tcp": TCP, "ib": "error", "RDMA": "error"} {
		got, err := ParseFabric(text)
		if err == nil && got != want || (err != nil) != (want == "error") || err != nil && !strings.Contains(err.Error(), "auto, rdma or tcp") {
			t.Errorf("--fabric %q: %q, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		"": "", "p2p=off": "NCCL_P2P_DISABLE=1", "p2p=off,ib=off": "NCCL_P2P_DISABLE=1 NCCL_IB_DISABLE=1", "shm=on": "NCCL_SHM_DISABLE=0",
		"p2p": "error", "p2p=": "error", "p2p=no": "error", "nvls=off": "error", ",": "error", "p2p=off,": "error",
	} {
		list, err := ParseNCCL(text)
		var got []string
		for _, v := range list.Variables() {
			got = append(got, v.Name+"="+v.Value)
		}
		switch {
		case err == nil && list.String() != text:
			t.Errorf("--nccl %q becomes %q", text, list)
		case want == "error" && (err == nil || !strings.Contains(err.Error(), "p2p=off")):
			t.Errorf("--nccl %q: %v, %v", text, got, err)
		case want != "error" && (err != nil || strings.Join(got, " ") != want):
			t.Errorf("--nccl %q: %v, %v; want %s", text, got, err, want)
		}
	}
}

func TestHasFabric(t *testing.T) {
	for files, want := range map[string]bool{
		"dev/null": false, "dev/infiniband/uverbs0": true, "dev/infiniband/rdma_cm": false, "dev/hfi1_0": true, "dev/ipath0": true,
		"dev/ipath": true, "dev/cxi0": true, "dev/cximfoo": false,
	} {
		if got := HasFabric(sysfs.New(machine.Parse(t, "-- "+files+" --\n"))); got != want {
			t.Errorf("%s: %t", files, got)
		}
	}
}

// Debian's own file excludes UCX, and what it excludes stays excluded.
func TestOpenMPIHints(t *testing.T) {
	debian := map[string]Param{"OMPI_MCA_pml": {"f", "^ucx"}, "OMPI_MCA_mtl": {"f", "^ofi"}, "OMPI_MCA_btl": {"f", "^uct,openib,ofi"}}
	for _, tt := range []struct {
		name   string
		set    string // variables of the user
		params map[string]Param
		want   string
	}{
		{"nothing said", "", nil, "OMPI_MCA_pml=ob1 OMPI_MCA_btl=^ofi"},
		{"Debian", "", debian, "OMPI_MCA_pml=ob1 OMPI_MCA_btl=^uct,openib,ofi"},
		{"pml of the user", "OMPI_MCA_pml", nil, "OMPI_MCA_btl=^ofi"},
		{"mtl of the user", "OMPI_MCA_mtl", debian, "OMPI_MCA_btl=^uct,openib,ofi"},
		{"a file excludes another btl", "", map[string]Param{"OMPI_MCA_btl": {"f", "^openib"}}, "OMPI_MCA_pml=ob1 OMPI_MCA_btl=^openib,ofi"},
		{"a file wants btls", "", map[string]Param{"OMPI_MCA_btl": {"f", "self,tcp"}}, "OMPI_MCA_pml=ob1"},
		{"btl of the user", "OMPI_MCA_btl", nil, "OMPI_MCA_pml=ob1"},
		{"UCX over any device", "OMPI_MCA_opal_common_ucx_devices", nil, "OMPI_MCA_btl=^ofi"},
		{"a file wants ucx", "", map[string]Param{"OMPI_MCA_pml": {"f", "ucx"}}, "OMPI_MCA_btl=^ofi"},
		{"a file excludes ob1", "", map[string]Param{"OMPI_MCA_pml": {"f", "^ob1"}}, "OMPI_MCA_btl=^ofi"},
		{"a file wants an mtl", "", map[string]Param{"OMPI_MCA_mtl": {"f", "psm2"}}, "OMPI_MCA_btl=^ofi"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, v := range OpenMPIHints(func(name string) bool { return name == tt.set }, tt.params) {
				got = append(got, v.Name+"="+v.Value)
			}
			if g := strings.Join(got, " "); g != tt.want {
				t.Errorf("got %q, want %q", g, tt.want)
			}
		})
	}
}
