package hwlocxml_test

import (
	"archive/tar"
	"bytes"
	"compress/bzip2"
	"encoding/xml"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/test/machine"
	"github.com/mpiup/mpiup/test/need"
	"github.com/mpiup/mpiup/topology/discover"
	"github.com/mpiup/mpiup/topology/hwlocxml"
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
	for _, name := range machine.Names(t) {
		t.Run(name, func(t *testing.T) { agree(t, machine.Unpack(t, machine.Load(t, name)), 4096) })
	}
}

// TestLstopoAgreesOnRealMachines does so with hwloc's own collection, where it is at hand.
func TestLstopoAgreesOnRealMachines(t *testing.T) {
	need.Program(t, "lstopo-no-graphics", "hwloc-nox")
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
			agree(t, untar(t, a), pageSize)
		})
	}
}

// TestLstopoAgreesHere does so with this machine.
func TestLstopoAgreesHere(t *testing.T) {
	need.Program(t, "lstopo-no-graphics", "hwloc-nox")
	m, err := discover.Machine(sysfs.Host(), discover.Config{})
	if err != nil {
		t.Fatal(err)
	}
	file := write(t, hwlocxml.String(m))
	for _, view := range views {
		native := lstopo(t, view)
		ours := lstopo(t, view, "HWLOC_XMLFILE="+file, "HWLOC_THISSYSTEM=1", "HWLOC_THISSYSTEM_ALLOWED_RESOURCES=1")
		// memory comes and goes on a virtual machine
		compare(t, view, native, ours, "local_memory", "count", "pci_link_speed")
	}
}

func agree(t *testing.T, root string, pageSize int) {
	m, err := discover.Machine(sysfs.New(os.DirFS(root)), discover.Config{PageSize: pageSize})
	if err != nil {
		t.Fatal(err)
	}
	file := write(t, hwlocxml.String(m))
	for _, view := range views {
		native := lstopo(t, view, "HWLOC_FSROOT="+root, "HWLOC_COMPONENTS=linux,stop")
		for _, parser := range []string{"0", "1"} { // hwloc's own, libxml2
			ours := lstopo(t, view, "HWLOC_XMLFILE="+file, "HWLOC_LIBXML_IMPORT="+parser)
			compare(t, view, native, ours)
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
		case name == "pci_type":
			value = strings.TrimSuffix(value, " ff")
			value = strings.TrimSuffix(value, " 00")
		}
		fields = append(fields, name+"="+strings.TrimSpace(value))
	}
	slices.Sort(fields)
	return fmt.Sprintf("%*s%s %s", 2*depth, "", e.XMLName.Local, strings.Join(fields, " "))
}

// untar unpacks an archive that holds one directory and returns that.
func untar(t *testing.T, archive string) string {
	t.Helper()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	top := ""
	for r := tar.NewReader(bzip2.NewReader(f)); ; {
		h, err := r.Next()
		if err == io.EOF {
			return filepath.Join(dir, top)
		}
		if err == nil {
			name := path.Clean(h.Name)
			top, _, _ = strings.Cut(name, "/")
			err = unpack(root, name, h, r)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func unpack(root *os.Root, name string, h *tar.Header, r io.Reader) error {
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeDir:
		return root.MkdirAll(name, 0o755)
	case tar.TypeSymlink:
		return root.Symlink(h.Linkname, name)
	case tar.TypeReg:
		f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, fs.FileMode(0o644))
		if err != nil {
			return err
		}
		if _, err := io.Copy(f, r); err != nil {
			return err
		}
		return f.Close()
	}
	return nil
}
