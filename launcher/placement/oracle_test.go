package placement

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/layout"
)

// machines are those of testdata/machines.txt: a line of numbers by thread for each kind. a, c, d, e and r
// are made up (lstopo -i "pack:2 numa:1 l3:1 core:4 pu:2" and so on), h, i and x are machines of
// hwloc's collection.
func machines(t *testing.T) map[string]*layout.Layout {
	t.Helper()
	text, err := os.ReadFile("testdata/machines.txt")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]*layout.Layout{}
	for _, part := range strings.Split(string(text), "machine ")[1:] {
		name, rest, _ := strings.Cut(part, "\n")
		var threads []layout.Thread
		for line := range strings.Lines(rest) {
			word, numbers, _ := strings.Cut(strings.TrimSpace(line), " ")
			bind, err := layout.ParseBindTo(word, layout.Target{})
			if err != nil {
				t.Fatal(name, err)
			}
			kind := bind.To
			for i, s := range strings.Split(numbers, ",") {
				n, err := strconv.Atoi(s)
				if err != nil {
					t.Fatal(err)
				}
				if kind == layout.HWThread {
					threads = append(threads, layout.Thread{CPU: n})
				}
				threads[i].In[kind] = n
			}
		}
		if out[name], err = layout.New(threads); err != nil {
			t.Fatal(name, err)
		}
	}
	return out
}

// observed is one run of a real launcher.
type observed struct{ machine, hosts, args, result string }

func observations(t *testing.T, file string) (list []observed) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range strings.Split(string(text), "== ")[1:] {
		head, result, _ := strings.Cut(part, "\n")
		f := strings.Split(head, " | ")
		list = append(list, observed{f[0], f[1], f[2], result})
	}
	return list
}

// policyOf reads the few options of Open MPI that the observations have, as its command line is read; ":" begins
// another program.
func policyOf(t *testing.T, args string) (p Policy, apps []job.App) {
	t.Helper()
	ok := func(err error) {
		if err != nil {
			t.Fatalf("%s: %v", args, err)
		}
	}
	b := &p.Binding
	words, n := strings.Fields(args), 0
	for len(words) > 0 {
		word := words[0]
		words = words[1:]
		value := func() string { v := words[0]; words = words[1:]; return v }
		var err error
		switch word {
		case "-np":
			n, err = strconv.Atoi(value())
		case ":":
			apps = append(apps, job.App{Argv: []string{"a"}, N: n})
			n = 0
		case "-npernode", "-N":
			p.PerNode, err = strconv.Atoi(value())
			b.Map.Policy = "ppr"
		case "--npersocket":
			b.Map, err = layout.ParseMapBy("ppr:" + value() + ":socket")
		case "--map-by":
			b.Map, err = layout.ParseMapBy(value())
		case "--rank-by":
			b.Rank, err = layout.ParseRankBy(value())
		case "--bind-to":
			b.Bind, err = layout.ParseBindTo(value(), b.Bind)
		case "--cpu-set", "--cpu-list":
			b.CPUs, err = layout.ParseCPUs(value())
		case "--oversubscribe":
			p.Oversubscribe = true
		case "--use-hwthread-cpus":
			b.HWThreads = true
		default:
			t.Fatal(word)
		}
		ok(err)
	}
	p.Oversubscribe = p.Oversubscribe || b.Map.Slots == layout.Allowed
	b.HWThreads = b.HWThreads || b.Map.HWThreads
	if b.Map.CPUs != nil {
		b.CPUs, b.Ordered = b.Map.CPUs, b.Map.Ordered
	}
	if b.Map.Policy == "ppr" && b.Map.Object == layout.None && b.Map.N > 0 {
		p.PerNode = b.Map.N
	}
	p.Order()
	p.Apart = true
	return p, append(apps, job.App{Argv: []string{"a"}, N: n})
}

func hostsOf(t *testing.T, l *layout.Layout, list string) (hosts []job.Host) {
	t.Helper()
	for h := range strings.SplitSeq(list, ",") {
		name, slots, _ := strings.Cut(h, ":")
		n, err := strconv.Atoi(slots)
		if err != nil {
			t.Fatal(err)
		}
		hosts = append(hosts, job.Host{Name: name, Slots: n, SlotsGiven: true, Layout: l})
	}
	return hosts
}

// TestAsOpenMPI compares with what mpirun of Open MPI 4.1.4 said with --display-devel-map
// --do-not-launch --novm on those machines (HWLOC_XMLFILE, HWLOC_THISSYSTEM=1).
func TestAsOpenMPI(t *testing.T) {
	all := machines(t)
	for _, o := range observations(t, "testdata/openmpi.txt") {
		l := all[o.machine]
		p, apps := policyOf(t, o.args)
		plan, err := Place(hostsOf(t, l, o.hosts), apps, p)
		if want, isErr := strings.CutPrefix(strings.TrimSpace(o.result), "error "); isErr {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s | %s | %s: %v; Open MPI has %q", o.machine, o.hosts, o.args, err, want)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s | %s | %s: %v", o.machine, o.hosts, o.args, err)
			continue
		}
		if got := drawn(plan, l); got != o.result {
			t.Errorf("%s | %s | %s: (-) Open MPI\n%s", o.machine, o.hosts, o.args, lineDiff(o.result, got))
		}
	}
}

