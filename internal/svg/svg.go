// Package svg is PURE: it writes pictures of mpiup's as SVG, for a file that a browser shows or for a page that has it
// inside.
//
//	New(size, label, style) ─▶ Rect, Text, Line, Dot in the order in which they lie over each other ─▶ Write
//
// What is drawn may come from a rank or a peer: each text and each attribute is made printable, cut and escaped here
// and nowhere else. A picture has no script, no link and nothing that is loaded; its rules hold inside its own root
// only. A Picture belongs to one goroutine.
package svg

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"hash/fnv"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Style is a picture's rules of CSS, one a line, a single selector each. Dark ones count besides where the reader wants
// it dark.
type Style struct{ Light, Dark string }

// Picture is one that is being drawn.
type Picture struct {
	body          bytes.Buffer
	width, height int
	label         string // for who does not see it
	style         Style
}

// Bounds of what comes from others. A picture of 512 ranks has some 10,000 shapes.
const (
	maxText = 300      // bytes of a text, cut at a letter's end
	maxSide = 1 << 16  // pixels
	maxBody = 64 << 20 // bytes of all shapes; what is more is left out
)

// New begins a picture of a size in pixels. The label says in a sentence what it shows.
func New(width, height int, label string, style Style) *Picture {
	return &Picture{width: min(width, maxSide), height: min(height, maxSide), label: label, style: style}
}

// Rect is a rectangle of a class; tip is shown under the mouse, "": nothing is.
func (p *Picture) Rect(class string, x, y, w, h int, tip string) {
	p.shape("rect", class, tip, fmt.Sprintf(`x="%d" y="%d" width="%d" height="%d"`, x, y, w, h))
}

// Line is a line of a width.
func (p *Picture) Line(class string, x1, y1, x2, y2, width int) {
	p.shape("line", class, "", fmt.Sprintf(`x1="%d" y1="%d" x2="%d" y2="%d" stroke-width="%d"`, x1, y1, x2, y2, width))
}

// Dot is a circle.
func (p *Picture) Dot(class string, x, y, radius int) {
	p.shape("circle", class, "", fmt.Sprintf(`cx="%d" cy="%d" r="%d"`, x, y, radius))
}

// Text is one line of text, whose blanks stay.
func (p *Picture) Text(class string, x, y int, text string) {
	if p.full() {
		return
	}
	fmt.Fprintf(&p.body, "<text%s x=\"%d\" y=\"%d\">%s</text>\n", attribute("class", class), x, y, escape(text))
}

// shape writes an element with attributes that are numbers, which are made here.
func (p *Picture) shape(name, class, tip, numbers string) {
	if p.full() {
		return
	}
	fmt.Fprintf(&p.body, "<%s%s %s", name, attribute("class", class), numbers)
	if tip == "" {
		p.body.WriteString("/>\n")
		return
	}
	fmt.Fprintf(&p.body, "><title>%s</title></%s>\n", escape(tip), name)
}

func (p *Picture) full() bool { return p.body.Len() > maxBody }

// Write writes the picture. Its rules are bound to its root, so that those of a page and of other pictures stay as they
// are.
func (p *Picture) Write(w io.Writer) error {
	var b bytes.Buffer
	root := "mpiup-" + p.name()
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" class="%s" width="%d" height="%d" viewBox="0 0 %[2]d %[3]d"`,
		root, p.width, p.height)
	fmt.Fprintf(&b, ` xml:space="preserve" role="img"%s>`+"\n", attribute("aria-label", p.label))
	fmt.Fprintf(&b, "<style>\n%s", bound(root, "text{white-space:pre}\n"+p.style.Light))
	if p.style.Dark != "" {
		fmt.Fprintf(&b, "@media (prefers-color-scheme:dark){\n%s}\n", bound(root, p.style.Dark))
	}
	b.WriteString("</style>\n")
	b.Write(p.body.Bytes())
	b.WriteString("</svg>\n")
	_, err := w.Write(b.Bytes())
	return err
}

// name tells pictures of one style from those of another.
func (p *Picture) name() string {
	sum := fnv.New32a()
	sum.Write([]byte(p.style.Light))
	return fmt.Sprintf("%08x", sum.Sum32())
}

func bound(root, rules string) string {
	var b strings.Builder
	for rule := range strings.Lines(rules) {
		if rule = strings.TrimSpace(rule); rule != "" {
			b.WriteString("." + root + " " + rule + "\n")
		}
	}
	return b.String()
}

// attribute is one with a text, and "" without.
func attribute(name, text string) string {
	if text == "" {
		return ""
	}
	return " " + name + `="` + escape(text) + `"`
}

// escape is a text as XML has it: of printable characters, and not too long.
func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(Cut(Clean(s), maxText))) // a Builder does not fail
	return b.String()
}

// Clean is text of others as one line of printable characters, with a blank for each other one.
func Clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
}

// Cut is the beginning of a text in so many bytes, with a sign that there is more.
func Cut(s string, bytes int) string {
	const more = "…"
	if len(s) <= bytes {
		return s
	}
	n := max(bytes-len(more), 0)
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + more
}

// Width is about how many pixels a text is wide, in DejaVu Sans of 12 pixels.
func Width(s string) int {
	tenths := 0
	for _, r := range s {
		tenths += width(r)
	}
	return (tenths + 9) / 10
}

func width(r rune) int {
	switch {
	case strings.ContainsRune("MWm@…", r):
		return 110
	case strings.ContainsRune(" .,:;'|!ijl()[]/", r):
		return 42
	case unicode.IsUpper(r):
		return 86
	case r >= 0x1100: // wide letters
		return 130
	}
	return 75
}

// Fit is a text, or its beginning, that is at most so many pixels wide; "" where not even a letter is.
func Fit(s string, pixels int) string {
	s = Clean(s)
	if Width(s) <= pixels {
		return s
	}
	tenths := width('…')
	for i, r := range s {
		if tenths += width(r); tenths > 10*pixels {
			if i == 0 {
				return ""
			}
			return s[:i] + "…"
		}
	}
	return s
}
