package placement

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/mpiup/mpiup/internal/hostlist"
	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/layout"
	"github.com/mpiup/mpiup/internal/svg"
	"github.com/mpiup/mpiup/internal/visible"
)

// Machine is what is known of one host's machine, and of the devices that ranks would have there.
type Machine struct {
	Layout *layout.Layout // nil: not known
	GPUs   []Device
	HCAs   []Device
	Seats  map[int]Seat // by rank
	Error  string       // why there are none, or no machine
}

// Device is a GPU or an HCA.
type Device struct {
	Name, Text string
	Missing    string    // why it cannot be used; "": it can
	Near       idset.Set // CPUs; empty: unknown
}

// Seat is which devices a rank would have, or had.
type Seat struct {
	GPUs []int    `json:"gpus,omitempty"`     // indices of Machine.GPUs
	All  bool     `json:"sees_all,omitempty"` // it sees all, and GPUs has the one that goes with its local rank
	HCAs []string `json:"hcas,omitempty"`     // that its libraries are told to use
}

// Measures of the picture in pixels, and how many hosts it has.
const (
	picturePad = 14
	pictureGap = 8
	pictureRow = 17
	chipWidth  = 96 // of a rank or device, and as much more as their texts need
	chipMost   = 170
	coreWidth  = 7
	coreHeight = 12
	maxAcross  = 1500
	maxWide    = 3600 // where many hosts are about as high as wide
	maxDrawn   = 64
)

var pictureStyle = svg.Style{
	Light: `text{font:12px "DejaVu Sans",Verdana,sans-serif;fill:#1f2328}
rect{stroke:#8c959f;stroke-width:1;rx:3}
.page{fill:#fff;stroke:none}
.head{font-size:15px;font-weight:bold}
.name{font-weight:bold}
.sub{fill:#59636e}
.host{fill:#f6f8fa;stroke:#59636e;stroke-width:1.5}
.node{fill:#fff;stroke:#8c959f}
.c{stroke:#fff;stroke-width:.5;rx:1}
.free{fill:#e6e8eb}
.many{fill:#6e7781}
.many+text{fill:#fff}
.idle{fill:#fff;stroke-dasharray:3 2}
.gone{fill:#e6e8eb;stroke:#c4cad1}
.gone+text{fill:#6e7781}
.r0{fill:#a9d1f0}
.r1{fill:#f9cf94}
.r2{fill:#abe0c8}
.r3{fill:#f5bdd5}
.r4{fill:#e0d983}
.r5{fill:#cabfee}
.r6{fill:#eeb09c}
.r7{fill:#c3ccd4}`,
	Dark: `text{fill:#e6edf3}
rect{stroke:#6e7681}
.page{fill:#0d1117}
.sub{fill:#9198a1}
.host{fill:#151b23;stroke:#8b949e}
.node{fill:#0d1117;stroke:#6e7681}
.c{stroke:#0d1117}
.free{fill:#2a313c}
.many{fill:#8b949e}
.many+text{fill:#0d1117}
.idle{fill:#0d1117}
.gone{fill:#212830;stroke:#3d444d}
.gone+text{fill:#8b949e}
.r0{fill:#1f4e79}
.r1{fill:#74490d}
.r2{fill:#1a583f}
.r3{fill:#6e2f4c}
.r4{fill:#55500f}
.r5{fill:#45387c}
.r6{fill:#72321d}
.r7{fill:#3d4852}`,
}

// part is a part of the picture with its size; draw draws it at a place.
type part struct {
	w, h int
	draw func(p *svg.Picture, x, y int)
}

// SVG draws a plan: each host with its NUMA nodes, CPUs, GPUs and HCAs, and each rank where it would sit, in one colour
// with what it has. machines are in the order of the plan's hosts. What is written is one <svg> that may stand in a
// page.
func SVG(w io.Writer, plan *job.Plan, apps []job.App, machines []Machine) error {
	title := size(plan)
	if len(apps) == 1 {
		title += ": " + command(apps[0].Argv)
	}
	all := seatings(plan, machines)
	told := ""
	if left := len(all) - maxDrawn; left > 0 {
		told = fmt.Sprintf("the first %d hosts; the plan above has %d more", maxDrawn, left)
	}
	return draw(w, all[:min(len(all), maxDrawn)], title, "Where ranks would run: "+title, told)
}

