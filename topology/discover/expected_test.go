package discover_test

import (
	"encoding/xml"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mpiup/mpiup/test/golden"
	"github.com/mpiup/mpiup/test/machine"
	"github.com/mpiup/mpiup/test/need"
	"github.com/mpiup/mpiup/topology"
	"github.com/mpiup/mpiup/topology/discover"
	"github.com/mpiup/mpiup/topology/sysfs"
)

// hwlocFiles is hwloc's collection of machines with what lstopo says of each: NAME.test names the
// archive, the options and the .console or .xml file.
const hwlocFiles = "../../../shared/fixtures/hwloc"

// exceptions are where we do not say what hwloc's files say, and why. docs/topology.md has them too.
var exceptions = map[string]string{
	"40intel64-2g2n4c+pcilocality": "HWLOC_PCI_LOCALITY, by which a user tells hwloc where PCI buses are, is hwloc's own; without it lstopo and we agree",
	"nvidiagpunumanodes-kept":      "HWLOC_KEEP_NVIDIA_GPU_NUMA_NODES is hwloc's own; on POWER GPUs' memory is left out, hwloc's default",
}

// large machines are compared with lstopo itself (topology), not with files.
var large = []string{"h100", "mi300x"}

// TestExpected: what lstopo (hwloc 2.9) said of our own machines, object by object: processors, caches, memory,
// what a cgroup leaves of them, and where PCI devices hang. -update asks it again.
func TestExpected(t *testing.T) {
	names := slices.DeleteFunc(machine.Names(t), func(n string) bool { return slices.Contains(large, n) })
	if len(names) < 10 {
		t.Fatalf("only %d machines: %v", len(names), names)
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			if golden.Updating() {
				golden.Is(t, "testdata/"+name+".lstopo", asked(t, name))
			}
			want, err := os.ReadFile("testdata/" + name + ".lstopo")
			if err != nil {
				t.Fatal(err)
			}
			if lines := strings.Count(string(want), "\n"); lines < 4 {
				t.Fatalf("lstopo has said %d lines only", lines)
			}
			got := strings.Join(expectation{target: ".xml"}.ours(read(t, machine.Load(t, name))), "\n") + "\n"
			if d := cmp.Diff(string(want), got); d != "" {
				t.Errorf("- lstopo, + ours\n%s", d)
			}
		})
	}
	expectedOfHwloc(t)
}

// asked is what lstopo says of a machine of ours.
func asked(t *testing.T, name string) string {
	t.Helper()
	need.Program(t, "lstopo-no-graphics", "hwloc-nox")
	cmd := exec.Command("lstopo-no-graphics", "--of", "xml")
	// hwloc before 2.11 hides GPUs' memory everywhere, later ones on POWER only.
	cmd.Env = append(os.Environ(), "HWLOC_FSROOT="+machine.Unpack(t, machine.Load(t, name)), "HWLOC_COMPONENTS=linux,stop", "HWLOC_KEEP_NVIDIA_GPU_NUMA_NODES=1")
	text, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(linesOf(t, text), "\n") + "\n"
}

// expectedOfHwloc: the same of hwloc's own collection, of what is at hand of it.
func expectedOfHwloc(t *testing.T) {
	tests, err := filepath.Glob(hwlocFiles + "/*.test")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range tests {
		name := strings.TrimSuffix(filepath.Base(file), ".test")
		t.Run(name, func(t *testing.T) {
			if why, ok := exceptions[name]; ok {
				t.Log("not compared: " + why)
				return
			}
			spec := readTest(t, file)
			m, err := discover.Machine(sysfs.New(machine.Archive(t, filepath.Join(hwlocFiles, spec.source)).FS()), 4096)
			if err != nil {
				t.Fatal(err)
			}
			want := spec.expected(t)
			got := spec.ours(m)
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("- %s, + ours\n%s", spec.target, d)
			}
		})
	}
}

// expectation is one of hwloc's .test files.
type expectation struct {
	source, target string
	options        string
}

func readTest(t *testing.T, file string) (e expectation) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch value = strings.TrimSpace(value); key {
		case "source":
			e.source = value
		case "target":
			e.target = value
		case "options":
			e.options = value
		}
	}
	return e
}

func (e expectation) exact() bool { return strings.HasSuffix(e.target, ".xml") }

// expected is the lines of the expected file, in the words of line.
func (e expectation) expected(t *testing.T) (lines []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(hwlocFiles, e.target))
	if err != nil {
		t.Fatal(err)
	}
	if !e.exact() {
		return fromConsole(string(text))
	}
	return linesOf(t, text)
}

