package draw

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/mpiup/mpiup/gpu"
	"github.com/mpiup/mpiup/internal/svg"
)

func linkClass(word string) string {
	for _, w := range words {
		if strings.HasPrefix(word, w.begin) {
			return "link " + w.class
		}
	}
	return "link self" // X, a device and itself
}

// matrixBox is the table of links in colours, so that who is near whom is seen at once; nil without one.
func (v sketch) matrixBox() *box {
	t := v.links()
	if t == nil || len(t.Devices) > maxTable {
		return nil
	}
	b := &box{class: "links", title: []string{"Links between GPUs and HCAs"}, pad: gap}
	width := 0
	for _, d := range t.Devices {
		width = max(width, svg.Width(d)+gap)
	}
	cell := func(class, text string, column, row int) {
		b.inside = append(b.inside, &box{class: class, title: []string{text}, centred: true, w: width, h: cellHeight,
			x: b.pad + column*(width+2), y: b.header() + b.pad + row*(cellHeight+2)})
	}
	for i, d := range t.Devices {
		cell("plain", d, i+1, 0)
		cell("plain", d, 0, i+1)
		for k, word := range t.Rows[i] {
			cell(linkClass(word), word, k+1, i+1)
			b.inside[len(b.inside)-1].tip = fmt.Sprintf("%s and %s: %s", d, t.Devices[k], word)
		}
	}
	y := b.header() + b.pad + (len(t.Devices)+1)*(cellHeight+2) + gap
	for _, text := range t.legend() {
		l := (&box{class: "plain", title: []string{text}}).fit()
		l.x, l.y = b.pad, y
		y += lineHeight
		b.inside = append(b.inside, l)
	}
	return b.fit()
}

// peers are the usable GPUs, if any is linked to another.
func (v sketch) peers() (all []device) {
	linked := false
	for _, d := range v.devices() {
		if d.gpu != nil && d.usable() {
			all = append(all, d)
			linked = linked || len(d.gpu.Links) > 0
		}
	}
	if !linked || len(all) < 2 || len(all) > maxTable {
		return nil
	}
	return all
}

// meshBox draws GPUs in a ring and the links of their own between them; nil where there are none.
func (v sketch) meshBox() *box {
	all := v.peers()
	if all == nil {
		return nil
	}
	const w, h = 48, 22
	radius := max(80, len(all)*w*10/42) // neighbours on the ring do not touch
	b := &box{class: "mesh", pad: gap}
	middle := func(i int) (x, y int) {
		turn := 2*math.Pi*float64(i)/float64(len(all)) - math.Pi/2
		return gap + w/2 + radius + int(float64(radius)*math.Cos(turn)), gap + h/2 + radius + int(float64(radius)*math.Sin(turn))
	}
	counts := map[int]bool{} // how many links side by side there are
	kind := gpu.LinkKind("")
	for i := range all {
		for k := range i {
			at := slices.IndexFunc(all[i].gpu.Links, func(l gpu.Link) bool { return l.To == all[k].gpu.At })
			if at < 0 {
				continue
			}
			l := all[i].gpu.Links[at]
			kind = l.Kind
			counts[l.Count] = true
			x1, y1 := middle(i)
			x2, y2 := middle(k)
			tip := fmt.Sprintf("%s and %s: %s", all[i].id, all[k].id, all[i].to(all[k]))
			b.wires = append(b.wires, wire{x1, y1, x2, y2, 1 + min(max(l.Count, 0), 24)/8, tip})
		}
	}
	if len(b.wires) == 0 {
		return nil
	}
	b.title = meshTitle(kind, len(all), len(b.wires), counts)
	for i := range b.wires {
		b.wires[i].y1 += b.header()
		b.wires[i].y2 += b.header()
	}
	for i, p := range all {
		x, y := middle(i)
		b.inside = append(b.inside, &box{class: "peer", title: []string{p.id}, centred: true, x: x - w/2, y: y - h/2 + b.header(), w: w, h: h})
	}
	return b.fit()
}

// meshTitle is "NVLink between GPUs", "each GPU with each, 18 links side by side".
func meshTitle(kind gpu.LinkKind, gpus, edges int, counts map[int]bool) []string {
	name := "NVLink"
	if kind == gpu.XGMI {
		name = "XGMI"
	}
	second := fmt.Sprintf("%d of %d pairs of GPUs are linked", edges, gpus*(gpus-1)/2)
	if edges == gpus*(gpus-1)/2 {
		second = "each GPU with each"
	}
	if len(counts) == 1 {
		for n := range counts {
			if n > 1 {
				second += fmt.Sprintf(", %d links side by side", n)
			}
		}
	}
	return []string{name + " between GPUs", second}
}
