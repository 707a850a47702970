package draw

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/gpu"
	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/svg"
	"github.com/mpiup/mpiup/rdma"
	"github.com/mpiup/mpiup/test/drawing"
	"github.com/mpiup/mpiup/test/machine"
	"github.com/mpiup/mpiup/topology"
	"github.com/mpiup/mpiup/topology/discover"
	"github.com/mpiup/mpiup/topology/sysfs"
)

// In every picture boxes lie inside the one around them and beside each other, titles fit, and each
// CPU is there once.
func TestPicture(t *testing.T) {
	for _, name := range machine.Names(t) {
		t.Run(name, func(t *testing.T) {
			files := machine.FS(t, name)
			m, err := discover.Machine(sysfs.New(files), discover.Config{PageSize: 4096})
			if err != nil {
				t.Fatal(err)
			}
			limits, err := discover.Limit(files, m)
			if err != nil {
				t.Fatal(err)
			}
			none := func(string) (string, bool) { return "", false }
			v := &View{Name: name, Machine: m, Limits: limits, GPUs: gpu.Survey(sysfs.New(files), none, m), HCAs: rdma.Read(sysfs.New(files), rdma.Config{Survey: true})}
			page := sketch{outline{v}}.picture()
			checkPlaces(t, page)
			counts := map[string]int{}
			countBoxes(page, counts)
			if counts["cpu"] != m.Present.Len() || counts["gpu"]+counts["hca"] != len(v.devices()) || counts["memory"] != len(m.All(topology.TypeNUMANode)) {
				t.Errorf("%v; %d CPUs, %d devices, %d memories", counts, m.Present.Len(), len(v.devices()), len(m.All(topology.TypeNUMANode)))
			}
			checkWellFormed(t, v)
		})
	}
}

func checkPlaces(t *testing.T, b *box) {
	t.Helper()
	for _, title := range b.title {
		if b.w < svg.Width(title) && b.w != cellWidth {
			t.Errorf("%s %q is %d wide", b.class, title, b.w)
		}
	}
	for i, k := range b.inside {
		if k.x < 0 || k.y < b.header() || k.x+k.w > b.w || k.y+k.h > b.h || k.w <= 0 || k.h <= 0 {
			t.Errorf("%s %q at %d,%d of %dx%d is not inside %s %q of %dx%d", k.class, k.title, k.x, k.y, k.w, k.h, b.class, b.title, b.w, b.h)
		}
		for _, o := range b.inside[:i] {
			if k.x < o.x+o.w && o.x < k.x+k.w && k.y < o.y+o.h && o.y < k.y+k.h {
				t.Errorf("%s %q lies over %s %q", k.class, k.title, o.class, o.title)
			}
		}
		checkPlaces(t, k)
	}
}

// countBoxes counts by the first word of the class, without the legend.
func countBoxes(b *box, counts map[string]int) {
	if b.class == "plain" {
		return
	}
	word, _, _ := strings.Cut(b.class, " ")
	counts[word]++
	for _, k := range b.inside {
		countBoxes(k, counts)
	}
}

func checkWellFormed(t *testing.T, v *View) {
	t.Helper()
	var text bytes.Buffer
	if err := SVG(&text, v); err != nil {
		t.Fatal(err)
	}
	drawing.Is(t, text.String())
}

// withLinks is a machine of 8 GPUs with NVLinks as linked says, between GPUs by number.
func withLinks(t *testing.T, linked func(i, k int) int) *View {
	t.Helper()
	files := machine.FS(t, "h100")
	m, err := discover.Machine(sysfs.New(files), discover.Config{PageSize: 4096})
	if err != nil {
		t.Fatal(err)
	}
	none := func(string) (string, bool) { return "", false }
	v := &View{Name: "x", Machine: m, Limits: discover.Limits{CPUs: m.AllowedCPUs, Memory: m.AllowedNodes},
		GPUs: gpu.Survey(sysfs.New(files), none, m), HCAs: rdma.Read(sysfs.New(files), rdma.Config{Survey: true})}
	for i := range v.GPUs {
		v.GPUs[i].Memory = 80 << 30
		for k := range v.GPUs {
			if n := linked(i, k); n > 0 && i != k {
				v.GPUs[i].Links = append(v.GPUs[i].Links, gpu.Link{To: v.GPUs[k].At, Kind: gpu.NVLink, Count: n})
			}
		}
	}
	return v
}