// Ran draws where ranks were, as SVG does. Hosts whose ranks had the same of the same machine are one drawing, with their names.
func Ran(w io.Writer, plan *job.Plan, machines []Machine) error {
	var kinds []*seating
	of := map[string]*seating{}
	for _, s := range seatings(plan, machines) {
		key := fmt.Sprintf("%p %q %d", s.machine.Layout, s.machine.Error, s.host.Slots)
		for _, d := range slices.Concat(s.machine.GPUs, s.machine.HCAs) {
			key += fmt.Sprintf(" %q %q %q", d.Name, d.Missing, d.Near)
		}
		for _, r := range s.ranks {
			key += fmt.Sprintf(" %q", s.has(r))
		}
		first := of[key]
		if first == nil {
			of[key] = s
			kinds = append(kinds, s)
			continue
		}
		first.alike = append(first.alike, s)
	}
	title, told := size(plan), ""
	if left := len(kinds) - maxDrawn; left > 0 {
		told = fmt.Sprintf("the first %d kinds of hosts; there are %d more", maxDrawn, left)
	}
	return draw(w, kinds[:min(len(kinds), maxDrawn)], title, "Where ranks ran: "+title, told)
}

// seatings are those of a plan's hosts.
func seatings(plan *job.Plan, machines []Machine) (all []*seating) {
	on := ranksByHost(plan)
	for h := range plan.Hosts {
		var m Machine
		if h < len(machines) {
			m = machines[h]
		}
		all = append(all, &seating{plan: plan, host: plan.Hosts[h], ranks: on[h], machine: m})
	}
	return all
}

// draw writes the picture of hosts.
func draw(w io.Writer, all []*seating, title, label, told string) error {
	var cards []part
	for _, s := range all {
		cards = append(cards, s.card())
	}
	area := 0
	for _, c := range cards {
		area += c.w * c.h
	}
	body := flow(cards, min(max(maxAcross, int(math.Sqrt(float64(area)))), maxWide), 2*pictureGap)
	width := max(body.w, 760) + 2*picturePad
	p := svg.New(width, body.h+2*picturePad+4*pictureRow, label, pictureStyle)
	p.Rect("page", 0, 0, width, body.h+2*picturePad+4*pictureRow, "")
	p.Text("head", picturePad, picturePad+pictureRow, svg.Fit(title, (width-2*picturePad)*4/5))
	if told == "" {
		told = "each rank has one colour, as have its cores, GPUs and HCAs; dark: of several; dashed: of none; " +
			"grey: free, or not usable"
	}
	p.Text("sub", picturePad, picturePad+2*pictureRow, told)
	body.draw(p, picturePad, picturePad+3*pictureRow)
	return p.Write(w)
}

// seating is one host's ranks and machine.
type seating struct {
	plan    *job.Plan
	host    job.Host
	ranks   []int
	machine Machine
	alike   []*seating // hosts that the same drawing shows
}

// name is who a rank's chip stands for: it, and those with its seat on the hosts that are alike.
func (s *seating) name(users ...int) string {
	var set idset.Set
	for _, r := range users {
		set.Add(r)
		for _, other := range s.alike {
			set.Add(other.ranks[slices.Index(s.ranks, r)])
		}
	}
	return ranks(set)
}

// card is a host: its NUMA nodes side by side, and below them ranks and devices that belong to none.
func (s *seating) card() part {
	parts := s.nodes()
	var nodes []part
	loose := slices.Clone(s.ranks) // that sit in no node
	for i, cpus := range parts {
		var here []int
		loose = slices.DeleteFunc(loose, func(r int) bool {
			bound := s.plan.Placements[r].CPUs
			in := !bound.Empty() && cpus.Covers(bound)
			if in {
				here = append(here, r)
			}
			return in
		})
		drawn := idset.Union(parts[:i]...)
		near := func(d Device) bool { return d.Near.Overlaps(cpus) && !d.Near.Overlaps(drawn) } // a device is drawn once
		nodes = append(nodes, s.node(fmt.Sprintf("%s %d: CPUs %s", s.kind(), i, cpus), cpus, near, here))
	}
	elsewhere := idset.Union(parts...)
	all := []part{flow(nodes, maxAcross, pictureGap)}
	if len(loose) > 0 {
		all = append(all, label(loosely(s.plan, loose)), s.chips(loose))
	}
	if rest := s.devices(func(d Device) bool { return d.Near.Empty() || !elsewhere.Overlaps(d.Near) }); rest.w > 0 {
		all = append(all, label("near no CPU that may be used:"), rest)
	}
	if s.machine.Error != "" {
		all = append(all, label(s.machine.Error))
	}
	title := s.host.Name
	if len(s.alike) > 0 {
		names := []string{title}
		for _, other := range s.alike {
			names = append(names, other.host.Name)
		}
		title = svg.Cut(hostlist.Listed(names), 120) + " alike, each with"
	}
	title += "   " + visible.Count(len(s.ranks), "rank") + " of " + visible.Count(s.host.Slots, "slot")
	return frame("host", title, all)
}

