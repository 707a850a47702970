package report

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/launcher/verdict"
	"github.com/mpiup/mpiup/test/cost"
	"github.com/mpiup/mpiup/test/golden"
)

var begun = time.Date(2026, 11, 23, 4, 0, 0, 0, time.UTC)

func after(ms int) time.Time { return begun.Add(time.Duration(ms) * time.Millisecond) }

// recorded is the report of a run of four ranks on two hosts, of which rank 2 raised.
func recorded() *Report {
	var r Recorder
	r.Begin(Report{Mpiup: "v0.1.0", Job: "3f2a", Command: []string{"mpiup", "run", "-n", "4", "-x", "API_TOKEN=abc", "python3", "train.py"}, Launcher: "launcher", Begun: begun})
	r.Host(Host{Name: "w0", Address: "10.0.0.2:7777", CPUs: 8, GPUs: 2, Node: "node-a"}, after(120))
	r.Host(Host{Name: "w1", Address: "10.0.0.3:7777", CPUs: 8, GPUs: 2}, after(131))
	r.Programs([]Program{{Argv: []string{"python3", "train.py"}, Env: []string{"EPOCHS=3", "HF_TOKEN=hf_abcdefghijklmnopqrstuv"}}})
	for rank := range 4 {
		r.Rank(Rank{Rank: rank, Host: fmt.Sprint("w", rank/2), CPUs: "0-3"})
	}
	r.Event(after(140), Event{Kind: Launched, Text: "4 ranks of python3"})
	for rank := range 4 {
		r.Started(after(150+rank), rank, 100+rank)
	}
	r.Ended(after(9000), 2, "exit code 1")
	r.Last(2, job.Stderr, []string{"Traceback (most recent call last):", "ValueError: bad\x1b[31m batch"})
	r.Event(after(9001), Event{Kind: Stopping, Text: "a rank failed; Authorization: Bearer abcdefgh"})
	for _, rank := range []int{0, 1, 3} {
		r.Ended(after(9050+rank), rank, "signal 15 (SIGTERM)")
	}
	return r.Report(Report{Ended: after(9100), ExitCode: 1, Verdict: &verdict.Verdict{Kind: verdict.Python, Evidence: []string{"rank 2 on w1 raised ValueError: bad batch"}, Advice: []string{"look at the traceback"}}})
}

func TestTimeline(t *testing.T) {
	var b strings.Builder
	if err := Timeline(&b, recorded(), View{}); err != nil {
		t.Fatal(err)
	}
	golden.Is(t, "testdata/timeline.txt", b.String())
}

// What is wanted of a timeline is left of it.
func TestTimelineOfSome(t *testing.T) {
	for _, c := range []struct {
		name       string
		view       View
		has, lacks []string
	}{
		{"a rank", View{Ranks: idset.Of(2)}, []string{"started", "exit code 1", "Last lines of rank 2"}, []string{"launched", "SIGTERM", "stopping"}},
		{"a rank that has no lines", View{Ranks: idset.Of(0)}, []string{"SIGTERM"}, []string{"exit code 1\n", "Last lines"}},
		{"a host", View{Host: "w1"}, []string{"found", "Last lines of rank 2"}, []string{"w0: "}},
		{"another host", View{Host: "w0"}, []string{"w0: "}, []string{"Last lines", "stopping"}},
		{"the end", View{Since: after(9001)}, []string{"stopping", "SIGTERM"}, []string{"found ", "launched"}},
		{"the beginning", View{Until: after(140)}, []string{"found "}, []string{"launched", "stopping"}},
		{"a stream", View{Stream: "stderr"}, []string{"Last lines of rank 2"}, nil},
		{"the other stream", View{Stream: "stdout"}, []string{"stopping"}, []string{"Last lines"}},
		{"lines", View{Line: func(l string) bool { return strings.Contains(l, "Error") }}, []string{"ValueError"}, []string{"Traceback"}},
	} {
		var b strings.Builder
		if err := Timeline(&b, recorded(), c.view); err != nil {
			t.Fatal(err)
		}
		top, text, _ := strings.Cut(b.String(), "Host w1:") // below what says how it ended
		if _, last, ok := strings.Cut(top, "\nLast lines"); ok {
			last, _, _ = strings.Cut(last, "\nHost ")
			text += "\nLast lines" + last
		}
		for _, want := range c.has {
			if !strings.Contains(text, want) {
				t.Errorf("%s: lacks %q:\n%s", c.name, want, text)
			}
		}
		for _, not := range c.lacks {
			if strings.Contains(text, not) {
				t.Errorf("%s: has %q:\n%s", c.name, not, text)
			}
		}
	}
}

