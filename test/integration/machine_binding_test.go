package integration

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/layout"
	"github.com/mpiup/mpiup/test/need"
	"github.com/mpiup/mpiup/topology/discover"
	"github.com/mpiup/mpiup/topology/sysfs"
)

// here is where the CPUs lie that this test may use, as every host of the lab may.
func here(t *testing.T) *layout.Layout {
	t.Helper()
	m, err := discover.Machine(sysfs.Host(), 0)
	if err != nil {
		t.Fatal(err)
	}
	l, err := m.Layout(m.AllowedCPUs.Intersect(m.Affinity))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// masks runs ranks that say their rank and their mask, as the kernel has it and as hwloc has it, and
// returns the masks by rank.
func masks(t *testing.T, l *lab, hosts string, args ...string) (byRank []string, stderr string) {
	t.Helper()
	need.Program(t, "hwloc-bind", "hwloc-nox")
	const ask = `echo $MPIUP_RANK $(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status) $(hwloc-bind --get)`
	r := l.run(t, job{hosts: hosts, args: append(args, "sh", "-c", ask)}).OK(t)
	byRank = make([]string, strings.Count(r.Stdout, "\n"))
	for line := range strings.Lines(r.Stdout) {
		f := strings.Fields(line)
		rank, err := strconv.Atoi(f[0])
		if err != nil || len(f) != 3 || rank >= len(byRank) {
			t.Fatalf("a rank says %q", line)
		}
		kernel, err := idset.Parse(f[1])
		if err != nil {
			t.Fatal(err)
		}
		words := strings.Split(strings.ReplaceAll(f[2], "0x", ""), ",") // hwloc leaves out words of zeros
		for i, w := range words {
			words[i] = cmp.Or(w, "0")
		}
		if hw, err := idset.ParseMask(strings.Join(words, ",")); err != nil || !hw.Equal(kernel) {
			t.Errorf("rank %d: the kernel has %s, hwloc %s, %v", rank, kernel, f[2], err)
		}
		byRank[rank] = kernel.String()
	}
	return byRank, r.Stderr
}

func TestBinding(t *testing.T) {
	t.Parallel()
	l, cpus := hosted(t), here(t)
	all := cpus.CPUs().String()
	core := func(i int) string { c := cpus.Objects(layout.Core); return c[i%len(c)].String() }
	last := len(cpus.Objects(layout.Core)) - 1
	rankfile := l.file(t, fmt.Sprintf("rank 1=w0 slot=p%d\nrank 0=+n1 slot=%d\n", cpus.CPUs().First(), last))
	for _, c := range []struct {
		name, hosts string
		args        []string
		want        []string
	}{
		{"to cores", "w0:2,w1:2", []string{"-n", "4", "--map-by", "core", "--bind-to", "core:overload-allowed"}, []string{core(0), core(1), core(0), core(1)}},
		{"not", "w0:2", []string{"-n", "2", "--bind-to", "none"}, []string{all, all}},
		{"to all there is", "w0:2", []string{"-n", "2", "--bind-to", "socket", "--map-by", "slot", "--cpu-set", "*"}, []string{all, all}},
		{"to a list", "w0:2", []string{"-n", "2", "--cpu-set", strconv.Itoa(last)}, []string{core(last), core(last)}},
		{"to one of a list each", "w0:2", []string{"-n", "2", "--cpu-set", fmt.Sprintf("%d,0", last), "--bind-to", "cpu-list:ordered"}, []string{core(last), core(0)}},
		{"by the kernel's numbers", "w0:1", []string{"-n", "1", "--cpu-set", fmt.Sprintf("p%d", cpus.CPUs().Last())}, []string{strconv.Itoa(cpus.CPUs().Last())}},
		{"by a rankfile", "w0:1,w1:1", []string{"-n", "2", "--rankfile", rankfile}, []string{core(last), strconv.Itoa(cpus.CPUs().First())}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got, stderr := masks(t, l, c.hosts, c.args...); !slices.Equal(got, c.want) {
				t.Errorf("masks %q, not %q\n%s", got, c.want, stderr)
			}
		})
	}
}

