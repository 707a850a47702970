package topology_test

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/test/machine"
	"github.com/mpiup/mpiup/test/need"
	"github.com/mpiup/mpiup/topology"
	"github.com/mpiup/mpiup/topology/discover"
	"github.com/mpiup/mpiup/topology/sysfs"
)

// views are the ways in which lstopo is asked: what a reader filters must not matter.
var views = [][]string{
	nil,
	{"--whole-io"},
	{"--disallowed"},
	{"--disallowed", "--whole-io", "--filter", "all:all"},
	{"--no-icaches", "--no-io"},
}

// TestLstopoAgrees: hwloc that reads the kernel's files and hwloc that reads our XML of them see
// the same machine.
func TestLstopoAgrees(t *testing.T) {
	need.Program(t, "lstopo-no-graphics", "hwloc-nox")
	for _, name := range slices.DeleteFunc(machine.Names(t), func(n string) bool { return n == "vm" }) {
		// hwloc before 2.11 hides GPUs' memory everywhere, later ones on POWER only.
		t.Run(name, func(t *testing.T) {
			agree(t, machine.Unpack(t, machine.Load(t, name)), 4096, "HWLOC_KEEP_NVIDIA_GPU_NUMA_NODES=1")
		})
	}
}

// TestLstopoAgreesOnRealMachines does so with one that was captured, and with what is at hand of hwloc's own collection.
func TestLstopoAgreesOnRealMachines(t *testing.T) {
	need.Program(t, "lstopo-no-graphics", "hwloc-nox")
	t.Run("vm", func(t *testing.T) { agree(t, machine.Unpack(t, machine.Load(t, "vm")), 4096) })
	archives, err := filepath.Glob("../../../shared/fixtures/hwloc/*.tar.bz2")
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range archives {
		t.Run(strings.TrimSuffix(filepath.Base(a), ".tar.bz2"), func(t *testing.T) {
			pageSize := 4096
			if strings.HasPrefix(filepath.Base(a), "nvidiagpunumanodes") {
				pageSize = 65536 // POWER
			}
			agree(t, machine.Unpack(t, machine.MapFS(machine.Archive(t, a))), pageSize)
		})
	}
}

// TestLstopoAgreesHere does so with this machine.
func TestLstopoAgreesHere(t *testing.T) {
	need.Program(t, "lstopo-no-graphics", "hwloc-nox")
	m, err := discover.Machine(sysfs.Host(), 0)
	if err != nil {
		t.Fatal(err)
	}
	file := write(t, topology.XML(m))
	for _, view := range views {
		native := lstopo(t, view)
		ours := lstopo(t, view, "HWLOC_XMLFILE="+file, "HWLOC_THISSYSTEM=1", "HWLOC_THISSYSTEM_ALLOWED_RESOURCES=1")
		// memory comes and goes on a virtual machine
		compare(t, view, native, ours, "local_memory", "count", "pci_link_speed")
	}
}

// TestBindingIsTheSame: hwloc with our XML binds, and says what is bound, as without.
func TestBindingIsTheSame(t *testing.T) {
	need.Program(t, "lstopo-no-graphics", "hwloc-nox")
	m, err := discover.Machine(sysfs.Host(), 0)
	if err != nil {
		t.Fatal(err)
	}
	hint := []string{"HWLOC_XMLFILE=" + write(t, topology.XML(m)), "HWLOC_THISSYSTEM=1", "HWLOC_THISSYSTEM_ALLOWED_RESOURCES=1"}
	last := m.Affinity.Last()
	holds := func(o *topology.Object) bool { return o.CPUs.Contains(last) }
	cores, nodes := m.All(topology.TypeCore), m.All(topology.TypeNUMANode)
	c, n := slices.IndexFunc(cores, holds), slices.IndexFunc(nodes, holds)
	if c < 0 || n < 0 {
		t.Fatalf("CPU %d is in no core or near no memory", last)
	}
	core, node := cores[c], nodes[n]
	one := ""
	if last < 32 {
		one = fmt.Sprintf("0x%08x", 1<<last)
	}
	for _, tt := range []struct {
		name, want string // "": as without
		command    []string
	}{
		{"unbound", "", []string{"hwloc-bind", "--get"}},
		{"one of two by the kernel", one, []string{"taskset", "-c", strconv.Itoa(last), "hwloc-bind", "--get"}},
		{"a core", "", []string{"hwloc-bind", fmt.Sprintf("core:%d", core.Logical), "--", "hwloc-bind", "--get"}},
		{"a hardware thread by its number", one, []string{"hwloc-bind", "--physical", fmt.Sprintf("pu:%d", last), "--", "hwloc-bind", "--get"}},
		{"a memory", "", []string{"hwloc-bind", "--membind", fmt.Sprintf("node:%d", node.Logical), "--", "hwloc-bind", "--get", "--membind"}},
		{"what is allowed", "", []string{"hwloc-calc", "all"}},
	} {
		native, hinted := run(t, tt.command), run(t, tt.command, hint...)
		if native != hinted || tt.want != "" && native != tt.want {
			t.Errorf("%s: %v says %q without and %q with the XML, want %q", tt.name, tt.command, native, hinted, tt.want)
		}
	}
}

