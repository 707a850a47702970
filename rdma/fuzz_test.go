package rdma

import (
	"os"
	"slices"
	"testing"
	"testing/fstest"

	"github.com/mpiup/mpiup/test/cost"
	"github.com/mpiup/mpiup/test/machine"
	"github.com/mpiup/mpiup/topology/sysfs"
)

// Any file may be missing or hold anything: nothing panics, and no name of it becomes part of a variable that
// means more than one device.
func FuzzRead(f *testing.F) {
	b, err := os.ReadFile("testdata/roce.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for i, text := range []string{"", "4: ACTIVE", "99999999999999999999", "fe80::1%eth0", "0-4294967295", "../../..", "mlx5_1:1,\x00", "NaN Gb/sec"} {
		f.Add(uint16(i*3), []byte(text), i%2 == 0)
	}
	f.Fuzz(func(t *testing.T, which uint16, content []byte, missing bool) {
		defer cost.Watch(t, cost.Parser, len(content))()
		files := machine.Parse(t, string(b))
		var names []string
		for name, file := range files {
			if file.Mode.IsRegular() {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		name := names[int(which)%len(names)]
		if missing {
			delete(files, name)
		} else {
			files[name] = &fstest.MapFile{Data: content}
		}
		inv := Read(sysfs.New(files), Config{})
		for _, h := range inv.HCAs {
			if !plain(h.Name) {
				t.Errorf("an HCA named %q", h.Name)
			}
		}
		inv.Variables(Auto, Rank{GPUs: true})
		inv.Missing(Locked{})
	})
}
