package rdma

import (
	"strings"
	"testing"

	"github.com/mpiup/mpiup/test/machine"
	"github.com/mpiup/mpiup/topology/discover"
	"github.com/mpiup/mpiup/topology/sysfs"
)

// InfiniBand functions that offer no RDMA device are told of, each with its reason; Ethernet cards are not.
func TestIdleFunctions(t *testing.T) {
	function := func(at, class, driver string) string {
		dir := "sys/devices/pci0000:00/" + at
		text := "-- sys/bus/pci/devices/" + at + " -> ../../../devices/pci0000:00/" + at + " --\n-- " + dir + "/class --\n" + class + "\n-- " +
			dir + "/vendor --\n0x15b3\n-- " + dir + "/device --\n0x101b\n-- " + dir + "/revision --\n0x00\n-- " + dir + "/numa_node --\n0\n"
		if driver != "" {
			text += "-- " + dir + "/driver -> ../../../bus/pci/drivers/" + driver + " --\n"
		}
		return text
	}
	const hca = "-- sys/class/infiniband/mlx5_0 -> ../../devices/pci0000:00/0000:00:05.0/infiniband/mlx5_0 --\n" +
		"-- sys/devices/pci0000:00/0000:00:05.0/infiniband/mlx5_0/device -> ../../../0000:00:05.0 --\n" +
		"-- sys/devices/pci0000:00/0000:00:05.0/infiniband/mlx5_0/node_guid --\n0\n"
	files := sysfs.New(machine.Parse(t, "-- sys/devices/system/cpu/online --\n0-1\n"+
		function("0000:00:01.0", "0x020700", "")+function("0000:00:02.0", "0x020700", "mlx5_core")+function("0000:00:03.0", "0x020700", "vfio-pci")+
		function("0000:00:04.0", "0x020000", "")+function("0000:00:05.0", "0x020700", "mlx5_core")+hca))
	m, err := discover.Machine(files, 4096)
	if err != nil {
		t.Fatal(err)
	}
	inv := Read(files, Config{Survey: true})
	inv.AddIdle(files, m)
	var got []string
	for _, h := range inv.HCAs {
		got = append(got, h.Name+": no "+h.Missing)
	}
	want := "mlx5_0: no ; InfiniBand 0000:00:01.0: no driver on the node; InfiniBand 0000:00:02.0: no RDMA device of mlx5_core; " +
		"InfiniBand 0000:00:03.0: no driver for RDMA on the node"
	if s := strings.Join(got, "; "); s != want {
		t.Errorf("got  %s\nwant %s", s, want)
	}
	inv.HCAs = inv.HCAs[1:]
	if len(inv.Usable()) != 0 || !inv.Wanted() || inv.Variables(Auto, Rank{GPUs: true}) != nil {
		t.Errorf("usable %v, wanted %v, variables %v", inv.Usable(), inv.Wanted(), inv.Variables(Auto, Rank{GPUs: true}))
	}
	all := strings.Join(inv.Missing(Locked{}), "\n")
	for _, want := range []string{"RDMA device InfiniBand 0000:00:01.0 of this machine cannot be used: the node has no driver for it",
		"driver mlx5_core shows no RDMA device here: request one", "to virtual machines or user programs (driver vfio-pci)"} {
		if !strings.Contains(all, want) {
			t.Errorf("%q is not in\n%s", want, all)
		}
	}
}
