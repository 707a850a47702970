package machine_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/gpu"
	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/layout"
	"github.com/mpiup/mpiup/launcher/placement"
	"github.com/mpiup/mpiup/test/golden"
	"github.com/mpiup/mpiup/test/machine"
	"github.com/mpiup/mpiup/topology/discover"
	"github.com/mpiup/mpiup/topology/sysfs"
)

// What --display-map and --report-bindings show of eight ranks on a machine of eight GPUs and eight HCAs, by
// default and with the usual wishes. The environment of the eight is in agent/testdata.
func TestEightRanks(t *testing.T) {
	for _, name := range []string{"h100", "mi300x"} {
		t.Run(name, func(t *testing.T) {
			host := read(t, name)
			var b strings.Builder
			for _, args := range [][2]string{{"", ""}, {"core", "core"}, {"numa:PE=4", ""}, {"ppr:4:socket", "socket"}, {"l3cache", "hwthread"}} {
				policy := placement.Policy{Binding: request(t, args[0], args[1])}
				fmt.Fprintf(&b, "==== -n 8 --map-by %q --bind-to %q\n", args[0], args[1])
				plan, err := placement.Place([]job.Host{host}, []job.App{{Argv: []string{"./train"}, N: 8}}, policy)
				if err != nil {
					t.Fatalf("%v: %v", args, err)
				}
				b.WriteString(placement.Render(plan, []job.App{{Argv: []string{"./train"}, N: 8}}))
				for _, p := range plan.Placements {
					fmt.Fprintf(&b, "MCW rank %d bound to %s\n", p.Rank, policy.Bound(host.Layout, p.CPUs, ": "))
				}
			}
			golden.Is(t, "testdata/"+name+".plan", b.String())
		})
	}
}

// read is a machine of the corpus as a launcher knows it.
func read(t *testing.T, name string) job.Host {
	t.Helper()
	files := machine.FS(t, name)
	m, err := discover.Machine(sysfs.New(files), 4096)
	if err != nil {
		t.Fatal(err)
	}
	limits, err := discover.FindCgroups(sysfs.New(files)).Limit(m)
	if err != nil {
		t.Fatal(err)
	}
	l, err := m.Layout(limits.CPUs)
	if err != nil {
		t.Fatal(err)
	}
	h := job.Host{Name: name, Slots: 8, Layout: l}
	gpus := gpu.Read(sysfs.New(files), func(string) (string, bool) { return "", false })
	for _, u := range gpus.Units() {
		h.NearGPUs = append(h.NearGPUs, u.GPU.Near)
	}
	if len(h.NearGPUs) != 8 || idset.Of().Equal(h.NearGPUs[7]) {
		t.Fatalf("%d GPUs", len(h.NearGPUs))
	}
	return h
}

func request(t *testing.T, mapBy, bindTo string) (r layout.Request) {
	t.Helper()
	var err error
	if mapBy != "" {
		if r.Map, err = layout.ParseMapBy(mapBy); err != nil {
			t.Fatal(err)
		}
	}
	if bindTo != "" {
		if r.Bind, err = layout.ParseBindTo(bindTo, r.Bind); err != nil {
			t.Fatal(err)
		}
	}
	return r
}