// GPUs' own links are drawn, with the table of all links, link speeds and GPUs' memory.
func TestLinksAreDrawn(t *testing.T) {
	for _, tt := range []struct {
		name   string
		linked func(i, k int) int
		wires  int
		title  string
	}{
		{"each with each", func(i, k int) int { return 18 }, 28, "each GPU with each, 18 links side by side"},
		{"a ring", func(i, k int) int {
			if (i+1)%8 == k || (k+1)%8 == i {
				return 1
			}
			return 0
		}, 8, "8 of 28 pairs of GPUs are linked"},
		{"none", func(i, k int) int { return 0 }, 0, ""},
	} {
		v := withLinks(t, tt.linked)
		page := sketch{outline{v}}.picture()
		checkPlaces(t, page)
		checkWellFormed(t, v)
		counts := map[string]int{}
		countBoxes(page, counts)
		if counts["link"] != 16*16 || counts["peer"] != 8 && tt.wires > 0 || counts["peer"] > 0 && tt.wires == 0 {
			t.Errorf("%s: %v", tt.name, counts)
		}
		if mesh := (sketch{outline{v}}).meshBox(); tt.wires > 0 && (len(mesh.wires) != tt.wires || mesh.title[1] != tt.title) || tt.wires == 0 && mesh != nil {
			t.Errorf("%s: %+v", tt.name, mesh)
		}
		var text bytes.Buffer
		if err := SVG(&text, v); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{">80 GiB</text>", "0000:01:00.0, link 63 GB/s</text>", ">PIX</text>", "GPU0 and mlx5_0: PIX"} {
			if !strings.Contains(text.String(), want) {
				t.Errorf("%s: %q is not drawn", tt.name, want)
			}
		}
	}
}

// What a machine calls itself may hold anything.
func TestHostileNames(t *testing.T) {
	const nasty = "<a&b>\x1b[31m\x00\"'\u202e\n\xff"
	at := topology.PCIAddr{Bus: 1}
	m, err := topology.New(topology.Parts{
		Present: idset.Of(0), Online: idset.Of(0),
		Packages: []topology.Part{{CPUs: idset.Of(0), Infos: []topology.Info{{Name: "CPUModel", Value: nasty}}}},
		PCI:      []topology.PCIPart{{PCIDevice: topology.PCIDevice{Addr: at}}},
		Devices:  []topology.DevicePart{{Kind: topology.OSDevNetwork, Name: nasty, At: &at}},
		Hardware: []topology.Info{{Name: "DMIProductName", Value: nasty}},
	})
	if err != nil {
		t.Fatal(err)
	}
	v := &View{Name: "x", Machine: m, Limits: discover.Limits{CPUs: m.AllowedCPUs, Memory: m.AllowedNodes},
		GPUs: []gpu.Seen{{GPU: gpu.GPU{Model: nasty, At: at, UUID: nasty}, Missing: nasty}},
		HCAs: rdma.Inventory{HCAs: []rdma.HCA{{Name: nasty, Ports: []rdma.Port{{Number: 1, State: nasty, Layer: nasty, Speed: nasty}}}}}, Notes: []string{nasty}}
	checkWellFormed(t, v)
	for _, write := range []func(io.Writer, *View) error{Text, JSON, SVG} {
		var text bytes.Buffer
		if err := write(&text, v); err != nil || strings.ContainsAny(text.String(), "\x1b\x00\u202e") {
			t.Errorf("%v: %q", err, text.String())
		}
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

func TestAFullDiskIsTold(t *testing.T) {
	files := machine.FS(t, "container")
	m, err := discover.Machine(sysfs.New(files), discover.Config{PageSize: 4096})
	if err != nil {
		t.Fatal(err)
	}
	v := &View{Machine: m, Limits: discover.Limits{CPUs: m.AllowedCPUs, Memory: m.AllowedNodes}}
	for _, write := range []func(io.Writer, *View) error{Text, JSON, SVG} {
		if err := write(full{}, v); err != io.ErrShortWrite {
			t.Error(err)
		}
	}
}
