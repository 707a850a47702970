// Package drawing looks at pictures as tests want them: SVG that is well formed, runs nothing, loads nothing and shows
// no character that is not printable.
package drawing

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"unicode"
)

// elements are what a picture may have, with the attributes of each.
var elements = map[string]string{
	"svg":    "xmlns class width height viewBox space role aria-label",
	"style":  "",
	"title":  "",
	"rect":   "class x y width height",
	"line":   "class x1 y1 x2 y2 stroke-width",
	"circle": "class cx cy r",
	"text":   "class x y",
}

// Shown is what a picture shows: its texts, and what is under the mouse.
type Shown struct{ Texts, Tips []string }

// Is fails the test where a text is no picture of mpiup's.
func Is(t testing.TB, text string) (s Shown) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(text))
	var open []string
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("no XML: %v", err)
		}
		switch e := token.(type) {
		case xml.StartElement:
			open = append(open, e.Name.Local)
			allowed, known := elements[e.Name.Local]
			if !known || len(open) == 1 && e.Name.Local != "svg" {
				t.Fatalf("a picture has no <%s> there", e.Name.Local)
			}
			for _, a := range e.Attr {
				if !strings.Contains(" "+allowed+" ", " "+a.Name.Local+" ") {
					t.Fatalf("<%s> has no attribute %s", e.Name.Local, a.Name.Local)
				}
				printable(t, a.Value)
			}
		case xml.EndElement:
			open = open[:len(open)-1]
		case xml.CharData:
			word := string(e)
			switch open = append(open, ""); open[max(len(open)-2, 0)] {
			case "text":
				s.Texts = append(s.Texts, word)
				printable(t, word)
			case "title":
				s.Tips = append(s.Tips, word)
				printable(t, word)
			case "style":
				if strings.Contains(word, "url(") || strings.Contains(word, "@import") {
					t.Fatalf("a style loads something: %s", word)
				}
			default:
				if strings.TrimSpace(word) != "" {
					t.Fatalf("text outside of <text>: %q", word)
				}
			}
			open = open[:len(open)-1]
		default:
			t.Fatalf("a picture has no %T", token)
		}
	}
	return s
}

func printable(t testing.TB, text string) {
	t.Helper()
	for _, r := range text {
		if !unicode.IsPrint(r) {
			t.Fatalf("%q is shown", text)
		}
	}
}
