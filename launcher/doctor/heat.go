package doctor

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/mpiup/mpiup/internal/svg"
	"github.com/mpiup/mpiup/internal/visible"
)

// A heat map has a row for each host that sends and a column for each that is reached. Its colours are shares of the
// median: one bad adapter is one row and one column of another colour. They go from blue over white to orange, which is
// told apart by who does not see red or green, and what stands out has a sign besides: × does not pass, ? was not
// measured, ≠ is much worse than the way back.

// heat is one square.
type heat struct {
	title string
	less  bool                           // less is better
	value func(from, to string) heatCell // of two hosts
	show  func(float64) string

	median float64
	told   []string // what stands out, in lines
}

// heatCell is a way; the zero cell was not measured.
type heatCell struct {
	value float64
	fault string // why it does not pass
}

// Measures of the picture in pixels.
const (
	heatPad   = 16
	heatLine  = 18
	heatLarge = 80 // side of a cell with its value
	heatSmall = 16 // of one without
	heatNames = 170
)

// maxHeat is how many hosts a picture has; maxValues with values in the cells.
const (
	maxHeat   = 128
	maxValues = 16
)

var heatStyle = svg.Style{
	Light: `text{font:12px "DejaVu Sans",Verdana,sans-serif;fill:#1f2328}
rect{stroke:#fff;stroke-width:1}
.page{fill:#fff;stroke:none}
.head{font-size:15px;font-weight:bold}
.sub{fill:#59636e}
.num{text-anchor:middle;font-size:11px}
.tiny{text-anchor:middle;font-size:8px}
.to{text-anchor:end}
.q0{fill:#2c7fb8}
.q0+text{fill:#fff}
.q1{fill:#a6cee3}
.q2{fill:#f0f0f0}
.q3{fill:#fdb863}
.q4{fill:#d95f0e}
.q4+text{fill:#fff}
.bad{fill:#3b0f2b}
.bad+text{fill:#fff;font-weight:bold}
.gone{fill:#fff;stroke:#8c959f;stroke-dasharray:3 2}
.self{fill:#e6e8eb}
.odd{stroke:#1f2328;stroke-width:2}`,
	Dark: `text{fill:#e6edf3}
rect{stroke:#0d1117}
.page{fill:#0d1117}
.sub{fill:#9198a1}
.q0{fill:#3d95d6}
.q0+text{fill:#04121f}
.q1{fill:#1f4e70}
.q2{fill:#3a3f46}
.q3{fill:#a8651a}
.q4{fill:#ff8a3c}
.q4+text{fill:#1f0d00}
.bad{fill:#ffd7ea}
.bad+text{fill:#3b0f2b}
.gone{fill:#0d1117;stroke:#8c959f}
.self{fill:#21262d}
.odd{stroke:#fff}`,
}

// SVG draws the ways between hosts, a square for each thing that was measured.
func (r *Report) SVG(w io.Writer) error {
	hosts := r.Hosts[:min(len(r.Hosts), maxHeat)]
	all := r.heats()
	side, wide := heatSmall, 0
	if len(hosts) <= maxValues {
		side = heatLarge
	}
	for _, h := range hosts {
		wide = max(wide, min(svg.Width(svg.Clean(h))+40, heatNames))
	}
	high := side
	if side == heatLarge {
		high = 30
	}
	width, height := max(wide+len(hosts)*side, 36*heatPad), 3*heatLine
	for i := range all {
		all[i].look(hosts)
		height += (4+len(all[i].told))*heatLine + (len(hosts)+1)*high
		for _, t := range all[i].told {
			width = max(width, svg.Width(svg.Clean(t)))
		}
	}
	height += drawLegend(nil, 0, 0, width)
	width, height = width+2*heatPad, height+2*heatPad
	p := svg.New(width, height, "A heat map of the ways between "+visible.Count(len(r.Hosts), "host"), heatStyle)
	p.Rect("page", 0, 0, width, height, "")
	y := heatPad + heatLine
	p.Text("head", heatPad, y, "Ways between "+visible.Count(len(r.Hosts), "host")+", from row to column")
	if len(hosts) < len(r.Hosts) {
		p.Text("sub", heatPad, y+heatLine, fmt.Sprintf("the first %d of them; mpiup doctor --json has all", len(hosts)))
	}
	if len(all) == 0 {
		p.Text("sub", heatPad, y+heatLine, "no way between two hosts was looked at")
	}
	y += heatLine
	for i := range all {
		y = all[i].draw(p, hosts, heatPad, y, wide, side, high)
	}
	drawLegend(p, heatPad, y+2*heatLine, width-2*heatPad)
	return p.Write(w)
}

