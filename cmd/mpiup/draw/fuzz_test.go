package draw_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/mpiup/mpiup/cmd/mpiup/draw"
	"github.com/mpiup/mpiup/gpu"
	"github.com/mpiup/mpiup/rdma"
	"github.com/mpiup/mpiup/test/cost"
	"github.com/mpiup/mpiup/test/machine"
	"github.com/mpiup/mpiup/topology/discover"
	"github.com/mpiup/mpiup/topology/sysfs"
)

// FuzzView: whatever a tree holds is drawn, and no more may be used than there is.
func FuzzView(f *testing.F) {
	for _, name := range machine.Names(f) {
		if text := machine.Text(f, name); len(text) < 32<<10 {
			f.Add([]byte(text))
		}
	}
	f.Add([]byte("-- sys/devices/system/cpu/online --\n0-255\n-- dev/null --\n-- sys/class/infiniband/a -> b --\n-- sys/class/kfd/kfd/topology/nodes/{0-9}/properties --\nsimd_count 1\nlocation_id 4294967295\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		defer cost.Watch(t, cost.Parser, len(text))()
		files, err := discover.Parse(text)
		if err != nil || len(files) > 1<<12 {
			return
		}
		v := &draw.View{Name: "x"}
		fsys := files.FS()
		from := sysfs.New(fsys).Noting(func(err error) { v.Notes = append(v.Notes, err.Error()) })
		if v.Machine, err = discover.Machine(from, 4096); err != nil {
			return
		}
		v.Limits, _ = discover.FindCgroups(sysfs.New(fsys)).Limit(v.Machine)
		v.GPUs, v.Driver, v.HCAs = gpu.Survey(from, noEnv, v.Machine), gpu.Read(from, noEnv), rdma.Read(from, rdma.Config{Survey: true})
		if v.Limits.CPUs.Empty() || !v.Machine.Root.CPUs.Covers(v.Limits.CPUs) || !v.Machine.Root.Nodes.Covers(v.Limits.Memory) || v.Limits.Quota < 0 {
			t.Fatalf("%+v of CPUs %s, nodes %s", v.Limits, v.Machine.Root.CPUs, v.Machine.Root.Nodes)
		}
		var b bytes.Buffer
		if err := draw.JSON(&b, v); err != nil || !json.Valid(b.Bytes()) {
			t.Fatalf("%v: %s", err, b.Bytes())
		}
		if err := draw.Text(&b, v); err != nil {
			t.Fatal(err)
		}
	})
}
