package aftermath

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html"
	"io"
	"strings"
	"time"

	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/launcher/placement"
	"github.com/mpiup/mpiup/launcher/report"
	"github.com/mpiup/mpiup/launcher/verdict/logs"
)

//go:embed page.js
var script string

//go:embed page.css
var style string

//go:embed page.html
var body string

// blockSize is how many bytes of a log's text are one block, which a browser unpacks and searches at once.
const blockSize = 1 << 20

// maxPageLog is how many bytes of a log a page takes; what comes later is left out, and the page says so.
const maxPageLog = 256 << 20

// block is what page.js reads of a block beside its text. Of each line: whose it is (an index in who), its stream's first
// letter or a blank, its level, and its time in milliseconds since the run began, null where it has none.
type block struct {
	Who    [][2]any   `json:"who"` // rank and host
	By     []int      `json:"by"`
	Stream string     `json:"stream"`
	Level  string     `json:"level"`
	At     []*float64 `json:"at"`
}

// PageWriter writes one self-contained page of a run's report and its log, for a browser that reaches no network.
//
//	report.Report ──JSON, escaped──▶ <script type="application/json">
//	Log's lines ──gzip, base64─────▶ <script type="text/plain"> a block of lines each ──page.js──▶ rows, curves, tables, search
//
// What ranks wrote stands in data alone, in letters that end no element, and page.js puts it on the page as text. The page's policy lets
// nothing run but page.js, by its SHA-256, and loads nothing. It reads no file and asks no clock. NewPage begins it, Add takes a line, Close ends it.
type PageWriter struct {
	to    io.Writer
	begun time.Time
	err   error
	size  int
	left  int

	// The block that is being filled: its lines' text, streams and levels, and what else page.js reads of it.
	text    bytes.Buffer
	streams strings.Builder
	levels  strings.Builder
	is      block
	who     map[[2]any]int
}

// NewPage writes all of a page but the log. note is a sentence of doubt about the report; "": there is none.
func NewPage(w io.Writer, r *report.Report, note string) (*PageWriter, error) {
	plan, machines := r.Ran()
	var places []string // where ranks crashed, or hung
	var quoted []string // the file's own sentences
	if v := r.Verdict; v != nil {
		quoted = v.Quoted()
		places = v.Crash()
		for _, s := range v.Stacks {
			places = append(places, s.Sentence())
		}
	}
	data, err := visible.JSONLine(struct { // which escapes <, > and &
		*report.Report
		Note   string   `json:"note,omitempty"`
		Places []string `json:"places,omitempty"`
		Quoted []string `json:"quoted,omitempty"`
	}{r, note, places, quoted})
	if err != nil {
		return nil, fmt.Errorf("the page's data: %w", err)
	}
	var hosts bytes.Buffer
	if len(plan.Hosts) > 0 {
		if err := placement.Ran(&hosts, plan, machines); err != nil {
			return nil, fmt.Errorf("the page's drawing of hosts: %w", err)
		}
	}
	_, err = fmt.Fprintf(w, `<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'sha256-%s'; style-src 'sha256-%s' 'sha256-%s'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>%s</title>
<style>%s</style></head><body>
%s<script id="report" type="application/json">%s</script>
<script>%s</script>
`, digest(script), digest(style), digest(drawnStyle(hosts.Bytes())), html.EscapeString("mpiup: job "+r.Job), style, strings.Replace(body, "<!--hosts-->", hosts.String(), 1), data, script)
	p := &PageWriter{to: w, begun: r.Begun, err: err}
	p.clear()
	return p, err
}

// drawnStyle is the rules of a drawing, which are mpiup's own, as its style element has them.
func drawnStyle(svg []byte) string {
	_, after, _ := bytes.Cut(svg, []byte("<style>"))
	rules, _, _ := bytes.Cut(after, []byte("</style>"))
	return string(rules)
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return base64.StdEncoding.EncodeToString(sum[:])
}

func (p *PageWriter) clear() {
	p.text.Reset()
	p.streams.Reset()
	p.levels.Reset()
	p.is, p.who = block{Who: [][2]any{}, By: []int{}, At: []*float64{}}, map[[2]any]int{}
}

// Add takes the log's next line.
func (p *PageWriter) Add(l logs.Told) error {
	if p.err != nil {
		return p.err
	}
	l.Text = visible.Line(strings.ReplaceAll(l.Text, "\n", "⏎")) // a record's text may have several lines
	if p.size += len(l.Text) + 1; p.size > maxPageLog {
		p.left++
		return nil
	}
	if p.text.Len()+len(l.Text) >= blockSize {
		p.flush()
	}
	who := [2]any{l.Rank, l.Host}
	i, known := p.who[who]
	if !known {
		i = len(p.is.Who)
		p.who[who] = i
		p.is.Who = append(p.is.Who, who)
	}
	p.is.By = append(p.is.By, i)
	p.streams.WriteByte(streamLetter(l.Stream))
	p.levels.WriteByte(logs.Levels[l.Level][0])
	var at *float64
	if !l.Time.IsZero() {
		ms := float64(l.Time.Sub(p.begun).Milliseconds())
		at = &ms
	}
	p.is.At = append(p.is.At, at)
	p.text.WriteString(l.Text)
	p.text.WriteByte('\n')
	return p.err
}

// streamLetter is what a block has for a line's stream.
func streamLetter(stream string) byte {
	switch stream {
	case "stdout":
		return 'o'
	case "stderr":
		return 'e'
	}
	return ' '
}

// flush writes the block that was begun.
func (p *PageWriter) flush() {
	if len(p.is.By) == 0 || p.err != nil {
		return
	}
	p.is.Stream = p.streams.String()
	p.is.Level = p.levels.String()
	meta, err := visible.JSONLine(p.is)
	if err == nil {
		_, err = fmt.Fprintf(p.to, "<script type=\"text/plain\" class=\"block\">%s %s</script>\n", packed(meta), packed(p.text.Bytes()))
	}
	p.err = err
	p.clear()
}

// packed is gzip in base64.
func packed(b []byte) string {
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	_, _ = w.Write(b) // to memory
	_ = w.Close()
	return base64.StdEncoding.EncodeToString(z.Bytes())
}

// Close ends the page.
func (p *PageWriter) Close() error {
	p.flush()
	if p.err != nil {
		return p.err
	}
	_, err := fmt.Fprintf(p.to, "<script id=\"log\" type=\"application/json\">{\"left\": %d}</script></body></html>\n", p.left)
	return err
}