// TestAsOpenMPI5 compares with what mpirun of Open MPI 5.0.7 (PRRTE 3.0.8) said with --display map-devel
// --runtime-options donotlaunch on those machines. Where it was not told to bind, it binds of itself, and
// only the hosts are compared. "error" it has no plan, and neither has mpiup; "error there" mpiup has one.
func TestAsOpenMPI5(t *testing.T) {
	all := machines(t)
	for _, o := range observations(t, "testdata/openmpi5.txt") {
		l := all[o.machine]
		p, apps := policyOf(t, o.args)
		p.Rules = OpenMPI5
		plan, err := Place(hostsOf(t, l, o.hosts), apps, p)
		switch o.result {
		case "error\n":
			if err == nil {
				t.Errorf("%s | %s | %s: no error, and\n%s", o.machine, o.hosts, o.args, byPackage(plan, l, p))
			}
			continue
		case "error there\n":
			if err != nil {
				t.Errorf("%s | %s | %s: %v", o.machine, o.hosts, o.args, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s | %s | %s: %v", o.machine, o.hosts, o.args, err)
			continue
		}
		want := o.result
		if !p.Binding.Asked() {
			var hosts strings.Builder
			for line := range strings.Lines(want) {
				f := strings.Fields(line)
				fmt.Fprintf(&hosts, "%s %s -\n", f[0], f[1])
			}
			want = hosts.String()
		}
		whole := " " + l.NameByPackage(l.CPUs(), p.Binding.HWThreads) + "\n"
		want = strings.ReplaceAll(want, whole, " -\n") // who has all CPUs is not bound
		if got := byPackage(plan, l, p); got != want {
			t.Errorf("%s | %s | %s: (-) Open MPI\n%s", o.machine, o.hosts, o.args, lineDiff(want, got))
		}
	}
}

// byPackage is a plan as Open MPI 5's map shows it.
func byPackage(plan *job.Plan, l *layout.Layout, p Policy) string {
	var b strings.Builder
	for _, pl := range plan.Placements {
		cpus := "-"
		if !pl.CPUs.Empty() {
			cpus = l.NameByPackage(pl.CPUs, p.Binding.HWThreads)
		}
		fmt.Fprintf(&b, "%d %s %s\n", pl.Rank, plan.Hosts[pl.Host].Name, cpus)
	}
	return b.String()
}

// drawn is a plan as Open MPI's map shows it.
func drawn(plan *job.Plan, l *layout.Layout) string {
	var b strings.Builder
	for _, pl := range plan.Placements {
		picture := "-"
		if !pl.CPUs.Empty() {
			picture = l.Draw(pl.CPUs)
		}
		fmt.Fprintf(&b, "%d %s %s\n", pl.Rank, plan.Hosts[pl.Host].Name, picture)
	}
	return b.String()
}

func lineDiff(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	var b strings.Builder
	for i := range max(len(w), len(g)) {
		switch {
		case i >= len(w):
			fmt.Fprintf(&b, "+ %s\n", g[i])
		case i >= len(g):
			fmt.Fprintf(&b, "- %s\n", w[i])
		case w[i] != g[i]:
			fmt.Fprintf(&b, "- %s\n+ %s\n", w[i], g[i])
		}
	}
	return b.String()
}

// TestAsHydra compares with what mpiexec.hydra of MPICH 4.0.2 said with HYDRA_TOPO_DEBUG=1 on those
// machines (HWLOC_XMLFILE).
func TestAsHydra(t *testing.T) {
	all := machines(t)
	for _, o := range observations(t, "testdata/hydra.txt") {
		l := all[o.machine]
		bind, by := "", ""
		f := strings.Fields(o.args)
		for i := 0; i+1 < len(f); i += 2 {
			switch f[i] {
			case "-bind-to":
				bind = f[i+1]
			case "-map-by":
				by = f[i+1]
			}
		}
		h, err := layout.ParseHydra(bind, by)
		var plan *job.Plan
		if err == nil {
			hosts := []job.Host{{Name: "n0", Slots: 1, Layout: l}}
			n := strings.Count(o.result, "\n")
			plan, err = Place(hosts, []job.App{{Argv: []string{"a"}, N: n}},
				Policy{MapBy: ByRound, Oversubscribe: true, Binding: layout.Request{Hydra: h}})
		}
		if want, isErr := strings.CutPrefix(strings.TrimSpace(o.result), "error "); isErr {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s | %s: %v; Hydra has %q", o.machine, o.args, err, want)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s | %s: %v", o.machine, o.args, err)
			continue
		}
		var got strings.Builder
		for _, pl := range plan.Placements {
			cpus := pl.CPUs
			if cpus.Empty() {
				cpus = l.CPUs()
			}
			fmt.Fprintf(&got, "%d %s\n", pl.Rank, idset.Set.String(cpus))
		}
		if got.String() != o.result {
			t.Errorf("%s | %s: (-) Hydra\n%s", o.machine, o.args, lineDiff(o.result, got.String()))
		}
	}
}
