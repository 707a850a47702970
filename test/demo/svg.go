package main

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

const (
	columns = 106 // of the terminal
	advance = 8.0 // of a character, in a fount of 13.3 px
	row     = 19.0
)

// xmlText is text as XML has it.
func xmlText(s string) string {
	var b bytes.Buffer
	if err := xml.EscapeText(&b, []byte(s)); err != nil { // a buffer takes all
		return ""
	}
	return b.String()
}

// terminal draws what a terminal shows: commands after "$ ", mpiup's own lines, and those of the first group of stacks,
// which is that of the rank that is looked for, stand out.
func terminal(page string) []byte {
	type line struct{ text, class string }
	var lines []line
	first := false
	for text := range strings.Lines(page) {
		text = strings.TrimRight(text, "\n")
		class := "o"
		switch {
		case strings.HasPrefix(text, "$ "):
			class = "c"
		case strings.HasPrefix(text, "mpiup: rank "):
			class = "r"
		case strings.HasPrefix(text, "mpiup: "):
			class = "m"
		case strings.HasPrefix(text, "rank "):
			class, first = "r", true
		case first && strings.HasPrefix(text, "    "):
			class = "r"
		default:
			first = false
		}
		for i, part := range wrapped(text) {
			if i > 0 && class == "c" {
				class = "d"
			}
			lines = append(lines, line{part, class})
		}
	}
	width, height := columns*advance+40, float64(len(lines))*row+64
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" role="img" aria-label="A terminal: mpiup run, in which rank 3 hangs and is named; mpiup stacks shows its line">
<style>text{font:13.3px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;white-space:pre}.o{fill:#c9d1d9}.c,.d{fill:#fff;font-weight:bold}.m{fill:#e3b341}.r{fill:#ff7b72;font-weight:bold}</style>
<rect width="100%%" height="100%%" rx="10" fill="#0d1117"/><circle cx="24" cy="22" r="6" fill="#ff5f57"/><circle cx="44" cy="22" r="6" fill="#febc2e"/><circle cx="64" cy="22" r="6" fill="#28c840"/>
`, width, height)
	for i, l := range lines {
		if l.text != "" {
			fmt.Fprintf(&b, "<text x=\"20\" y=\"%.0f\" class=\"%s\" xml:space=\"preserve\">%s</text>\n", 60+float64(i)*row, l.class, xmlText(l.text))
		}
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// wrapped is a line in parts that fit, broken at blanks.
func wrapped(text string) (parts []string) {
	indent := text[:len(text)-len(strings.TrimLeft(text, " "))] + "  "
	for len([]rune(text)) > columns {
		at := strings.LastIndex(string([]rune(text)[:columns+1]), " ")
		if at <= len(indent) {
			break
		}
		parts, text = append(parts, text[:at]), indent+text[at+1:]
	}
	return append(parts, text)
}

// shown are the rows of the benchmark that the picture has.
var shown = []struct{ title, what, hosts string }{
	{"MPI program to its first barrier, 4 hosts × 2 ranks", "MPICH to first barrier", "4x2"},
	{"true on 16 hosts, start to end", "true", "16x1"},
	{"torch DDP to its first all-reduce, 2 hosts × 2 ranks", "torch DDP to first all-reduce", "2x2"},
}

// bars draws times to start as bars, from the table of a benchmark.
func bars(file string) ([]byte, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	y := 30.0
	for _, s := range shown {
		type bar struct {
			who, unit string
			value     float64
		}
		var group []bar
		for l := range strings.Lines(string(text)) {
			f := strings.Split(strings.TrimRight(l, "\n"), "\t")
			if len(f) != 9 || f[0] != s.what || f[1] != s.hosts || f[2] == "floor" {
				continue
			}
			v, err := strconv.ParseFloat(f[3], 64)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			group = append(group, bar{f[2], f[6], v})
		}
		if len(group) < 2 {
			return nil, fmt.Errorf("%s has no rows of %s, %s", file, s.what, s.hosts)
		}
		most := slices.MaxFunc(group, func(a, b bar) int { return cmp.Compare(a.value, b.value) }).value
		fmt.Fprintf(&b, "<text x=\"20\" y=\"%.0f\" class=\"t\">%s</text>\n", y, xmlText(s.title))
		for _, g := range group {
			y += 24
			class := "b"
			if g.who == "mpiup" {
				class = "u"
			}
			width := 480 * g.value / most
			fmt.Fprintf(&b, "<text x=\"170\" y=\"%.0f\" class=\"w\">%s</text><rect x=\"180\" y=\"%.0f\" width=\"%.1f\" height=\"16\" rx=\"2\" class=\"%s\"/><text x=\"%.1f\" y=\"%.0f\">%s %s</text>\n",
				y, xmlText(g.who), y-13, width, class, 188+width, y, strconv.FormatFloat(g.value, 'f', -1, 64), g.unit)
		}
		y += 40
	}
	head := fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 %.0f" role="img" aria-label="Start-up times of mpiup, srun, Hydra, Open MPI and torchrun; docs/performance.md has them as a table">
<style>text{font:13px system-ui,-apple-system,"Segoe UI","DejaVu Sans",sans-serif;fill:#1f2328}.t{font-weight:bold}.w{text-anchor:end}.u{fill:#1f883d}.b{fill:#afb8c1}</style>
<rect width="100%%" height="100%%" rx="10" fill="#fff" stroke="#d1d9e0"/>
`, y-16)
	return append(append([]byte(head), b.Bytes()...), "</svg>\n"...), nil
}
