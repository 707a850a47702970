package draw

import (
	"math"

	"github.com/mpiup/mpiup/internal/svg"
)

// Measures of the picture in pixels.
const (
	lineHeight = 16 // of a title
	gap        = 6  // between boxes and around them
	cellWidth  = 30 // of a CPU
	cellHeight = 20
	maxAcross  = 1500 // no row is made wider
)

// box is a rectangle with a title above and boxes inside. Its place is relative to the box around it.
type box struct {
	class      string // of the style sheet
	title      []string
	tip        string // shown under the mouse
	x, y, w, h int
	inside     []*box
	wires      []wire // under what is inside
	centred    bool   // the title, in the whole box
	pad        int    // around what is inside
}

// wire is a line in a box, with a text under the mouse.
type wire struct {
	x1, y1, x2, y2, width int
	tip                   string
}

// header is the height that the title takes.
func (b *box) header() int { return len(b.title) * lineHeight }

// fit gives a box the size of its title and of what is inside, which is placed already.
func (b *box) fit() *box {
	b.h = b.header() + 2*b.pad
	for i, t := range b.title {
		w := svg.Width(t)
		if b.class == "page" && i == 0 {
			w = w * 3 / 2 // larger letters
		}
		b.w = max(b.w, w+2*max(gap, b.pad))
	}
	for _, k := range b.inside {
		b.w = max(b.w, k.x+k.w+b.pad)
		b.h = max(b.h, k.y+k.h+b.pad)
	}
	return b
}

// rows places boxes from left to right in rows, so that all of them together are about as much wider
// than high as a screen is. They begin at y; the result is where they end.
func rows(boxes []*box, x, y, space int) (bottom int) {
	if len(boxes) == 0 {
		return y
	}
	area, widest, total := 0.0, 0, 0
	alike := true
	for _, b := range boxes {
		area += float64((b.w + space) * (b.h + space))
		widest = max(widest, b.w)
		total += b.w + space
		alike = alike && b.w == boxes[0].w && b.h == boxes[0].h
	}
	across := max(widest+space, int(math.Sqrt(area*2)))
	if alike {
		across = columns(len(boxes), across/(widest+space)) * (widest + space)
	}
	if !alike && total <= across*3/2 {
		across = total
	}
	if across = min(across, maxAcross); total <= maxAcross/2 && len(boxes) <= 4 {
		across = total
	}
	return place(boxes, x, y, across, space)
}

// place puts boxes into rows of a width.
func place(boxes []*box, x, y, across, space int) (bottom int) {
	left, high := x, 0
	for _, b := range boxes {
		if left > x && left+b.w+space > x+across+space {
			left, y, high = x, y+high+space, 0
		}
		b.x, b.y = left, y
		left += b.w + space
		high = max(high, b.h)
	}
	return y + high
}

// columns is how many of n alike boxes are in a row if about this many fit: a number that leaves no row
// half empty, if there is one near.
func columns(n, about int) int {
	about = max(1, min(about, n))
	for _, c := range []int{about, about + 1, about - 1, about + 2, about - 2} {
		if c > 0 && c <= n && n%c == 0 {
			return c
		}
	}
	return about
}

// stack places rows of boxes one below the other in b and gives b its size.
func (b *box) stack(groups ...[]*box) *box {
	y := b.header() + b.pad
	for _, g := range groups {
		if len(g) == 0 {
			continue
		}
		even(g)
		y = rows(g, b.pad, y, gap) + gap
		b.inside = append(b.inside, g...)
	}
	return b.fit()
}

// even makes boxes of a class as large as the largest of them, and all as high if they have no boxes inside.
func even(boxes []*box) {
	large := make(map[string]box)
	high := 0
	for _, b := range boxes {
		l := large[b.class]
		large[b.class] = box{w: max(l.w, b.w), h: max(l.h, b.h)}
		if len(b.inside) == 0 {
			high = max(high, b.h)
		}
	}
	for _, b := range boxes {
		b.w, b.h = large[b.class].w, large[b.class].h
		if len(b.inside) == 0 {
			b.h = high
		}
	}
}

// spread makes a box wider that holds alike boxes only, which then are in fewer rows.
func (b *box) spread(width int) {
	n := len(b.inside)
	if n == 0 || width < b.w {
		return
	}
	first := b.inside[0]
	for _, k := range b.inside {
		if k.w != first.w || k.h != first.h {
			return
		}
	}
	across := columns(n, (width-2*b.pad+gap)/(first.w+gap)) * (first.w + gap)
	if across > width-2*b.pad+gap {
		return
	}
	place(b.inside, b.pad, b.header()+b.pad, across, gap)
	b.w, b.h = width, 0
	b.fit()
}

// widen makes an inner box that nothing is beside as wide as b.
func (b *box) widen(inner []*box) {
	if len(inner) == 1 {
		inner[0].w = max(inner[0].w, b.w-2*b.pad)
	}
}
