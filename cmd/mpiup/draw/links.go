package draw

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// table is how each usable GPU and HCA is joined to each, in the words of nvidia-smi topo -m.
type table struct {
	Devices []string   `json:"devices"` // ids of gpus and hcas
	Rows    [][]string `json:"rows"`
}

// links is that table; nil with fewer than two devices.
func (v *View) links() *table {
	var t table
	var list []device
	for _, d := range v.devices() {
		if d.usable() {
			t.Devices, list = append(t.Devices, d.id), append(list, d)
		}
	}
	if len(list) < 2 {
		return nil
	}
	for _, from := range list {
		var row []string
		for _, to := range list {
			row = append(row, from.to(to))
		}
		t.Rows = append(t.Rows, row)
	}
	return &t
}

// words are those of the table, the nearest first: how each begins, and its meaning.
var words = []struct{ begin, meaning string }{
	{"NV", "NV# = so many NVLinks"},
	{"XGMI", "XGMI = AMD's link"},
	{"PIX", "PIX = one PCI bridge or switch between them"},
	{"PXB", "PXB = several, and no host bridge"},
	{"PHB", "PHB = one host bridge"},
	{"NODE", "NODE = host bridges of one NUMA node"},
	{"SYS", "SYS = between NUMA nodes"},
	{"?", "? = unknown"},
}

// maxTable is how many devices a table in text can have.
const maxTable = 40

// linkTable writes the table and what its words mean.
func (v *View) linkTable(w io.Writer) {
	t := v.links()
	if t == nil {
		return
	}
	if len(t.Devices) > maxTable {
		fmt.Fprintf(w, "\nLinks between %d GPUs and HCAs: see --json\n", len(t.Devices))
		return
	}
	fmt.Fprintln(w)
	columns := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(columns, "Link\t"+strings.Join(t.Devices, "\t"))
	for i, row := range t.Rows {
		fmt.Fprintln(columns, t.Devices[i]+"\t"+strings.Join(row, "\t"))
	}
	_ = columns.Flush() // the writer below keeps its error
	if legend := t.legend(); len(legend) > 0 {
		fmt.Fprintln(w, strings.Join(legend, "; "))
	}
}

// legend is what the words in the table mean.
func (t *table) legend() (legend []string) {
	all := slices.Concat(t.Rows...)
	for _, w := range words {
		if slices.ContainsFunc(all, func(word string) bool { return strings.HasPrefix(word, w.begin) }) {
			legend = append(legend, w.meaning)
		}
	}
	return legend
}
