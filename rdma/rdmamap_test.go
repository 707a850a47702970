package rdma

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/Mellanox/rdmamap"

	"github.com/mpiup/mpiup/test/machine"
)

// Devices and their device files are those that rdmamap finds in the same files.
func TestAsRdmamap(t *testing.T) {
	for _, name := range []string{"roce", "ib8", "one"} {
		b, err := os.ReadFile("testdata/" + name + ".txtar")
		if err != nil {
			t.Fatal(err)
		}
		root := machine.Unpack(t, machine.Parse(t, string(b)))
		rdmamap.RdmaClassDir = filepath.Join(root, class)
		rdmamap.RdmaUverbsDir = filepath.Join(root, verbs)
		theirs := rdmamap.GetRdmaDeviceList()
		slices.SortFunc(theirs, byNumber)
		var ours []string
		for _, h := range Read(fixture(t, name), Config{}).HCAs {
			ours = append(ours, h.Name)
			var file []string
			if h.Verbs != "" {
				file = []string{"/dev/infiniband/" + h.Verbs}
			}
			if got := rdmamap.GetRdmaCharDevices(h.Name); !slices.Equal(got, file) {
				t.Errorf("%s: %s has %v for rdmamap, %v here", name, h.Name, got, file)
			}
		}
		if name != "one" && !slices.Equal(theirs, ours) { // which leaves out entries that are no links
			t.Errorf("%s: rdmamap finds %v, we %v", name, theirs, ours)
		}
	}
}