// loosely says why ranks sit in no NUMA node.
func loosely(plan *job.Plan, ranks []int) string {
	for _, r := range ranks {
		if !plan.Placements[r].CPUs.Empty() {
			return "on CPUs of several of them, or bound to none:"
		}
	}
	return "not bound to CPUs:"
}

// nodes are the CPUs of each NUMA node, else of each package.
func (s *seating) nodes() []idset.Set {
	l := s.machine.Layout
	switch {
	case l == nil:
		return nil
	case len(l.Objects(layout.NUMA)) > 0:
		return l.Objects(layout.NUMA)
	}
	return l.Objects(layout.Package)
}

func (s *seating) kind() string {
	if len(s.machine.Layout.Objects(layout.NUMA)) > 0 {
		return "NUMA"
	}
	return "package"
}

// node is one with its cores, the devices near it and the ranks in it.
func (s *seating) node(title string, cpus idset.Set, near func(Device) bool, ranks []int) part {
	parts := []part{s.cores(cpus)}
	if d := s.devices(near); d.w > 0 {
		parts = append(parts, d)
	}
	if len(ranks) > 0 {
		parts = append(parts, s.chips(ranks))
	}
	return frame("node", title, parts)
}

// cores are a node's, each in the colour of the rank that is bound to it.
func (s *seating) cores(cpus idset.Set) part {
	const most = 48 // in a row
	var cells []part
	for _, core := range s.machine.Layout.Objects(layout.Core) {
		if !cpus.Overlaps(core) {
			continue
		}
		var users []int
		for _, r := range s.ranks {
			if s.plan.Placements[r].CPUs.Overlaps(core) {
				users = append(users, r)
			}
		}
		class, tip := "c "+s.tone(users, "free"), "CPUs "+core.String()+s.byWhom(users)
		cells = append(cells, part{coreWidth, coreHeight, func(p *svg.Picture, x, y int) {
			p.Rect(class, x, y, coreWidth, coreHeight, tip)
		}})
	}
	return flow(cells, most*coreWidth, 0)
}

func (s *seating) byWhom(users []int) string {
	if len(users) == 0 {
		return ": no rank"
	}
	return ": " + s.name(users...)
}

// tone is the colour of what these ranks have.
func (s *seating) tone(users []int, none string) string {
	switch len(users) {
	case 0:
		return none
	case 1:
		return fmt.Sprint("r", s.plan.Placements[users[0]].LocalRank%8)
	}
	return "many"
}

// devices are GPUs that are wanted, and HCAs below them, each in the colour of its rank.
func (s *seating) devices(wanted func(Device) bool) part {
	var chips []part
	wide := s.chipWidth()
	add := func(d Device, users []int) {
		class, tip := s.tone(users, "idle"), d.Name+" "+d.Text+s.byWhom(users)
		if d.Missing != "" {
			class, tip = "gone", d.Name+" cannot be used: no "+d.Missing
		}
		chips = append(chips, part{wide, pictureRow + 5, func(p *svg.Picture, x, y int) {
			p.Rect(class, x, y, wide, pictureRow+5, tip)
			p.Text("", x+6, y+pictureRow-2, svg.Fit(d.Name, wide-8))
		}})
	}
	for i, d := range s.machine.GPUs {
		if wanted(d) {
			add(d, s.users(func(seat Seat) bool { return slices.Contains(seat.GPUs, i) }))
		}
	}
	gpus := flow(chips, 4*(wide+pictureGap), pictureGap)
	chips = nil
	for _, d := range s.machine.HCAs {
		if wanted(d) {
			add(d, s.users(func(seat Seat) bool { return slices.Contains(seat.HCAs, d.Name) }))
		}
	}
	hcas := flow(chips, 4*(wide+pictureGap), pictureGap)
	if gpus.h == 0 || hcas.h == 0 {
		return flow([]part{gpus, hcas}, 0, 0)
	}
	return flow([]part{gpus, hcas}, 0, pictureGap)
}