// TestReportBindings: what is reported is what ranks have, in Open MPI's words.
func TestReportBindings(t *testing.T) {
	t.Parallel()
	l, cpus := hosted(t), here(t)
	got, stderr := masks(t, l, "w0:1,w1:1", "-n", "2", "--bind-to", "hwthread", "--report-bindings", "--display-map")
	reported := regexp.MustCompile(`(?m)^\[(w[01]):\d+\] MCW rank ([01]) (.*)$`).FindAllStringSubmatch(stderr, -1)
	if len(reported) != 2 {
		t.Fatalf("reported:\n%s", stderr)
	}
	for _, r := range reported {
		rank := int(r[2][0] - '0')
		set, err := idset.Parse(got[rank])
		if err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf("bound to %s: %s", cpus.Name(set), cpus.Draw(set))
		if cpus.Len() == 1 {
			want = "is not bound (or bound to all available processors)"
		} else if shown := fmt.Sprintf("CPUs %s", set); !strings.Contains(stderr, shown) {
			t.Errorf("the map does not have %s:\n%s", shown, stderr)
		}
		if r[1] != fmt.Sprintf("w%d", rank) || r[3] != want {
			t.Errorf("rank %d on %s %s, not %s", rank, r[1], r[3], want)
		}
	}
}

// TestBindingErrors: what cannot be is said before anything starts.
func TestBindingErrors(t *testing.T) {
	t.Parallel()
	l, cpus := hosted(t), here(t)
	n := len(cpus.Objects(layout.Core))
	for _, c := range []struct {
		name, want string
		args       []string
	}{
		{"crowded", "more ranks than CPUs: core 0 has", []string{"-n", strconv.Itoa(n + 1), "--bind-to", "core"}},
		{"no such core", fmt.Sprintf("host w0: there is no core %d: %d can be used", n, n), []string{"-n", "1", "--cpu-set", strconv.Itoa(n)}},
		{"no such CPU", "host w0: CPU 8000 cannot be used", []string{"-n", "1", "--cpu-set", "p8000"}},
		{"no such host", "which is not one of the job's", []string{"-n", "1", "--rankfile", l.file(t, "rank 0=nobody slot=0\n")}},
		{"no such file", "rankfile: open /no/such", []string{"-n", "1", "--rankfile", "/no/such"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := l.run(t, job{hosts: fmt.Sprintf("w0:%d", n+1), args: append(c.args, "true")})
			if r.Code != 240 || !strings.Contains(r.Stderr, c.want) {
				t.Errorf("ended with %d\n%s", r.Code, r.Stderr)
			}
		})
	}
}

// TestBoundRanksAreTold: a bound rank knows its share of the cores, and libraries that it is bound; what
// the user says stays.
func TestBoundRanksAreTold(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	show := []string{"sh", "-c", "echo $OMP_NUM_THREADS $OMP_PLACES $I_MPI_PIN $MV2_ENABLE_AFFINITY"}
	cpus := here(t)
	one := "p" + strconv.Itoa(cpus.CPUs().First())
	mine, unbound := fmt.Sprintf("1 {%d:1} off 0\n", cpus.CPUs().First()), "\n"
	if cpus.Len() == 1 {
		mine = unbound
	}
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{"bound", []string{"--cpu-set", one}, mine},
		{"bound, and the user knows better", []string{"--cpu-set", one, "-x", "OMP_NUM_THREADS=7", "-x", "I_MPI_PIN=on", "-x", "MV2_ENABLE_AFFINITY=1", "-x", "OMP_PROC_BIND=close"}, "7 on 1\n"},
		{"not bound", []string{"--bind-to", "none"}, unbound},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := l.run(t, job{hosts: "w0:1", args: slices.Concat([]string{"-n", "1", "--mpi", "pmi1"}, c.args, show)}).OK(t)
			if r.Stdout != c.want {
				t.Errorf("%q, not %q", r.Stdout, c.want)
			}
		})
	}
}