func run(t *testing.T, command []string, env ...string) string {
	t.Helper()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", command, err, out)
	}
	return strings.TrimSpace(string(out))
}

func agree(t *testing.T, root string, pageSize int, env ...string) {
	m, err := discover.Machine(sysfs.New(os.DirFS(root)), pageSize)
	if err != nil {
		t.Fatal(err)
	}
	file := write(t, topology.XML(m))
	var without []string
	if configs, _ := filepath.Glob(root + "/sys/bus/pci/devices/*/config"); len(configs) == 0 {
		without = []string{"revision"} // hwloc 2.9 knows it from there only, and captures have no such file
	}
	for _, view := range views {
		native := lstopo(t, view, append(env, "HWLOC_FSROOT="+root, "HWLOC_COMPONENTS=linux,stop")...)
		for _, parser := range []string{"0", "1"} { // hwloc's own, libxml2
			ours := lstopo(t, view, "HWLOC_XMLFILE="+file, "HWLOC_LIBXML_IMPORT="+parser)
			compare(t, view, native, ours, without...)
		}
	}
}

func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ours.xml")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// element is any element of the document.
type element struct {
	XMLName  xml.Name
	Attrs    []xml.Attr `xml:",any,attr"`
	Text     string     `xml:",chardata"`
	Children []element  `xml:",any"`
}

func (e *element) attr(name string) string {
	for _, a := range e.Attrs {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

// lstopo is the machine as lstopo exports it. It must not complain.
func lstopo(t *testing.T, options []string, env ...string) *element {
	t.Helper()
	cmd := exec.Command("lstopo-no-graphics", append([]string{"--of", "xml"}, options...)...)
	cmd.Env = append(os.Environ(), env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil || stderr.Len() > 0 {
		t.Fatalf("lstopo %v with %v: %v\n%s", options, env, err, stderr.String())
	}
	e := new(element)
	if err := xml.Unmarshal(stdout.Bytes(), e); err != nil {
		t.Fatal(err)
	}
	return e
}

// compare compares all objects with their sets and attributes, and the distances. Not compared are
//   - what numbers hwloc gives objects (gp_index),
//   - devices that have no part in messages, and memory modules (Misc), which we leave out,
//   - the offline CPUs of a NUMA node: hwloc takes them from a group that it drops later,
//   - infos that only one side has,
//   - a PCI function's revision and link where the tree has no file of them (hwloc: ff),
//   - kinds of cores, where hwloc tells frequencies too,
//   - attributes in without.
func compare(t *testing.T, view []string, native, ours *element, without ...string) {
	t.Helper()
	want, got := lines(native, without), lines(ours, without)
	if slices.Equal(want, got) {
		return
	}
	shown := 0
	for i := range max(len(want), len(got)) {
		var w, g string
		if i < len(want) {
			w = want[i]
		}
		if i < len(got) {
			g = got[i]
		}
		if w != g && shown < 8 {
			t.Errorf("%v, object %d:\nlstopo %s\nours   %s", view, i, w, g)
			shown++
		}
	}
	t.FailNow()
}

func lines(e *element, without []string) (out []string) {
	var walk func(*element, int)
	walk = func(e *element, depth int) {
		var devices []element
		for _, c := range e.Children {
			switch {
			case c.XMLName.Local == "page_type" && c.attr("count") != "":
				out = append(out, line(&c, depth, without))
			case c.XMLName.Local == "info" && (c.attr("name") == "CPUModel" || c.attr("name") == "DMIBoardName" || c.attr("name") == "Address"):
				out = append(out, line(&c, depth, without))
			case c.XMLName.Local == "distances2":
				out = append(out, line(&c, depth, without))
				for _, values := range c.Children {
					out = append(out, values.Text)
				}
			case c.XMLName.Local != "object", c.attr("type") == "Misc":
			case c.attr("type") == "OSDev":
				if kind := c.attr("osdev_type"); kind == "2" || kind == "3" {
					devices = append(devices, c)
				}
			default:
				out = append(out, line(&c, depth, without))
				walk(&c, depth+1)
			}
		}
		slices.SortFunc(devices, func(x, y element) int { return strings.Compare(x.attr("name"), y.attr("name")) })
		for _, c := range devices {
			out = append(out, line(&c, depth, without))
			walk(&c, depth+1)
		}
	}
	walk(e, 0)
	return out
}

func line(e *element, depth int, without []string) string {
	var fields []string
	for _, a := range e.Attrs {
		name, value := a.Name.Local, a.Value
		switch {
		case name == "gp_index", slices.Contains(without, name), name == "complete_cpuset" && e.attr("type") == "NUMANode":
			continue
		case name == "pci_link_speed" && value == "0.000000":
			continue
		case name == "pci_type" && slices.Contains(without, "revision"):
			value = value[:strings.LastIndexByte(value, ']')+1]
		case name == "pci_type":
			value = strings.TrimSuffix(value, " ff")
			value = strings.TrimSuffix(value, " 00")
		}
		fields = append(fields, name+"="+strings.TrimSpace(value))
	}
	slices.Sort(fields)
	return fmt.Sprintf("%*s%s %s", 2*depth, "", e.XMLName.Local, strings.Join(fields, " "))
}