// heats are the squares of what was measured: bandwidth and round trips, then each benchmark.
func (r *Report) heats() (all []heat) {
	ways := map[[2]string]Pair{}
	rates, trips := false, false
	for _, p := range r.Ways {
		ways[[2]string{p.From, p.To}] = p
		rates, trips = rates || p.Rate > 0, trips || p.RTT > 0 || p.Error != ""
	}
	of := func(value func(Pair) float64) func(from, to string) heatCell {
		return func(from, to string) heatCell {
			p := ways[[2]string{from, to}]
			return heatCell{value(p), p.Error}
		}
	}
	if rates {
		all = append(all, heat{title: "Bandwidth of one TCP connection",
			value: of(func(p Pair) float64 { return p.Rate }), show: func(v float64) string { return rate(v * 1e6) }})
	}
	if trips {
		micro := &Measured{Unit: Micro}
		all = append(all, heat{title: "Round trip", less: true,
			value: of(func(p Pair) float64 { return p.RTT }), show: micro.show})
	}
	if r.Fabric == nil {
		return all
	}
	for i := range r.Fabric.Measured {
		m := &r.Fabric.Measured[i]
		at := map[[2]string]heatCell{}
		for _, v := range m.Values {
			if v.To != "" {
				at[[2]string{v.From, v.To}] = heatCell{v.Value, v.Error}
			}
		}
		if len(at) > 0 {
			all = append(all, heat{title: m.Test, less: m.Unit == Micro, show: m.show,
				value: func(from, to string) heatCell { return at[[2]string{from, to}] }})
		}
	}
	return all
}

// draw draws a square at a place, below its title and what stands out.
func (h *heat) draw(p *svg.Picture, hosts []string, x, y, wide, side, high int) (bottom int) {
	y += 2 * heatLine
	p.Text("head", x, y, h.title)
	for _, t := range h.told {
		y += heatLine
		p.Text("sub", x, y, t)
	}
	top := y + heatLine/2
	for i, name := range hosts {
		row, column, class := name, svg.Fit(name, side-2), "num"
		if side == heatSmall {
			row, column, class = fmt.Sprintf("%s  %d", name, i), fmt.Sprint(i), "tiny"
		}
		p.Text("to", x+wide-8, top+(i+1)*high+(high+8)/2, svg.Fit(row, wide-8))
		p.Text(class, x+wide+i*side+side/2, top+high-5, column)
	}
	for i, from := range hosts {
		for k, to := range hosts {
			left, above := x+wide+k*side, top+(i+1)*high
			if i == k {
				p.Rect("self", left, above, side, high, "")
				continue
			}
			class, sign, tip := h.cell(from, to)
			if strings.HasSuffix(class, "odd") { // its frame is not the next one's
				p.Rect(class, left+1, above+1, side-2, high-2, tip)
			} else {
				p.Rect(class, left, above, side, high, tip)
			}
			if side == heatSmall {
				sign, _, _ = strings.Cut(sign, " ")
				if len([]rune(sign)) > 1 {
					continue // a value, which has no room
				}
			}
			if sign != "" {
				p.Text("num", left+side/2, above+(high+8)/2, svg.Fit(sign, side-2))
			}
		}
	}
	return top + (len(hosts)+1)*high
}

