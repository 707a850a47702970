package rdma

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/Mellanox/rdmamap"

	"github.com/mpiup/mpiup/test/machine"
	"github.com/mpiup/mpiup/test/need"
	"github.com/mpiup/mpiup/topology/sysfs"
)

// compare fails where rdmamap finds other devices, device files or ports than we do.
func compare(t *testing.T, inv Inventory) {
	t.Helper()
	theirs := rdmamap.GetRdmaDeviceList()
	slices.SortFunc(theirs, byNumber)
	var ours []string
	for _, h := range inv.HCAs {
		ours = append(ours, h.Name)
		var file, ports []string
		if h.Verbs != "" {
			file = []string{"/dev/infiniband/" + h.Verbs}
		}
		got := slices.DeleteFunc(rdmamap.GetRdmaCharDevices(h.Name), func(n string) bool { return n == "/dev/infiniband/rdma_cm" }) // all devices'
		if !slices.Equal(got, file) {
			t.Errorf("%s has %v for rdmamap, %v here", h.Name, got, file)
		}
		for _, p := range h.Ports {
			ports = append(ports, fmt.Sprint(p.Number))
		}
		slices.Sort(ports)
		if got := slices.Sorted(slices.Values(rdmamap.GetPorts(h.Name))); !slices.Equal(got, ports) {
			t.Errorf("%s has the ports %v for rdmamap, %v here", h.Name, got, ports)
		}
	}
	if !slices.Equal(theirs, ours) {
		t.Errorf("rdmamap finds %v, we %v", theirs, ours)
	}
}

// What rdmamap finds in the same files.
func TestAsRdmamap(t *testing.T) {
	for _, name := range []string{"roce", "ib8"} {
		t.Run(name, func(t *testing.T) {
			b, err := os.ReadFile("testdata/" + name + ".txtar")
			if err != nil {
				t.Fatal(err)
			}
			root := machine.Unpack(t, machine.Parse(t, string(b)))
			rdmamap.RdmaClassDir = filepath.Join(root, class)
			rdmamap.RdmaUverbsDir = filepath.Join(root, verbs)
			compare(t, Read(fixture(t, name), Config{}))
		})
	}
}

// mounted is set in the process that runs where a tree is mounted.
const mounted = "MPIUP_TEST_MOUNTED"

// The same with the kernel's own names: a mount namespace whose /sys/class, with what its links lead to, is a
// machine of eight HCAs, in which this test runs once more.
func TestAsRdmamapMounted(t *testing.T) {
	if os.Getenv(mounted) != "" {
		inv := Read(sysfs.Host(), Config{})
		if len(inv.HCAs) != 8 || inv.HCAs[0].Path.Host == "" {
			t.Errorf("%+v", inv)
		}
		rdmamap.RdmaClassDir, rdmamap.RdmaUverbsDir = "/"+strings.TrimSuffix(class, "/"), "/"+strings.TrimSuffix(verbs, "/")
		compare(t, inv)
		return
	}
	need.Root(t)
	need.Program(t, "unshare", "util-linux")
	root := machine.Unpack(t, machine.Load(t, "h100"))
	const script = `mount --bind "$1/sys/class" /sys/class && mount --bind "$1/sys/devices" /sys/devices && exec "$2" -test.run='^TestAsRdmamapMounted$' -test.v`
	cmd := exec.CommandContext(t.Context(), "unshare", "--mount", "sh", "-c", script, "sh", root, os.Args[0])
	cmd.Env = append(os.Environ(), mounted+"=yes")
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestAsRdmamapMounted") {
		t.Errorf("%v\n%s", err, out)
	}
}
