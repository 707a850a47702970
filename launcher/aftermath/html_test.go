package aftermath

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/mpiup/mpiup/launcher/placement"
	"github.com/mpiup/mpiup/launcher/report"
	"github.com/mpiup/mpiup/launcher/verdict"
	"github.com/mpiup/mpiup/launcher/verdict/logs"
	"github.com/mpiup/mpiup/test/cost"
)

// hostile is what a rank may write to get its own way on the page.
var hostile = []string{
	`</script><script>alert(1)</script>`, `<!--<script>`, `]]></script >`, `"><img src=x onerror=alert(1)>`, "\u2028alert(1)\u2029",
	"\u202ereversed\u202c", "\x1b[2Jclear", "a\x00b\xff", `{"left": 1}`, `javascript:alert(1)`, strings.Repeat("<", 5000),
}

func made(t testing.TB, r *report.Report, lines []logs.Told) string {
	t.Helper()
	var b bytes.Buffer
	p, err := NewPage(&b, r, hostile[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range lines {
		if err := p.Add(l); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// elements are all that begins an element, or ends one, in the order of the page.
var elements = regexp.MustCompile(`</?[a-zA-Z!]`)

// TestHostile puts hostile text in every place of a report and of a log: the page has the elements of one with harmless text, no more, and its policy
// allows this binary's script and style alone.
func TestHostile(t *testing.T) {
	page := func(text func(i int) string) string {
		r := &report.Report{Job: text(0), Mpiup: text(1), Launcher: text(2), Command: []string{text(3)}}
		r.Verdict = &verdict.Verdict{Kind: verdict.Kind(text(5)), Evidence: []string{text(6)}, Advice: []string{text(7)}}
		r.Hosts = []report.Host{{Name: text(8), Node: text(9), Address: text(10)}}
		r.Ranks = []report.Rank{{Host: text(8), End: text(1), Last: []string{text(0), text(10)}, CPUs: "1", Seat: &placement.Seat{GPUs: []int{0, 7}, HCAs: []string{text(2)}}}}
		r.Hosts[0].Machine = 1
		r.Machines = []report.Machine{{Cores: []string{"0", "1", text(3), "0-99999999"}, NUMA: []string{text(4), "0-1"}, Packages: []string{text(5)},
			GPUs: []report.Device{{Name: text(6), Text: text(7), Near: text(8), Missing: text(9)}}, HCAs: []report.Device{{Name: text(2), Near: "0"}}}}
		r.Programs = []report.Program{{Argv: []string{text(2)}, Env: []string{text(3)}}}
		r.Events = []report.Event{{Kind: text(4), Host: text(5), Text: text(6)}}
		r.Rows = []report.Row{{Host: text(7), At: []float64{1}, Did: "w"}}
		r.Curves = []report.Curve{{Name: text(8), At: []report.Second{1}, Values: []report.Number{1}}}
		var lines []logs.Told
		for i := range hostile {
			lines = append(lines, logs.Told{Rank: i - 1, Host: text(i), Level: logs.Info, Text: text(i) + "\n" + text(0)})
		}
		return made(t, r, lines)
	}
	harmless := page(func(int) string { return "x" })
	got := page(func(i int) string { return hostile[i] })
	if a, b := elements.FindAllString(harmless, -1), elements.FindAllString(got, -1); fmt.Sprint(a) != fmt.Sprint(b) {
		t.Errorf("hostile text makes %d elements of %d", len(b), len(a))
	}
	for _, c := range []string{"\x00", "\x1b", "\u202e", "\u2028"} {
		if strings.Contains(got, c) {
			t.Errorf("the page has %q as it is", c)
		}
	}
	policy := regexp.MustCompile(`content="(default-src[^"]*)"`).FindStringSubmatch(got)
	if want := "default-src 'none'; script-src 'sha256-" + digest(script) + "'; style-src 'sha256-" + digest(style) + "' 'sha256-" +
		digest(drawnStyle([]byte(harmless[strings.Index(harmless, "<svg"):]))) + "'"; policy == nil || policy[1] != want {
		t.Errorf("policy %q, want %q", policy, want)
	}
	for _, bad := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "fetch(", "import(", "XMLHttpRequest"} {
		if strings.Contains(script, bad) {
			t.Errorf("page.js uses %s", bad)
		}
	}
}

var blocks = regexp.MustCompile(`class="block">(\S+) (\S+)</script>`)

func unpacked(t *testing.T, b64 string) []byte {
	t.Helper()
	z, err := base64.StdEncoding.DecodeString(b64)
	if err != nil {
		t.Fatal(err)
	}
	r, err := gzip.NewReader(bytes.NewReader(z))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestBlocks reads a log of several blocks back: each line with its rank, host, stream, level and time.
func TestBlocks(t *testing.T) {
	begun := time.Unix(5000, 0)
	var lines []logs.Told
	for i := range 30_000 {
		l := logs.Told{Rank: i%8 - 1, Host: fmt.Sprint("w", i%3), Stream: []string{"", "stdout", "stderr"}[i%3], Level: logs.Level(i % 4), Text: fmt.Sprint("line ", i, strings.Repeat("x", i%100))}
		if i%2 == 0 {
			l.Time = begun.Add(time.Duration(i) * time.Millisecond)
		}
		lines = append(lines, l)
	}
	n := 0
	found := blocks.FindAllStringSubmatch(made(t, &report.Report{Begun: begun}, lines), -1)
	for _, m := range found {
		var is block
		if err := json.Unmarshal(unpacked(t, m[1]), &is); err != nil {
			t.Fatal(err)
		}
		text := strings.Split(strings.TrimSuffix(string(unpacked(t, m[2])), "\n"), "\n")
		if len(text) != len(is.By) || len(is.Stream) != len(text) || len(is.Level) != len(text) || len(is.At) != len(text) {
			t.Fatalf("a block of %d lines has %d, %d, %d and %d parts", len(text), len(is.By), len(is.Stream), len(is.Level), len(is.At))
		}
		for i, line := range text {
			want := lines[n]
			n++
			who := is.Who[is.By[i]]
			if line != want.Text || fmt.Sprint(who) != fmt.Sprintf("[%d %s]", want.Rank, want.Host) || is.Level[i] != "diwe"[want.Level] ||
				(is.At[i] == nil) != want.Time.IsZero() || is.At[i] != nil && *is.At[i] != float64(n-1) || is.Stream[i] != " oe"[(n-1)%3] {
				t.Fatalf("line %d: %q %v %c %c %v", n-1, line, who, is.Stream[i], is.Level[i], is.At[i])
			}
		}
	}
	if n != len(lines) || len(found) < 2 {
		t.Errorf("%d lines of %d in %d blocks", n, len(lines), len(found))
	}
}

// TestMaxPageLog leaves out what has no room, and says how much.
func TestMaxPageLog(t *testing.T) {
	big := logs.Told{Rank: -1, Level: logs.Info, Text: strings.Repeat("y", 1<<20-1)}
	p, err := NewPage(io.Discard, &report.Report{}, "")
	if err != nil {
		t.Fatal(err)
	}
	p.size = maxPageLog - 3<<20 // as if so much had come
	var b bytes.Buffer
	p.to = &b
	for range 5 {
		if err := p.Add(big); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Close(); err != nil || !strings.Contains(b.String(), `{"left": 2}`) {
		t.Errorf("%v: %.100q", err, b.String()[max(0, b.Len()-100):])
	}
}

// pageOf is a log's page, as pageLog makes it.
func pageOf(t testing.TB, text string) {
	t.Helper()
	p, err := NewPage(io.Discard, &report.Report{}, "")
	if err != nil {
		t.Fatal(err)
	}
	var teller logs.Teller
	for line := range strings.Lines(text) {
		if err := p.Add(teller.Tell([]byte(line))); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
}

// pageCost is what a page may cost: gzip's windows, and a block's lines as numbers beside their text.
var pageCost = cost.Bound{Fixed: 64 << 20, PerByte: 2 << 10}

// A log of the shortest lines costs a page no more for each byte than one of long lines.
func TestShortLinesCostNoMore(t *testing.T) {
	for name, text := range map[string]string{
		"empty lines": strings.Repeat("\n", 400<<10),
		"one letter":  strings.Repeat("a\n", 200<<10),
		"tags":        strings.Repeat("[0]x\n", 80<<10),
		"long lines":  strings.Repeat(strings.Repeat("x", 4000)+"\n", 100),
	} {
		t.Run(name, func(t *testing.T) {
			cost.AtMost(t, pageCost, len(text), func() { pageOf(t, text) })
		})
	}
}

// Whatever a log holds, its page costs so much for each byte.
func FuzzPage(f *testing.F) {
	f.Add("[7 w0 stderr] x\ntime=x level=\nTraceback (most recent call last):\n\n\xff\r\n")
	f.Add(strings.Repeat("\n", 4000))
	for _, text := range hostile {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		defer cost.Watch(t, pageCost, len(text))()
		pageOf(t, text)
	})
}