// TestOpenMPILocality: Open MPI's ranks know from PMIx with whom they share which parts of their host.
func TestOpenMPILocality(t *testing.T) {
	t.Parallel()
	l, cpus := hosted(t), here(t)
	if cpus.Len() == 1 {
		t.Log("on one CPU nobody is bound")
		return
	}
	program := l.openMPI(t, "locality")
	on := func(hosts string, binding ...string) string {
		return l.run(t, job{hosts: hosts, args: slices.Concat([]string{"-n", "2"}, binding, ompiFlags, []string{program})}).OK(t).Stdout
	}
	if got := inOrder(on("w0:2", "--cpu-set", "p"+strconv.Itoa(cpus.CPUs().First()))); !regexp.MustCompile(`^rank 0: .*core 2 hwthread 2\nrank 1: .*core 2 hwthread 2\n$`).MatchString(got) {
		t.Errorf("on one hardware thread: %s", got)
	}
	if len(cpus.Objects(layout.Core)) > 1 {
		if got := inOrder(on("w0:2", "--bind-to", "core")); !regexp.MustCompile(`^rank 0: .*core 1 hwthread 1\nrank 1: .*core 1 hwthread 1\n$`).MatchString(got) {
			t.Errorf("on two cores: %s", got)
		}
	}
	if got := inOrder(on("w0:1,w1:1", "--cpu-set", "p"+strconv.Itoa(cpus.CPUs().First()))); strings.Contains(got, " 2") {
		t.Errorf("on two hosts: %s", got)
	}
}

// TestMpirunBinds: mpiup as mpirun and mpiexec binds as they do.
func TestMpirunBinds(t *testing.T) {
	t.Parallel()
	l, cpus := hosted(t), here(t)
	cores := cpus.Objects(layout.Core)
	core := func(i int) string { return cores[i%len(cores)].String() }
	rankfile := filepath.Join(l.folder(t), "ranks")
	if err := os.WriteFile(rankfile, []byte("rank 0=w1 slot=0\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	const show = `echo $MPIUP_RANK@$(hostname) $(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status)`
	for _, c := range []struct {
		name, as string
		args     []string
		want     string
	}{
		{"Open MPI", "mpirun", []string{"-H", "w0:2", "-np", "2", "--map-by", "core", "--bind-to", "core:overload-allowed"}, "0@w0 " + core(0) + "\n1@w0 " + core(1) + "\n"},
		{"Open MPI's rankfile", "mpirun", []string{"-H", "w0,w1", "-np", "1", "--rankfile", rankfile}, "0@w1 " + core(0) + "\n"},
		{"Hydra", "mpiexec.hydra", []string{"-hosts", "w0", "-n", "2", "-bind-to", "core"}, "0@w0 " + core(0) + "\n1@w0 " + core(1) + "\n"},
		{"Hydra's list", "mpiexec.hydra", []string{"-hosts", "w0", "-n", "2", "-bind-to", "user:" + strconv.Itoa(cpus.CPUs().Last())},
			fmt.Sprintf("0@w0 %d\n1@w0 %s\n", cpus.CPUs().Last(), cpus.CPUs())},
		{"Hydra without", "mpiexec.hydra", []string{"-hosts", "w0", "-n", "1"}, "0@w0 " + cpus.CPUs().String() + "\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := l.called(t, c.as, job{}, append(c.args, "sh", "-c", show)...)
			if got := inOrder(r.Stdout); r.Code != 0 || got != c.want {
				t.Errorf("ended with %d\n%s%s\nnot %s", r.Code, got, r.Stderr, c.want)
			}
		})
	}
}