// linesOf is hwloc's XML in the words of line.
func linesOf(t *testing.T, text []byte) (lines []string) {
	t.Helper()
	var doc struct {
		Objects []xmlObject `xml:"object"`
	}
	if err := xml.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	for i := range doc.Objects {
		lines = fromXML(lines, &doc.Objects[i], 0)
	}
	return lines
}

var (
	consoleLine = regexp.MustCompile(`^( *)([A-Za-z0-9]+)(?:\([^)]*\))? L#\d+(?: \((.*)\))?(?: \(disallowed\))?$`)
	consoleAttr = regexp.MustCompile(`(P#\d+|(?:local|size|linesize|ways|buses|busid|id|class)=[^ )(]*)`)
)

// fromConsole reads lstopo -v's text.
func fromConsole(text string) (lines []string) {
	for line := range strings.Lines(text) {
		m := consoleLine.FindStringSubmatch(strings.TrimRight(line, "\n"))
		if strings.HasPrefix(line, "Machine ") {
			m = []string{"", "", "Machine", ""}
		}
		if m == nil || strings.HasPrefix(m[2], "OSDev") || strings.HasPrefix(line, "depth") {
			continue
		}
		if strings.HasPrefix(m[2], "Group") {
			m[2] = "Group" // Group0, Group1 ... by depth
		}
		attrs := consoleAttr.FindAllString(m[3], -1)
		attrs = slices.DeleteFunc(attrs, func(a string) bool { return m[2] == "Group" || strings.HasSuffix(a, "linesize=0") })
		lines = append(lines, strings.TrimRight(fmt.Sprintf("%*s%s %s", len(m[1]), "", m[2], strings.Join(attrs, " ")), " "))
	}
	return lines
}

type xmlObject struct {
	Type    string      `xml:"type,attr"`
	OS      string      `xml:"os_index,attr"`
	CPUs    string      `xml:"cpuset,attr"`
	Memory  string      `xml:"local_memory,attr"`
	Size    string      `xml:"cache_size,attr"`
	Line    string      `xml:"cache_linesize,attr"`
	Bridge  string      `xml:"bridge_pci,attr"`
	Bus     string      `xml:"pci_busid,attr"`
	PCI     string      `xml:"pci_type,attr"`
	Objects []xmlObject `xml:"object"`
}

func fromXML(lines []string, o *xmlObject, depth int) []string {
	if o.Type == "OSDev" || o.Type == "Misc" {
		return lines
	}
	f := []string{o.Type}
	for _, a := range []struct{ name, value string }{
		{"P#", o.OS}, {"local=", o.Memory}, {"size=", o.Size}, {"linesize=", o.Line}, {"buses=", o.Bridge}, {"busid=", o.Bus}, {"pci=", pciType(o.PCI)}, {"cpus=", o.CPUs},
	} {
		if a.value != "" && !(a.name == "P#" && o.Type == "Group") {
			f = append(f, a.name+a.value)
		}
	}
	lines = append(lines, fmt.Sprintf("%*s%s", 2*depth, "", strings.Join(f, " ")))
	for i := range o.Objects {
		lines = fromXML(lines, &o.Objects[i], depth+1)
	}
	return lines
}

// pciType is class, vendor and device of "0207 [15b3:1021] [15b3:0101] 00".
func pciType(s string) string {
	if i := strings.IndexByte(s, ']'); i > 0 {
		return s[:i+1]
	}
	return s
}

// ours is our machine as lstopo would show it with the options.
func (e expectation) ours(m *topology.Machine) (lines []string) {
	v := viewer{m: m, exact: e.exact(), all: strings.Contains(e.options, "--disallowed"), wholeIO: strings.Contains(e.options, "--whole-io"),
		noICaches: strings.Contains(e.options, "--no-icaches")}
	return v.lines(nil, m.Root, 0)
}

type viewer struct {
	m                              *topology.Machine
	exact, all, wholeIO, noICaches bool
}

func (v viewer) lines(out []string, o *topology.Object, depth int) []string {
	if !v.shown(o) {
		return out
	}
	if !v.merged(o) {
		out = append(out, strings.TrimRight(fmt.Sprintf("%*s%s", 2*depth, "", v.text(o)), " "))
		depth++
	}
	for _, list := range [][]*topology.Object{o.Memory, o.Children, o.IO} {
		for _, c := range list {
			out = v.lines(out, c, depth)
		}
	}
	return out
}

