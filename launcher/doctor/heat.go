package doctor

import (
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

// heat is one square. Its median is that of all its ways.
type heat struct {
	Measured
	at   map[[2]string]Value // by from and to; those that are not there were not measured
	told []string            // what stands out, in lines
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
	rates, trips := Measured{Test: "Bandwidth of one TCP connection", Unit: MBs}, Measured{Test: "Round trip", Unit: Micro}
	for _, w := range r.Ways {
		rates.Values = append(rates.Values, Value{w.From, w.To, w.Rate, w.Error})
		trips.Values = append(trips.Values, Value{w.From, w.To, w.RTT, w.Error})
	}
	var list []Measured
	if slices.ContainsFunc(r.Ways, func(w Way) bool { return w.Rate > 0 }) {
		list = append(list, rates)
	}
	if slices.ContainsFunc(r.Ways, func(w Way) bool { return w.RTT > 0 || w.Error != "" }) {
		list = append(list, trips)
	}
	if r.Fabric != nil {
		list = append(list, r.Fabric.Measured...)
	}
	for _, m := range list {
		if at := m.between(); len(at) > 0 {
			all = append(all, heat{Measured: m, at: at})
		}
	}
	return all
}

// draw draws a square at a place, below its title and what stands out.
func (h *heat) draw(p *svg.Picture, hosts []string, x, y, wide, side, high int) (bottom int) {
	y += 2 * heatLine
	p.Text("head", x, y, h.Test)
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
	v := h.at[[2]string{from, to}]
	tip = from + " → " + to + ": "
	switch {
	case v.Error != "":
		return "bad", "×", tip + v.Error
	case v.Value <= 0:
		return "gone", "?", tip + "not measured"
	}
	share := v.Value / h.Median
	if h.Unit == Micro {
		share = h.Median / v.Value
	}
	class, sign = "q4", h.show(v.Value)
	for i, least := range heatShares {
		if share >= least {
			class = fmt.Sprint("q", i)
			break
		}
	}
	tip += fmt.Sprintf("%s, the median is %s", sign, h.show(h.Median))
	if back := h.at[[2]string{to, from}].Value; h.worse(v.Value, back) {
		return class + " odd", "≠ " + sign, tip + "; the way back has " + h.show(back)
	}
	return class, sign, tip
}

// heatShares are the least shares of the median of each colour but the last.
var heatShares = []float64{1.5, 0.9, 0.7, slowPart}

// worse says that a way is much worse than the way back.
func (h *heat) worse(value, back float64) bool {
	const much = 2
	if h.Unit == Micro {
		value, back = back, value
	}
	return value > 0 && back > much*value
}

// look finds the median, and what stands out.
func (h *heat) look(hosts []string) {
	var values []float64
	broken, odd, missing := 0, 0, 0
	var worst Value
	medians := map[string][]float64{}
	for _, from := range hosts {
		for _, to := range hosts {
			v := h.at[[2]string{from, to}]
			switch {
			case from == to:
			case v.Error != "":
				broken++
			case v.Value <= 0:
				missing++
			default:
				values = append(values, v.Value)
				medians[from], medians[to] = append(medians[from], v.Value), append(medians[to], v.Value)
				if worst.From == "" || v.Value != worst.Value && h.lessGood(v.Value, worst.Value) {
					worst = v
				}
				if h.worse(v.Value, h.at[[2]string{to, from}].Value) {
					odd++
				}
			}
		}
	}
	h.Median = middle(values)
	if h.Median > 0 {
		h.told = append(h.told, fmt.Sprintf("median %s, worst %s (%s → %s)", h.show(h.Median), h.show(worst.Value), worst.From, worst.To))
	}
	var slow []string
	less := h.Unit == Micro
	for _, name := range hosts {
		own := middle(medians[name])
		if own > 0 && (less && own > h.Median/slowPart || !less && own < slowPart*h.Median) {
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
