package hang

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/mpiup/mpiup/internal/svg"
	"github.com/mpiup/mpiup/internal/visible"
)

// A flame graph is all ranks' stacks as one: main stands on top, what it called below. A frame is as wide as the ranks
// that are in it, and where the paths part, the fewest stand left. What a few ranks do is orange, what most do is blue,
// and both have their ranks written on them.

// Measures of the picture in pixels, and what one may have.
const (
	flamePad   = 14
	flameRow   = 20
	flameWidth = 1200
	flameWide  = 4096 // however many ranks there are
	flameRank  = 3    // of a rank, where there is room for all
	flameLeast = 8    // of a frame
	maxFlames  = 256  // groups of ranks
	maxListed  = 12   // of them below the picture
)

var flameStyle = svg.Style{
	Light: `text{font:12px "DejaVu Sans",Verdana,sans-serif;fill:#1f2328}
rect{stroke:#fff;stroke-width:1;rx:2}
.page{fill:#fff;stroke:none}
.head{font-size:15px;font-weight:bold}
.sub{fill:#59636e}
.job{fill:#d1d9e0}
.most{fill:#b6d6f2}
.some{fill:#fbd9a5}
.few{fill:#f0883e}`,
	Dark: `text{fill:#e6edf3}
rect{stroke:#0d1117}
.page{fill:#0d1117}
.sub{fill:#9198a1}
.job{fill:#3d444d}
.most{fill:#1f4468}
.some{fill:#6b4a12}
.few{fill:#b35418}`,
}

// flame is a frame with the ranks that are in it.
type flame struct {
	frame   string
	members []Whereabouts
	below   []*flame
	wide    int
}

// FlameGraph draws groups of ranks, as GroupStacks makes them.
func FlameGraph(w io.Writer, groups []StackGroup) error {
	left := 0
	if len(groups) > maxFlames {
		groups, left = groups[:maxFlames], len(groups)-maxFlames
	}
	jobs, ranks := flames(groups)
	scale := min(max(flameRank*ranks, flameWidth), flameWide)
	deep, wide := 0, 0
	for _, j := range jobs {
		deep = max(deep, j.measure(scale, ranks))
		wide += j.wide
	}
	listed := groups[:min(len(groups), maxListed)]
	width, height := max(wide, flameWidth)+2*flamePad, 2*flamePad+(deep+len(listed)+5)*flameRow
	p := svg.New(width, height, "A flame graph of the stacks of "+visible.Count(ranks, "rank"), flameStyle)
	p.Rect("page", 0, 0, width, height, "")
	y := flamePad + flameRow
	p.Text("head", flamePad, y-4, fmt.Sprintf("Where %s: a frame is as wide as the ranks in it", isOrAre(ranks)))
	told := "the fewest stand left; a call that waits for other ranks ends its stack"
	if left > 0 {
		told += fmt.Sprintf("; %s more are left out, mpiup stacks has all", visible.Count(left, "group"))
	}
	p.Text("sub", flamePad, y+flameRow-4, told)
	x, top := flamePad, y+flameRow
	for _, j := range jobs {
		j.draw(p, x, top, j.members)
		x += j.wide
	}
	y = top + (deep+2)*flameRow
	for _, g := range listed {
		p.Rect(tone(len(g.Members), g.Of), flamePad, y-12, 16, 14, "")
		text := g.who() + ", by " + g.Means
		if len(g.Frames) > 0 {
			text += ": " + g.Frames[0]
		}
		p.Text("", flamePad+24, y, svg.Fit(text, width-2*flamePad-24))
		y += flameRow
	}
	if n := len(groups) - len(listed); n > 0 {
		p.Text("sub", flamePad+24, y, fmt.Sprintf("and %s with more ranks", visible.Count(n, "group")))
	}
	return p.Write(w)
}

func isOrAre(ranks int) string {
	if ranks == 1 {
		return "1 rank is"
	}
	return fmt.Sprintf("%d ranks are", ranks)
}

// flames are the trees of all jobs, and how many ranks they have.
func flames(groups []StackGroup) (jobs []*flame, ranks int) {
	for i := range groups {
		g := &groups[i]
		name := fmt.Sprintf("job %s%s, by %s", g.Job, Spawned(g.Number), g.Launcher)
		if len(jobs) == 0 || jobs[len(jobs)-1].frame != name {
			jobs = append(jobs, &flame{frame: name})
		}
		at := jobs[len(jobs)-1]
		at.members = append(at.members, g.Members...)
		ranks += len(g.Members)
		for _, f := range slices.Backward(g.Frames) {
			k := slices.IndexFunc(at.below, func(b *flame) bool { return b.frame == f })
			if k < 0 {
				at.below, k = append(at.below, &flame{frame: f}), len(at.below)
			}
			at = at.below[k]
			at.members = append(at.members, g.Members...)
		}
	}
	return jobs, ranks
}

// measure gives each frame its width, where so many ranks are scale wide, and returns how deep the tree is.
func (f *flame) measure(scale, ranks int) (deep int) {
	slices.SortFunc(f.members, func(a, b Whereabouts) int {
		return cmp.Or(cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.Host, b.Host))
	})
	slices.SortStableFunc(f.below, func(a, b *flame) int { return cmp.Compare(len(a.members), len(b.members)) })
	inside := 0
	for _, b := range f.below {
		deep = max(deep, b.measure(scale, ranks))
		inside += b.wide
	}
	f.wide = max(scale*len(f.members)/max(ranks, 1), inside, flameLeast)
	return deep + 1
}

// draw draws a frame and what it called; all are the ranks of its job.
func (f *flame) draw(p *svg.Picture, x, y int, all []Whereabouts) {
	who := "rank " + ranksOf(f.members)
	if len(f.members) > 1 {
		who = "ranks " + ranksOf(f.members)
	}
	who = svg.Cut(who, 80)
	text, tip := f.frame, fmt.Sprintf("%s: %s (%d of %d)", f.frame, who, len(f.members), len(all))
	class := tone(len(f.members), len(all))
	if len(f.members) == len(all) {
		class = "job"
	} else {
		text = who + ": " + f.frame
	}
	p.Rect(class, x, y, f.wide, flameRow, tip)
	if text = svg.Fit(text, f.wide-8); text != "" {
		p.Text("", x+4, y+flameRow-6, text)
	}
	for _, b := range f.below {
		b.draw(p, x, y+flameRow, all)
		x += b.wide
	}
}

// tone is the colour of what so many of all ranks do.
func tone(ranks, of int) string {
	switch {
	case 4*ranks <= of:
		return "few"
	case 2*ranks <= of:
		return "some"
	}
	return "most"
}
