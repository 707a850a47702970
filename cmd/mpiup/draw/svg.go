package draw

import (
	"bufio"
	"encoding/xml"
	"fmt"
	"io"
	"strings"
)

// style is the colours. What may not be used is grey, whatever it is; what is offline is an outline.
const style = `text{font:12px "DejaVu Sans",Verdana,sans-serif;fill:#222}
rect{stroke:#888;stroke-width:1;rx:3}
.page{fill:#fff;stroke:none}.plain{fill:none;stroke:none}
.package{fill:#f4f4f6;stroke:#444;stroke-width:1.5}.die{fill:#ececf0;stroke:#666}
.part{fill:#fff;stroke:#aaa}.group{fill:none;stroke:#777;stroke-dasharray:5 3}
.core{fill:#fff;stroke:#bbb}
.cpu{fill:#bfe3bf;stroke:#5a9a5a}.kind0{fill:#c6dbf5;stroke:#5a7fae}.kind1{fill:#b5e3e6;stroke:#4d9499}
.memory{fill:#f5e6b3;stroke:#b39c4d}
.pci{fill:#fff;stroke:#999}.gpu{fill:#d5c6ee;stroke:#7a5fae}.hca{fill:#f8cfa6;stroke:#b5793a}.net{fill:#dfe6ee;stroke:#8093a8}
.off{fill:#e4e4e4;stroke:#b0b0b0;stroke-dasharray:none}.off+text{fill:#777}
.offline{fill:#fff;stroke:#bbb;stroke-dasharray:3 2}.offline+text{fill:#999}
.links,.mesh{fill:#fff;stroke:#aaa}.link{stroke:none}.wire{stroke:#7a5fae;stroke-opacity:.55}.peer{fill:#d5c6ee;stroke:#7a5fae}
.self{fill:#f0f0f0}.nv{fill:#c3afe6}.pix{fill:#a8dba8}.pxb{fill:#cdebb5}.phb{fill:#f7f0ae}.near{fill:#fbe0b5}.sys{fill:#f8cfc4}
.num{text-anchor:middle;font-size:11px}.head{font-size:15px;font-weight:bold}`

// SVG writes the view as one picture.
func SVG(w io.Writer, v *View) error {
	page := sketch{outline{v}}.picture()
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d">`+"\n<style>%s</style>\n",
		page.w, page.h, page.w, page.h, style)
	page.write(b, 0, 0)
	fmt.Fprintln(b, "</svg>")
	return b.Flush()
}

// write draws a box whose surroundings are at x and y.
func (b *box) write(w io.Writer, x, y int) {
	x, y = x+b.x, y+b.y
	if b.class != "plain" {
		fmt.Fprintf(w, `<rect class="%s" x="%d" y="%d" width="%d" height="%d">`, b.class, x, y, b.w, b.h)
		if b.tip != "" {
			fmt.Fprintf(w, "<title>%s</title>", escape(b.tip))
		}
		fmt.Fprintln(w, "</rect>")
	}
	for _, l := range b.wires {
		fmt.Fprintf(w, `<line class="wire" x1="%d" y1="%d" x2="%d" y2="%d" stroke-width="%d"><title>%s</title></line>`+"\n",
			x+l.x1, y+l.y1, x+l.x2, y+l.y2, l.width, escape(l.tip))
	}
	for i, t := range b.title {
		switch {
		case t == "":
		case b.centred || strings.HasPrefix(b.class, "cpu") && b.w == cellWidth:
			fmt.Fprintf(w, `<text class="num" x="%d" y="%d">%s</text>`+"\n", x+b.w/2, y+b.h/2+4, escape(t))
		case b.class == "page" && i == 0:
			fmt.Fprintf(w, `<text class="head" x="%d" y="%d">%s</text>`+"\n", x+b.pad, y+lineHeight+2, escape(t))
		default:
			fmt.Fprintf(w, `<text x="%d" y="%d">%s</text>`+"\n", x+max(gap, b.pad), y+b.pad/2+(i+1)*lineHeight-4, escape(t))
		}
	}
	for _, k := range b.inside {
		k.write(w, x, y)
	}
}

func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a Builder does not fail
	return b.String()
}