// A log as collectors hand it over holds the report still.
func TestUnseal(t *testing.T) {
	want := recorded()
	sealed, err := Seal(want, Key{1})
	if err != nil {
		t.Fatal(err)
	}
	older, _ := Seal(&Report{Version: Version, Job: "older"}, Key{2})
	for _, tt := range []struct {
		name string
		line func(string) string
	}{
		{"as written", func(l string) string { return l }},
		{"kubectl logs --timestamps", func(l string) string { return "2026-11-23T04:00:09.100000001Z " + l }},
		{"kubectl logs --prefix", func(l string) string { return "[pod/job-launcher-x7k2p/launcher] " + l }},
		{"a collector's JSON", func(l string) string { return `{"log":"` + l + `\n","stream":"stderr"}` }},
		{"a terminal's line ends", func(l string) string { return l + "\r" }},
	} {
		var log strings.Builder
		for _, l := range append(append([]string{"rank 0: hello", strings.Repeat("x", 3<<20)}, older...), sealed...) {
			log.WriteString(tt.line(l) + "\n")
		}
		log.WriteString("and a line behind it")
		got, _, err := Unseal(strings.NewReader(log.String()), nobody)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(verdict.Verdict{})); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
	}
}

func TestUnsealRefuses(t *testing.T) {
	many := recorded()
	for range 300 {
		many.Events = append(many.Events, Event{Text: noise(100)})
	}
	lines, err := Seal(many, Key{1})
	if err != nil || len(lines) < 3 {
		t.Fatalf("%d lines, %v", len(lines), err)
	}
	for _, tt := range []struct {
		name string
		log  []string
		says string
	}{
		{"nothing", []string{"a log"}, ErrNone.Error()},
		{"the end is missing", lines[:len(lines)-1], "the log ends within it"},
		{"a line is missing", append(append([]string{}, lines[:1]...), lines[2:]...), "its line 2 of"},
		{"a line was changed", append([]string{strings.Replace(lines[0], "A", "B", 1)}, lines[1:]...), "damaged"},
		{"a line was cut", append([]string{lines[0][:1000]}, lines[1:]...), "damaged"},
		{"no end to its parts", []string{word + "01234567 1/999999999 AAAA"}, ErrNone.Error()},
	} {
		_, _, err := Unseal(strings.NewReader(strings.Join(tt.log, "\n")), nobody)
		if err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	if _, _, err := Unseal(strings.NewReader("x"), nobody); !errors.Is(err, ErrNone) {
		t.Error(err)
	}
	other := *recorded()
	other.Version = 9
	lines, _ = Seal(&other, Key{1})
	if _, _, err := Unseal(strings.NewReader(strings.Join(lines, "\n")), nobody); err == nil || !strings.Contains(err.Error(), "form 9") {
		t.Errorf("a later form: %v", err)
	}
}

func noise(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rand.IntN(256))
	}
	return base64.StdEncoding.EncodeToString(b)
}

// nobody says of each line that it is no rank's.
func nobody(string) bool { return false }

// block is JSON as a sealed report, whatever it holds.
func block(text string, k Key) []string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write([]byte(text))
	_ = z.Close()
	return parts(append(b.Bytes(), k[:]...))
}

