package draw

import (
	"io"
	"strings"

	"github.com/mpiup/mpiup/internal/svg"
)

// style is the colours. What may not be used is grey, whatever it is; what is offline is an outline.
var style = svg.Style{
	Light: `text{font:12px "DejaVu Sans",Verdana,sans-serif;fill:#222}
rect{stroke:#888;stroke-width:1;rx:3}
.page{fill:#fff;stroke:none}
.package{fill:#f4f4f6;stroke:#444;stroke-width:1.5}
.die{fill:#ececf0;stroke:#666}
.part{fill:#fff;stroke:#aaa}
.group{fill:none;stroke:#777;stroke-dasharray:5 3}
.core{fill:#fff;stroke:#bbb}
.cpu{fill:#bfe3bf;stroke:#5a9a5a}
.kind0{fill:#c6dbf5;stroke:#5a7fae}
.kind1{fill:#b5e3e6;stroke:#4d9499}
.memory{fill:#f5e6b3;stroke:#b39c4d}
.pci{fill:#fff;stroke:#999}
.gpu{fill:#d5c6ee;stroke:#7a5fae}
.hca{fill:#f8cfa6;stroke:#b5793a}
.net{fill:#dfe6ee;stroke:#8093a8}
.off{fill:#e4e4e4;stroke:#b0b0b0;stroke-dasharray:none}
.off+text{fill:#777}
.offline{fill:#fff;stroke:#bbb;stroke-dasharray:3 2}
.offline+text{fill:#999}
.links{fill:#fff;stroke:#aaa}
.mesh{fill:#fff;stroke:#aaa}
.link{stroke:none}
.wire{stroke:#7a5fae;stroke-opacity:.55}
.peer{fill:#d5c6ee;stroke:#7a5fae}
.self{fill:#f0f0f0}
.nv{fill:#c3afe6}
.pix{fill:#a8dba8}
.pxb{fill:#cdebb5}
.phb{fill:#f7f0ae}
.near{fill:#fbe0b5}
.sys{fill:#f8cfc4}
.num{text-anchor:middle;font-size:11px}
.head{font-size:15px;font-weight:bold}`,
	Dark: `text{fill:#e6edf3}
.page{fill:#0d1117}
.package{fill:#161b22;stroke:#8b949e}
.die{fill:#1c2128;stroke:#8b949e}
.part{fill:#0d1117;stroke:#484f58}
.core{fill:#0d1117;stroke:#484f58}
.cpu{fill:#1d4428;stroke:#4d9a5a}
.kind0{fill:#1f3a5f;stroke:#5a8fce}
.kind1{fill:#12454a;stroke:#4da4a9}
.memory{fill:#4a3f14;stroke:#b39c4d}
.pci{fill:#0d1117;stroke:#6e7681}
.gpu{fill:#3b2a5e;stroke:#a58be0}
.hca{fill:#5a3512;stroke:#d08f4a}
.net{fill:#222d38;stroke:#8093a8}
.off{fill:#2a2e34;stroke:#484f58}
.off+text{fill:#8b949e}
.offline{fill:#0d1117;stroke:#484f58}
.links{fill:#0d1117;stroke:#484f58}
.mesh{fill:#0d1117;stroke:#484f58}
.link{stroke:none}
.wire{stroke:#a58be0}
.peer{fill:#3b2a5e;stroke:#a58be0}
.self{fill:#21262d}
.nv{fill:#4d3a7a}
.pix{fill:#1f5a2c}
.pxb{fill:#3a5220}
.phb{fill:#5a5214}
.near{fill:#5f4518}
.sys{fill:#65322a}`,
}

// SVG writes the view as one picture.
func SVG(w io.Writer, v *View) error {
	page := sketch{outline{v}}.picture()
	p := svg.New(page.w, page.h, "The machine "+strings.Join(page.title[:2], ": "), style)
	page.draw(p, 0, 0)
	return p.Write(w)
}

// draw draws a box whose surroundings are at x and y.
func (b *box) draw(p *svg.Picture, x, y int) {
	x, y = x+b.x, y+b.y
	if b.class != "plain" {
		p.Rect(b.class, x, y, b.w, b.h, b.tip)
	}
	for _, l := range b.wires {
		p.Line("wire", x+l.x1, y+l.y1, x+l.x2, y+l.y2, l.width, l.tip)
	}
	for i, t := range b.title {
		switch {
		case t == "":
		case b.centred || strings.HasPrefix(b.class, "cpu") && b.w == cellWidth:
			p.Text("num", x+b.w/2, y+b.h/2+4, t)
		case b.class == "page" && i == 0:
			p.Text("head", x+b.pad, y+lineHeight+2, t)
		default:
			p.Text("", x+max(gap, b.pad), y+b.pad/2+(i+1)*lineHeight-4, t)
		}
	}
	for _, k := range b.inside {
		k.draw(p, x, y)
	}
}