// cell is a way's class, what stands in its cell, and what is shown under the mouse.
func (h *heat) cell(from, to string) (class, sign, tip string) {
	c := h.value(from, to)
	tip = from + " → " + to + ": "
	switch {
	case c.fault != "":
		return "bad", "×", tip + c.fault
	case c.value <= 0:
		return "gone", "?", tip + "not measured"
	}
	share := c.value / h.median
	if h.less {
		share = h.median / c.value
	}
	class, sign = "q4", h.show(c.value)
	for i, least := range heatShares {
		if share >= least {
			class = fmt.Sprint("q", i)
			break
		}
	}
	tip += fmt.Sprintf("%s, the median is %s", sign, h.show(h.median))
	if back := h.value(to, from); h.worse(c.value, back.value) {
		return class + " odd", "≠ " + sign, tip + "; the way back has " + h.show(back.value)
	}
	return class, sign, tip
}

// heatShares are the least shares of the median of each colour but the last.
var heatShares = []float64{1.5, 0.9, 0.7, slowPart}

// worse says that a way is much worse than the way back.
func (h *heat) worse(value, back float64) bool {
	const much = 2
	if h.less {
		value, back = back, value
	}
	return value > 0 && back > much*value
}

// look finds the median, and what stands out.
func (h *heat) look(hosts []string) {
	var values []float64
	broken, odd, missing := 0, 0, 0
	worst := [2]string{}
	most := 0.0
	medians := map[string][]float64{}
	for _, from := range hosts {
		for _, to := range hosts {
			c := h.value(from, to)
			switch {
			case from == to:
			case c.fault != "":
				broken++
			case c.value <= 0:
				missing++
			default:
				values = append(values, c.value)
				medians[from], medians[to] = append(medians[from], c.value), append(medians[to], c.value)
				if worst[0] == "" || h.less == (c.value > most) && c.value != most {
					worst, most = [2]string{from, to}, c.value
				}
				if h.worse(c.value, h.value(to, from).value) {
					odd++
				}
			}
		}
	}
	median := middleOf(values)
	h.median = median
	if median > 0 {
		h.told = append(h.told, fmt.Sprintf("median %s, worst %s (%s → %s)", h.show(median), h.show(most), worst[0], worst[1]))
	}
	var slow []string
	for _, name := range hosts {
		own := middleOf(medians[name])
		if own > 0 && (h.less && own > median/slowPart || !h.less && own < slowPart*median) {
			slow = append(slow, name)
		}
	}
	if len(slow) > 0 {
		h.told = append(h.told, "slow on most of its ways: "+few(slow))
	}
	for _, n := range []struct {
		n    int
		what string
	}{{broken, "%s × not passed"}, {missing, "%s ? not measured"}, {odd, "%s ≠ much worse than the way back"}} {
		if n.n > 0 {
			h.told = append(h.told, fmt.Sprintf(n.what, visible.Count(n.n, "way")))
		}
	}
}

// middleOf is the median; 0 of none.
func middleOf(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.SortFunc(values, cmp.Compare)
	return values[len(values)/2]
}

// heatLegend says what the colours mean.
var heatLegend = []struct{ class, text string }{
	{"q0", "≥ 150 % of the median"}, {"q1", "≥ 90 %"}, {"q2", "≥ 70 %"}, {"q3", "≥ 50 %"}, {"q4", "less"},
	{"bad", "× does not pass"}, {"gone", "? not measured"}, {"q2 odd", "≠ much worse than the way back"},
}

// drawLegend draws it in a width, without a picture nothing, and returns how high it is. No text follows its own rectangle,
// whose class would colour it.
func drawLegend(p *svg.Picture, x, y, width int) (high int) {
	for _, texts := range []bool{false, true} {
		at, row := 0, y
		for _, e := range heatLegend {
			wide := 32 + svg.Width(e.text)
			if at > 0 && at+wide > width {
				at, row = 0, row+heatLine
			}
			switch {
			case p == nil:
			case texts:
				p.Text("", x+at+21, row, e.text)
			default:
				p.Rect(e.class, x+at, row-11, 16, 14, "")
			}
			at += wide
		}
		high = row - y + heatLine
	}
	return high
}
