package main

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/mpiup/mpiup/internal/svg"
)

const (
	columns = 106 // of the terminal
	advance = 8   // of a character, in a fount of 13.3 px
	row     = 19
)

var terminalStyle = svg.Style{Light: `text{font:13.3px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}
.page{fill:#0d1117;rx:10}
.close{fill:#ff5f57}
.hide{fill:#febc2e}
.grow{fill:#28c840}
.o{fill:#c9d1d9}
.c{fill:#fff;font-weight:bold}
.d{fill:#fff;font-weight:bold}
.m{fill:#e3b341}
.r{fill:#ff7b72;font-weight:bold}`}

var barStyle = svg.Style{
	Light: `text{font:13px system-ui,-apple-system,"Segoe UI","DejaVu Sans",sans-serif;fill:#1f2328}
.page{fill:#fff;stroke:#d1d9e0;rx:10}
.t{font-weight:bold}
.w{text-anchor:end}
.u{fill:#1f883d;rx:2}
.b{fill:#afb8c1;rx:2}`,
	Dark: `text{fill:#e6edf3}
.page{fill:#0d1117;stroke:#3d444d}
.u{fill:#3fb950}
.b{fill:#57606a}`,
}

// terminal draws what a terminal shows: commands after "$ ", mpiup's own lines, and those of the first group of stacks,
// which is that of the rank that is looked for, stand out.
func terminal(page string) *svg.Picture {
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
	width, height := columns*advance+40, len(lines)*row+64
	p := svg.New(width, height, "A terminal: mpiup run, in which rank 3 hangs and is named; mpiup stacks shows its line", terminalStyle)
	p.Rect("page", 0, 0, width, height, "")
	for i, class := range []string{"close", "hide", "grow"} {
		p.Dot(class, 24+20*i, 22, 6)
	}
	for i, l := range lines {
		if l.text != "" {
			p.Text(l.class, 20, 60+i*row, l.text)
		}
	}
	return p
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
func bars(file string) (*svg.Picture, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	type bar struct {
		who, unit string
		value     float64
	}
	groups, height := make([][]bar, len(shown)), 14
	for i, s := range shown {
		for l := range strings.Lines(string(text)) {
			f := strings.Split(strings.TrimRight(l, "\n"), "\t")
			if len(f) != 9 || f[0] != s.what || f[1] != s.hosts || f[2] == "floor" {
				continue
			}
			v, err := strconv.ParseFloat(f[3], 64)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			groups[i] = append(groups[i], bar{f[2], f[6], v})
		}
		if len(groups[i]) < 2 {
			return nil, fmt.Errorf("%s has no rows of %s, %s", file, s.what, s.hosts)
		}
		height += 40 + 24*len(groups[i])
	}
	p := svg.New(760, height, "Start-up times of mpiup, srun, Hydra, Open MPI and torchrun; docs/performance.md has them as a table", barStyle)
	p.Rect("page", 0, 0, 760, height, "")
	y := 30
	for i, s := range shown {
		most := slices.MaxFunc(groups[i], func(a, b bar) int { return cmp.Compare(a.value, b.value) }).value
		p.Text("t", 20, y, s.title)
		for _, g := range groups[i] {
			y += 24
			class := "b"
			if g.who == "mpiup" {
				class = "u"
			}
			width := int(480 * g.value / most)
			p.Text("w", 170, y, g.who)
			p.Rect(class, 180, y-13, width, 16, "")
			p.Text("", 188+width, y, strconv.FormatFloat(g.value, 'f', -1, 64)+" "+g.unit)
		}
		y += 40
	}
	return p, nil
}