// However a rank tries, the report that the launcher promised is shown, or a doubt is said.
func TestWhoseReport(t *testing.T) {
	sealed := func(job string, k Key) []string {
		lines, err := Seal(&Report{Version: Version, Job: job}, k)
		if err != nil {
			t.Fatal(err)
		}
		return lines
	}
	large := recorded()
	for range 300 {
		large.Events = append(large.Events, Event{Text: noise(100)})
	}
	cutOff, err := Seal(large, Key{4})
	if err != nil {
		t.Fatal(err)
	}
	var crowd []string
	for i := range 64 {
		crowd = append(crowd, fmt.Sprintf("%s%08x 1/2 AAAA", word, i))
	}
	ours, forged := Key{1}, Key{2}
	for _, tt := range []struct {
		name   string
		log    [][]string
		job    string // "": none
		doubts string
	}{
		{"as it should be", [][]string{{Promise(ours)}, sealed("own", ours)}, "own", ""},
		{"a rank's before it", [][]string{{Promise(ours)}, sealed("forged", forged), sealed("own", ours)}, "own", "the log holds 2 reports: "},
		{"a rank's promise and report before it", [][]string{{Promise(ours), Promise(forged)}, sealed("forged", forged), sealed("own", ours)}, "own", "the log holds 2 reports: "},
		{"many that are not whole before it", [][]string{{Promise(ours)}, crowd, sealed("own", ours)}, "own", "cannot be read"},
		{"a rank's, and the launcher was killed", [][]string{{Promise(ours), Promise(forged)}, sealed("forged", forged)}, "forged", "a rank may have written this report"},
		{"a rank's, and the launcher's is cut off", [][]string{{Promise(Key{4})}, sealed("forged", forged), cutOff[:1]}, "forged", "cannot be read: the report is not whole"},
		{"the last lines alone", [][]string{sealed("own", ours)}, "own", "nothing proves that the launcher wrote this report"},
		{"the last lines, and a rank's before", [][]string{{Promise(forged)}, sealed("forged", forged), sealed("own", ours)}, "own", "nothing proves"},
		{"two runs", [][]string{{Promise(ours)}, sealed("own", ours), {Promise(Key{3})}, sealed("later", Key{3})}, "later", "the log holds 2 reports: "},
		{"behind the tag of a rank", [][]string{{Promise(ours), "[0] " + sealed("forged", forged)[0]}}, "", ""},
		{"what is no report behind it", [][]string{{Promise(ours)}, sealed("own", ours), block("{}", forged), block("x", forged)}, "own", "cannot be read"},
	} {
		var lines []string
		for _, l := range tt.log {
			lines = append(lines, l...)
		}
		r, doubts, err := Unseal(strings.NewReader(strings.Join(lines, "\n")), func(l string) bool { return strings.HasPrefix(l, "[") })
		switch said := strings.Join(doubts, "; "); {
		case tt.job == "" && errors.Is(err, ErrNone):
		case err != nil || tt.job == "":
			t.Errorf("%s: %v, %v", tt.name, r, err)
		case r.Job != tt.job || tt.doubts == "" && said != "" || !strings.Contains(said, tt.doubts):
			t.Errorf("%s: job %s, doubts %q", tt.name, r.Job, said)
		}
	}
}

// dear bounds what a log may cost. The dearest report of all has 256 Ki empty ranks.
var dear = cost.Bound{Fixed: 192 << 20, PerByte: 512}

// FuzzUnseal: no log makes it fail other than by an error, and what it finds can be shown.
func FuzzUnseal(f *testing.F) {
	lines, err := Seal(recorded(), Key{1})
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(strings.Join(lines, "\n")))
	f.Add([]byte(word + "01234567 1/2 AAAA\n" + word + "01234567 2/2 AAAA"))
	f.Add([]byte(strings.Join(block(`{"version":1,"ranks":[0,0,{}],"hosts":[{}],"events":[{"ranks":"0-9"}]}`, Key{1}), "\n")))
	f.Fuzz(func(t *testing.T, log []byte) {
		defer cost.Watch(t, dear, len(log))()
		r, _, err := Unseal(strings.NewReader(string(log)), nobody)
		if err != nil {
			return
		}
		var b strings.Builder
		if err := Timeline(&b, r, View{}); err != nil || visible.Text(b.String()) != b.String() {
			t.Fatalf("%v: %q", err, b.String())
		}
	})
}
