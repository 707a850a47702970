package monitoring

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mpiup/mpiup/internal/svg"
	"github.com/mpiup/mpiup/test/drawing"
	"github.com/mpiup/mpiup/test/lab"
)

var picture = flag.String("picture", "", "draw the board of examples/monitoring into this file, with what Prometheus has of a minute's run")

const (
	column, unit = 38, 22 // pixels of a column and a row of Grafana's grid
	legendLine   = 15
	shownSeries  = 4
)

var boardStyle = svg.Style{Light: `text{font:12px system-ui,-apple-system,"Segoe UI","DejaVu Sans",sans-serif;fill:#1f2328}
.page{fill:#f4f5f5}
.panel{fill:#fff;stroke:#d1d9e0;rx:3}
.t{font-weight:bold}
.n{fill:#6e7781}
.f0{fill:#3274d9}
.f1{fill:#e0752d}
.f2{fill:#299c46}
.f3{fill:#a352cc}
.s0{stroke:#3274d9}
.s1{stroke:#e0752d}
.s2{stroke:#299c46}
.s3{stroke:#a352cc}`, Dark: `text{fill:#e6edf3}
.page{fill:#0d1117}
.panel{fill:#161b22;stroke:#3d444d}
.n{fill:#8b949e}`}

// panel is one of the board's.
type panel struct {
	Type, Title string
	GridPos     struct{ X, Y, W, H int }
	FieldConfig struct{ Defaults struct{ Unit string } }
	Targets     []struct{ Expr, LegendFormat string }
}

// series is what Prometheus has of one query's answer.
type series struct {
	name string
	at   []float64 // seconds since 1970
	is   []float64
}

// draw writes the board with a run's last minute. It is no photograph of Grafana: panels, titles and queries are the board's, values are
// Prometheus', lines are ours.
func draw(t *testing.T, s server) {
	t.Helper()
	lab.Eventually(t, "a minute of the run", func() bool {
		return len(s.query(t, `count_over_time(mpiup_sessions{job="worker"}[80s]) >= 60`)) > 0
	})
	var board struct{ Panels []panel }
	if err := json.Unmarshal([]byte(read(t, "board.json")), &board); err != nil {
		t.Fatal(err)
	}
	height := 0
	for _, p := range board.Panels {
		height = max(height, (p.GridPos.Y+p.GridPos.H)*unit)
	}
	pic := svg.New(24*column, height+30, "The board of examples/monitoring: panels with the metrics of a run of three ranks on two hosts", boardStyle)
	pic.Rect("page", 0, 0, 24*column, height+30, "")
	pic.Text("n", 12, height+20, "Drawn from board.json with what Prometheus scraped of a minute's run of three ranks on two hosts; not a photograph of Grafana.")
	end := time.Now()
	for _, p := range board.Panels {
		p.draw(pic, s.ranges(t, p, end.Add(-time.Minute), end))
	}
	var b bytes.Buffer
	if err := pic.Write(&b); err != nil {
		t.Fatal(err)
	}
	drawing.Is(t, b.String())
	if err := os.WriteFile(*picture, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// ranges are the answers to a panel's queries, a point a second.
func (s server) ranges(t *testing.T, p panel, from, to time.Time) (list []series) {
	t.Helper()
	label := regexp.MustCompile(`{{(\w+)}}`)
	for _, q := range p.Targets {
		values := url.Values{"query": {fill.Replace(q.Expr)}, "start": {fmt.Sprint(from.Unix())}, "end": {fmt.Sprint(to.Unix())}, "step": {"1"}}
		for _, raw := range s.ask(t, "query_range", values) {
			var one struct {
				Metric map[string]string
				Values [][2]any
			}
			if err := json.Unmarshal(raw, &one); err != nil {
				t.Fatal(err)
			}
			name := label.ReplaceAllStringFunc(q.LegendFormat, func(l string) string { return one.Metric[strings.Trim(l, "{}")] })
			if name == "" {
				name = strings.Join(slices.Sorted(maps.Values(one.Metric)), " ")
			}
			got := series{name: name}
			for _, v := range one.Values {
				n, err := strconv.ParseFloat(fmt.Sprint(v[1]), 64)
				if err != nil {
					t.Fatal(err)
				}
				got.at, got.is = append(got.at, v[0].(float64)), append(got.is, n)
			}
			list = append(list, got)
		}
	}
	return list
}

func (p panel) draw(pic *svg.Picture, list []series) {
	x, y, w, h := p.GridPos.X*column+4, p.GridPos.Y*unit+4, p.GridPos.W*column-8, p.GridPos.H*unit-8
	pic.Rect("panel", x, y, w, h, "")
	pic.Text("t", x+10, y+20, p.Title)
	if len(list) == 0 {
		pic.Text("n", x+w/2-24, y+h/2+8, "No data")
		return
	}
	slices.SortStableFunc(list, func(a, b series) int { return cmpLast(b, a) })
	list = list[:min(len(list), shownSeries)]
	if p.Type != "timeseries" { // the newest value of each
		for i, s := range list {
			at := y + 40 + i*24
			pic.Text("", x+10, at+12, s.name)
			width := (w - 260) * int(1000*last(s)/max(last(list[0]), 1e-9)) / 1000
			pic.Rect(fmt.Sprint("f", i), x+160, at, max(width, 2), 16, "")
			pic.Text("n", x+170+width, at+12, amount(last(s), p.FieldConfig.Defaults.Unit))
		}
		return
	}
	top, begun, ended := 0.0, math.Inf(1), 0.0
	for _, s := range list {
		top, begun, ended = max(top, slices.Max(s.is)), min(begun, s.at[0]), max(ended, s.at[len(s.at)-1])
	}
	left, right, upper, lower := x+60, x+w-12, y+34, y+h-12-legendLine*((len(list)+1)/2)
	place := func(at, v float64) (int, int) {
		return left + int(float64(right-left)*(at-begun)/max(ended-begun, 1)), lower - int(float64(lower-upper)*v/max(top, 1e-9))
	}
	pic.Text("n", x+10, upper+4, amount(top, p.FieldConfig.Defaults.Unit))
	pic.Text("n", x+10, lower+4, "0")
	for i, s := range list {
		for j := 1; j < len(s.at); j++ {
			if s.at[j]-s.at[j-1] < 2 {
				x1, y1 := place(s.at[j-1], s.is[j-1])
				x2, y2 := place(s.at[j], s.is[j])
				pic.Line(fmt.Sprint("s", i), x1, y1, x2, y2, 2)
			}
		}
		lx, ly := left+(i%2)*(right-left)/2, lower+18+legendLine*(i/2)
		pic.Rect(fmt.Sprint("f", i), lx, ly-8, 10, 3, "")
		pic.Text("", lx+16, ly, svg.Fit(s.name, (right-left)/2-24))
	}
}

func last(s series) float64 { return s.is[len(s.is)-1] }

func cmpLast(a, b series) int {
	switch {
	case last(a) < last(b):
		return -1
	case last(a) > last(b):
		return 1
	}
	return strings.Compare(b.name, a.name)
}

// amount is a number with its unit.
func amount(v float64, unit string) string {
	text := strconv.FormatFloat(v, 'g', 3, 64)
	switch unit {
	case "s":
		return text + " s"
	case "Bps":
		return text + " B/s"
	}
	return text
}
