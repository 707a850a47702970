// Package live runs mpiup on a machine of several NUMA nodes where there is one of one: in a mount namespace
// whose /sys says that this machine's CPUs are two packages with a memory each. Masks and memory policies are
// the kernel's own, and so is what is read back of them.
package live

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/test/machine"
	"github.com/mpiup/mpiup/test/need"
	"github.com/mpiup/mpiup/topology/discover"
	"github.com/mpiup/mpiup/topology/sysfs"
)

// halves are the CPUs that may be used here, in two parts.
func halves(t *testing.T) (parts [2]idset.Set) {
	t.Helper()
	m, err := discover.Machine(sysfs.Host(), 0)
	if err != nil {
		t.Fatal(err)
	}
	cpus := m.AllowedCPUs.Intersect(m.Affinity).Slice()
	if len(cpus) < 2 {
		need.Done(t, "cpus", fmt.Errorf("only CPU %v may be used here", cpus), "run where there are two")
	}
	return [2]idset.Set{idset.Of(cpus[:len(cpus)/2]...), idset.Of(cpus[len(cpus)/2:]...)}
}

// system is a directory with what replaces /sys/devices/system/cpu and node: a package and a NUMA node for each
// part, each CPU a core.
func system(t *testing.T, parts [2]idset.Set) string {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) {
		file := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(file), 0o755)
		if err == nil {
			err = os.WriteFile(file, []byte(text+"\n"), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	all := parts[0].Union(parts[1]).String()
	for _, name := range []string{"online", "possible", "present"} {
		write("cpu/"+name, all)
		write("node/"+name, "0-1")
	}
	for pkg, cpus := range parts {
		for core, cpu := range cpus.Slice() {
			files := map[string]string{"physical_package_id": fmt.Sprint(pkg), "core_id": fmt.Sprint(core), "package_cpus": machine.Mask(cpus),
				"core_siblings": machine.Mask(cpus), "core_cpus": machine.Mask(idset.Of(cpu)), "thread_siblings": machine.Mask(idset.Of(cpu))}
			for name, text := range files {
				write(fmt.Sprintf("cpu/cpu%d/topology/%s", cpu, name), text)
			}
		}
		node := fmt.Sprintf("node/node%d/", pkg)
		write(node+"cpumap", machine.Mask(cpus))
		write(node+"cpulist", cpus.String())
		write(node+"meminfo", fmt.Sprintf("Node %d MemTotal: 1048576 kB\nNode %d MemFree: 1048576 kB\nNode %d MemUsed: 0 kB", pkg, pkg, pkg))
		write(node+"distance", []string{"10 21", "21 10"}[pkg])
	}
	return dir
}

// mpiup is $MPIUP_BIN, or built here.
func mpiup(t *testing.T) string {
	t.Helper()
	if bin := os.Getenv("MPIUP_BIN"); bin != "" {
		return bin
	}
	bin := filepath.Join(t.TempDir(), "mpiup")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "github.com/mpiup/mpiup/cmd/mpiup")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return bin
}

// inside runs a command in a mount namespace with that /sys.
func inside(t *testing.T, dir string, argv ...string) (stdout, stderr string) {
	t.Helper()
	need.Root(t)
	need.Program(t, "unshare", "util-linux")
	// Without control groups, which allow the memory of one node only.
	const script = `mount --bind "$1/cpu" /sys/devices/system/cpu && mount --bind "$1/node" /sys/devices/system/node &&
	mount -t tmpfs none /sys/fs/cgroup && shift && exec "$@"`
	cmd := exec.CommandContext(t.Context(), "unshare", append([]string{"--mount", "sh", "-c", script, "sh", dir}, argv...)...)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %v\n%s%s", argv, err, out.String(), errs.String())
	}
	return out.String(), errs.String()
}

// policies reports whether a process here may have a memory policy, which some containers' seccomp profiles
// refuse.
func policies(t *testing.T) bool {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const mpolDefault = 0
	_, _, errno := unix.RawSyscall(unix.SYS_SET_MEMPOLICY, mpolDefault, 0, 0)
	return errno == 0
}

// A rank of each of two NUMA nodes: what the kernel says of it, what hwloc reads, what is reported, and where
// its memory comes from. The kernel has one node, whatever /sys says, so a policy can only be of that.
func TestTwoNodes(t *testing.T) {
	need.Program(t, "hwloc-bind", "hwloc-nox")
	parts := halves(t)
	const ask = `echo $MPIUP_RANK $(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status) $(hwloc-bind --get) $(sed -n '1s/^[^ ]* \([^ ]*\) .*/\1/p' /proc/self/numa_maps)`
	stdout, stderr := inside(t, system(t, parts), mpiup(t), "run", "-n", "2", "--map-by", "numa", "--bind-to", "numa", "--report-bindings", "sh", "-c", ask)
	memory := "default"
	if policies(t) {
		memory = "prefer:0"
	}
	var want []string
	for rank, cpus := range parts {
		want = append(want, fmt.Sprintf("%d %s 0x%s %s", rank, cpus, strings.ReplaceAll(machine.Mask(cpus), ",", ",0x"), []string{memory, "default"}[rank]))
	}
	got := strings.Split(strings.TrimSpace(stdout), "\n")
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("ranks say %q, not %q\n%s", got, want, stderr)
	}
	for rank, cpus := range parts {
		var drawing [2]string
		for pkg := range drawing {
			drawing[pkg] = "[" + strings.TrimSuffix(strings.Repeat(map[bool]string{true: "B/", false: "./"}[pkg == rank], parts[pkg].Len()), "/") + "]"
		}
		if line := fmt.Sprintf("MCW rank %d bound to socket %d[core ", rank, rank); !strings.Contains(stderr, line) || !strings.Contains(stderr, drawing[0]+drawing[1]) {
			t.Errorf("no %q of CPUs %s with %s%s:\n%s", line, cpus, drawing[0], drawing[1], stderr)
		}
	}
}

// The memory of a bound rank is that of the node, as numastat counts it.
func TestMemoryOfARank(t *testing.T) {
	need.Program(t, "numastat", "numactl")
	const length = 32 << 20
	ask := fmt.Sprintf(`x=$(head -c %d /dev/zero | tr '\0' x); numastat -p $$ | sed -n 's/^Total *//p'; echo ${#x}`, length)
	stdout, stderr := inside(t, system(t, halves(t)), mpiup(t), "run", "-n", "1", "--cpu-set", "0", "sh", "-c", ask)
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	columns := strings.Fields(lines[0]) // a number for each node, and their sum
	if len(lines) != 2 || lines[1] != fmt.Sprint(length) || len(columns) < 2 {
		t.Fatalf("%s%s", stdout, stderr)
	}
	node, err := strconv.ParseFloat(columns[0], 64)
	if err != nil || node < length>>20 || columns[0] != columns[len(columns)-1] {
		t.Errorf("%s MB of %s are of node 0, %v", columns[0], columns[len(columns)-1], err)
	}
}