// users are the ranks here whose seats have something.
func (s *seating) users(has func(Seat) bool) (users []int) {
	for _, r := range s.ranks {
		if has(s.machine.Seats[r]) {
			users = append(users, r)
		}
	}
	return users
}

// chips are ranks with what each has, of one size.
func (s *seating) chips(list []int) part {
	texts, high, wide := make([][]string, len(list)), 0, s.chipWidth()
	for i, r := range list {
		texts[i] = s.has(r)
		high = max(high, len(texts[i]))
	}
	chips := make([]part, len(list))
	for i, r := range list {
		class, tip := s.tone([]int{r}, ""), s.name(r)+": "+strings.Join(texts[i], ", ")
		chips[i] = part{wide, (high+1)*pictureRow + 5, func(p *svg.Picture, x, y int) {
			p.Rect(class, x, y, wide, (high+1)*pictureRow+5, tip)
			p.Text("name", x+6, y+pictureRow-2, svg.Fit(s.name(r), wide-8))
			for k, t := range texts[i] {
				p.Text("", x+6, y+(k+2)*pictureRow-3, svg.Fit(t, wide-8))
			}
		}}
	}
	across := 4
	for across < 8 && len(list) > across*across {
		across++
	}
	return flow(chips, across*(wide+pictureGap), pictureGap)
}

// chipWidth is how wide this host's chips are.
func (s *seating) chipWidth() int {
	wide := chipWidth
	for _, r := range s.ranks {
		for _, t := range append(s.has(r), s.name(r)) {
			wide = max(wide, min(svg.Width(svg.Clean(t))+10, chipMost))
		}
	}
	return wide
}

// has is what a rank has, in lines.
func (s *seating) has(r int) (lines []string) {
	if cpus := s.plan.Placements[r].CPUs; !cpus.Empty() {
		lines = append(lines, "CPUs "+cpus.String())
	}
	seat := s.machine.Seats[r]
	var names []string
	for _, i := range seat.GPUs {
		if i >= 0 && i < len(s.machine.GPUs) {
			names = append(names, s.machine.GPUs[i].Name)
		}
	}
	switch gpus := visible.Few(names, 4, " "); {
	case seat.All && len(names) > 0:
		lines = append(lines, "("+gpus+") sees all")
	case len(names) > 0:
		lines = append(lines, gpus)
	}
	if len(seat.HCAs) > 0 {
		lines = append(lines, visible.Few(seat.HCAs, 4, " "))
	}
	return lines
}

// flow places parts from left to right in rows.
func flow(list []part, across, gap int) (all part) {
	type spot struct{ x, y int }
	spots := make([]spot, len(list))
	x, y, high := 0, 0, 0
	for i, b := range list {
		if x > 0 && x+b.w > across {
			x, y, high = 0, y+high+gap, 0
		}
		spots[i] = spot{x, y}
		x, high = x+b.w+gap, max(high, b.h)
		all.w = max(all.w, spots[i].x+b.w)
	}
	all.h = y + high
	all.draw = func(p *svg.Picture, x, y int) {
		for i, b := range list {
			b.draw(p, x+spots[i].x, y+spots[i].y)
		}
	}
	return all
}

// frame is a box with a title and parts below each other.
func frame(class, title string, inside []part) part {
	f := part{w: min(svg.Width(svg.Clean(title)), maxAcross/2) + 2*pictureGap, h: pictureRow + pictureGap}
	for _, b := range inside {
		f.w, f.h = max(f.w, b.w+2*pictureGap), f.h+b.h+pictureGap
	}
	f.draw = func(p *svg.Picture, x, y int) {
		p.Rect(class, x, y, f.w, f.h, "")
		p.Text("name", x+pictureGap, y+pictureRow, svg.Fit(title, f.w-pictureGap))
		y += pictureRow + pictureGap
		for _, b := range inside {
			b.draw(p, x+pictureGap, y)
			y += b.h + pictureGap
		}
	}
	return f
}

// label is a line of text.
func label(text string) part {
	wide := min(svg.Width(svg.Clean(text)), maxAcross/2)
	return part{wide, pictureRow, func(p *svg.Picture, x, y int) {
		p.Text("sub", x, y+pictureRow-4, svg.Fit(text, wide))
	}}
}
