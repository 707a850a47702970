package svg_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/internal/svg"
	"github.com/mpiup/mpiup/test/cost"
	"github.com/mpiup/mpiup/test/drawing"
	"github.com/mpiup/mpiup/test/golden"
)

var style = svg.Style{Light: "rect{fill:#fff}\n.a{fill:#000}", Dark: ".a{fill:#fff}"}

func TestWrite(t *testing.T) {
	p := svg.New(100, 50, "two shapes", style)
	p.Rect("a", 1, 2, 3, 4, "a tip")
	p.Rect("", 1, 2, 3, 4, "")
	p.Line("a", 1, 2, 3, 4, 5)
	p.Dot("a", 1, 2, 3)
	p.Text("a", 1, 2, "one & two")
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	drawing.Is(t, b.String())
	golden.Is(t, "testdata/shapes.svg", b.String())
}

// Two pictures on one page leave each other's colours alone.
func TestStylesAreBound(t *testing.T) {
	var first, second bytes.Buffer
	if err := svg.New(1, 1, "", style).Write(&first); err != nil {
		t.Fatal(err)
	}
	if err := svg.New(1, 1, "", svg.Style{Light: "rect{fill:#123}"}).Write(&second); err != nil {
		t.Fatal(err)
	}
	for rule := range strings.Lines(second.String()) {
		bound := strings.HasPrefix(rule, ".mpiup-") && !strings.Contains(first.String(), strings.Fields(rule)[0])
		if strings.Contains(rule, "{fill") && !bound {
			t.Errorf("%q is not bound to its picture", rule)
		}
	}
}

func TestFit(t *testing.T) {
	for _, tt := range []struct {
		text   string
		pixels int
		want   string
	}{
		{"rank 0", 100, "rank 0"},
		{"rank 0", 30, "ra…"},
		{"rank 0", 12, ""},
		{"", 0, ""},
		{"a\x1b\u202eb", 100, "a  b"},
	} {
		got := svg.Fit(tt.text, tt.pixels)
		if got != tt.want || svg.Width(got) > tt.pixels {
			t.Errorf("%q in %d: %q", tt.text, tt.pixels, got)
		}
	}
	if got := svg.Cut("aé€x", 5); got != "a…" {
		t.Errorf("%q", got)
	}
}

// FuzzPicture: whatever text comes, the picture is well formed and has nothing but shapes.
func FuzzPicture(f *testing.F) {
	f.Add("a", "<script>alert(1)</script>", "x")
	f.Add(`" onload="alert(1)`, "]]>&#x3c;</title><image href='http://x/'/>", "\x00\xff\u202e\ufffe</style>")
	f.Fuzz(func(t *testing.T, class, text, label string) {
		defer cost.Watch(t, cost.Parser, len(class)+len(text)+len(label))()
		p := svg.New(10, 10, label, style)
		p.Rect(class, 1, 2, 3, 4, text)
		p.Line(class, 1, 2, 3, 4, 5)
		p.Text(class, 1, 2, text)
		p.Text(class, 1, 2, svg.Fit(text, 100))
		var b bytes.Buffer
		if err := p.Write(&b); err != nil {
			t.Fatal(err)
		}
		if b.Len() > 30000 {
			t.Errorf("%d bytes", b.Len())
		}
		drawing.Is(t, b.String())
	})
}
