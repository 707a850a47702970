package discover_test

import (
	"io/fs"
	"syscall"
	"testing"
	"time"

	"github.com/mpiup/mpiup/gpu"
	"github.com/mpiup/mpiup/rdma"
	"github.com/mpiup/mpiup/test/machine"
	"github.com/mpiup/mpiup/topology/discover"
	"github.com/mpiup/mpiup/topology/sysfs"
)

// inventory is what the agent and mpiup topo take once.
func inventory(t testing.TB, fsys fs.FS) discover.Summary {
	m, err := discover.Machine(sysfs.New(fsys), 4096)
	if err != nil {
		t.Fatal(err)
	}
	limits, err := discover.FindCgroups(sysfs.New(fsys)).Limit(m)
	if err != nil {
		t.Fatal(err)
	}
	gpus := gpu.Survey(sysfs.New(fsys), func(string) (string, bool) { return "", false }, m)
	hcas := rdma.Read(sysfs.New(fsys), rdma.Config{Survey: true})
	return limits.Summary(m, len(gpus), len(hcas.Usable()))
}

func TestInventory(t *testing.T) {
	want := discover.Summary{Packages: 2, NUMANodes: 2, Cores: 64, CPUs: 128, GPUs: 8, HCAs: 8}
	if got := inventory(t, machine.Eight(t).FS()); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// BenchmarkInventory takes the inventory of a machine of 8 GPUs, 8 HCAs and 128 CPUs from real files.
// cpu-ms is the processor time of one, which other programs do not change.
func BenchmarkInventory(b *testing.B) {
	dir, err := sysfs.OpenDir(machine.Unpack(b, machine.MapFS(machine.Eight(b))))
	if err != nil {
		b.Fatal(err)
	}
	defer dir.Close()
	before := processorTime(b)
	for b.Loop() {
		inventory(b, dir)
	}
	b.ReportMetric(float64((processorTime(b)-before).Microseconds())/1e3/float64(b.N), "cpu-ms/op")
}

func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
