package topology_test

import (
	"encoding/xml"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/test/golden"
	"github.com/mpiup/mpiup/test/machine"
	"github.com/mpiup/mpiup/topology"
	"github.com/mpiup/mpiup/topology/discover"
	"github.com/mpiup/mpiup/topology/sysfs"
)

// discovered is a machine of the corpus. The size of a page is fixed, so that the golden files
// are the same on every machine.
func discovered(t *testing.T, name string) *topology.Machine {
	t.Helper()
	m, err := discover.Machine(sysfs.New(machine.FS(t, name)), 4096)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestMachines(t *testing.T) {
	for _, name := range machine.Names(t) {
		t.Run(name, func(t *testing.T) {
			got := topology.XML(discovered(t, name))
			wellFormed(t, got)
			golden.Is(t, filepath.Join("testdata", name+".xml"), got)
			if again := topology.XML(discovered(t, name)); again != got {
				t.Error("the second time gives other bytes")
			}
		})
	}
}

// wellFormed reads the document with a parser that is not hwloc's.
func wellFormed(t *testing.T, text string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		if _, err := d.Token(); err == io.EOF {
			return
		} else if err != nil {
			t.Fatalf("%v in:\n%s", err, text)
		}
	}
}

// What a machine calls itself may hold anything.
func TestHostileText(t *testing.T) {
	const nasty = "a\"b'<c>&d]]>\x00\x01\x7f\xff\xc3\xa9\t\n\r-->\u2028"
	m, err := topology.New(topology.Parts{
		Present: idset.Of(0), Online: idset.Of(0),
		Packages: []topology.Part{{CPUs: idset.Of(0), Infos: []topology.Info{{Name: nasty, Value: nasty}}}},
		Devices:  []topology.DevicePart{{Kind: topology.OSDevNetwork, Name: nasty, Node: topology.NoIndex}},
		Hardware: []topology.Info{{Name: nasty, Value: nasty}},
	})
	if err != nil {
		t.Fatal(err)
	}
	text := topology.XML(m)
	wellFormed(t, text)
	if want := `name="a&quot;b'&lt;c&gt;&amp;d]]&gt;&#9;&#10;&#13;--&gt;"`; strings.Count(text, want) != 3 {
		t.Errorf("want %s three times in:\n%s", want, text)
	}
}