// shown: what may be used, and of I/O what lstopo calls important.
func (v viewer) shown(o *topology.Object) bool {
	switch {
	case o.Type == topology.TypeOSDevice:
		return false
	case o.Type == topology.TypePCIDevice:
		class := o.PCI.Class
		return v.wholeIO || slices.Contains([]uint16{1, 2, 3, 0x12}, class>>8) || class == 0x0b40 || class == 0x0c06 || class == 0x0604
	case o.Type == topology.TypeBridge:
		return v.wholeIO || slices.ContainsFunc(o.IO, v.shown)
	case o.Type == topology.TypeNUMANode:
		return v.all || v.m.AllowedNodes.Contains(o.OS)
	case v.all || o.Type == topology.TypeMachine:
		return true
	}
	return o.CPUs.Overlaps(v.m.AllowedCPUs) || slices.ContainsFunc(o.Memory, v.shown) || slices.ContainsFunc(o.Children, v.shown)
}

// merged are caches that are not asked for, and groups that nothing is left of beside.
func (v viewer) merged(o *topology.Object) bool {
	return v.noICaches && o.Cache != nil && o.Cache.Kind == topology.Instruction ||
		o.Type == topology.TypeGroup && v.exact && !v.all && !o.CPUs.Equal(o.CPUs.Intersect(v.m.AllowedCPUs)) && len(o.Memory) == 0
}

func (v viewer) text(o *topology.Object) string {
	name := o.Type.String()
	var f []string
	add := func(format string, args ...any) { f = append(f, fmt.Sprintf(format, args...)) }
	switch {
	case o.Type == topology.TypeBridge && !v.exact:
		return v.bridge(o)
	case o.Type == topology.TypePCIDevice && !v.exact:
		return fmt.Sprintf("PCI busid=%s id=%04x:%04x class=%04x", o.PCI.Addr, o.PCI.Vendor, o.PCI.Device, o.PCI.Class)
	case o.Cache != nil && o.Cache.Kind == topology.Data && !v.exact:
		name = strings.Replace(name, "Cache", "dCache", 1)
	}
	if o.OS >= 0 && o.Type != topology.TypeGroup && (v.exact || o.Type != topology.TypeMachine) {
		add("P#%d", o.OS)
	}
	switch {
	case o.Memo != nil && v.exact:
		add("local=%d", o.Memo.Size)
	case o.Memo != nil && o.Memo.Size > 0:
		add("local=%s", human(o.Memo.Size))
	case o.Cache != nil && v.exact:
		add("size=%d linesize=%d", o.Cache.Size, o.Cache.Line)
	case o.Cache != nil:
		add("size=%s", human(o.Cache.Size))
		if o.Cache.Line > 0 {
			add("linesize=%d", o.Cache.Line)
		}
		if o.Cache.Associativity > 0 {
			add("ways=%d", o.Cache.Associativity)
		}
	}
	if v.exact {
		if o.Bridge != nil {
			add("buses=%04x:[%02x-%02x]", o.Bridge.Domain, o.Bridge.Secondary, o.Bridge.Subordinate)
		}
		if o.PCI != nil {
			add("busid=%s pci=%04x [%04x:%04x]", o.PCI.Addr, o.PCI.Class, o.PCI.Vendor, o.PCI.Device)
		}
		if !o.Type.IO() {
			cpus := o.CPUs
			if !v.all {
				cpus = cpus.Intersect(v.m.AllowedCPUs)
			}
			add("cpus=%s", bitmap(cpus.Slice()))
		}
	}
	return name + " " + strings.Join(f, " ")
}

func (v viewer) bridge(o *topology.Object) string {
	buses := fmt.Sprintf("buses=%04x:[%02x-%02x]", o.Bridge.Domain, o.Bridge.Secondary, o.Bridge.Subordinate)
	if o.Bridge.Host {
		return "HostBridge " + buses
	}
	return fmt.Sprintf("PCIBridge busid=%s id=%04x:%04x class=%04x %s", o.PCI.Addr, o.PCI.Vendor, o.PCI.Device, o.PCI.Class, buses)
}

// human is a size in lstopo's units.
func human(n uint64) string {
	for i, unit := range []string{"KiB", "MiB", "GiB"} {
		if shift := 10 * (i + 1); n < 10<<(shift+10) || unit == "GiB" {
			return strconv.FormatUint((n>>(shift-1)+1)>>1, 10) + unit
		}
	}
	return ""
}

// bitmap is a set in hwloc's words.
func bitmap(ids []int) string {
	if len(ids) == 0 {
		return "0x0"
	}
	words := map[int]uint32{}
	last := 0
	for _, id := range ids {
		words[id/32] |= 1 << (id % 32)
		last = max(last, id/32)
	}
	var b strings.Builder
	for w := last; w >= 0; w-- {
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "0x%08x", words[w])
	}
	return b.String()
}
