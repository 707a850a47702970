package report

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
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

// What a report says is read again as it was written.
func TestRead(t *testing.T) {
	want := recorded()
	got, _, err := Read(asRead(written(t, want)))
	if err != nil {
		t.Fatal(err)
	}
	believed := got.Verdict.Believed()
	got.Verdict = &believed
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(verdict.Verdict{})); diff != "" {
		t.Error(diff)
	}
}

// A verdict in a report that somebody made up is checked as it is read: its command is made from its names, and names that are none are gone.
func TestReadChecksTheVerdict(t *testing.T) {
	forged := *recorded()
	rank := -9
	forged.Verdict = &verdict.Verdict{Kind: "gpu-fault", Rank: &rank, Host: "w0", Node: "a; reboot", Cordon: "kubectl delete node --all"}

	got, _, err := Read(asRead(written(t, &forged)))
	if err != nil {
		t.Fatal(err)
	}
	if v := got.Verdict; v.Rank != nil || v.Node != "" || strings.Contains(v.Cordon, "delete") || strings.Contains(v.Cordon, "reboot") {
		t.Errorf("of the verdict %+v stays", v)
	}

	for name, change := range map[string]func(*Report){
		"a restart's kind":   func(r *Report) { r.Restarts = []Restart{{Kind: "$(reboot)", Why: "w1 was lost"}} },
		"the verdict's kind": func(r *Report) { r.Verdict = &verdict.Verdict{Kind: "kubectl-delete-node"} },
	} {
		made := *recorded()
		change(&made)
		if _, _, err := Read(asRead(written(t, &made))); !errors.Is(err, verdict.ErrKind) {
			t.Errorf("%s that there is not: %v", name, err)
		}
	}
}

// A log is a log, whatever its first lines are: one that begins as a report does, or with all of one.
func TestLogsThatBeginAsReports(t *testing.T) {
	whole := written(t, recorded())
	compact, err := visible.JSONLine(recorded())
	if err != nil {
		t.Fatal(err)
	}
	plain := strings.Replace(whole, `"mark": "`+Mark+`"`, `"mark": "x"`, 1)
	for name, text := range map[string]string{
		"any JSON": `{"version":1,"verdict":{"kind":"gpu-fault","rank":9}}`, "the line of a report": string(compact) + "\nrank 0: hello\n", "all of one": whole + "\nx",
		"half of one": whole[:len(whole)/2], "two": whole + whole, "one without the mark": plain, "one with the mark further on": `{"version":1,"mark":"` + Mark + `"}`,
		"one that is too long": whole[:len(whole)-2] + strings.Repeat(" ", maxJSON) + "}", "another's, marked": `{"mark":"` + Mark + `"`,
	} {
		_, rest, err := Read(strings.NewReader(text))
		if !errors.Is(err, ErrNone) {
			t.Errorf("%s: %v", name, err)
		}
		if all, err := io.ReadAll(rest); err != nil || string(all) != text {
			t.Errorf("%s: %d of %d bytes are left for who reads it as a log, %v", name, len(all), len(text), err)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	later := *recorded()
	later.Version = 9
	for _, tt := range []struct{ name, text, says string }{
		{"a log", "rank 0: hello\n", ErrNone.Error()},
		{"nothing", "", ErrNone.Error()},
		{"another object", "{}", ErrNone.Error()},
		{"half a report", written(t, recorded())[:400], ErrNone.Error()},
		{"a later form", written(t, &later), "form 9"},
	} {
		if _, _, err := Read(asRead(tt.text)); err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// What cannot be read may well be a report: it is not taken for a log.
func TestReadTellsOfAFileThatCannotBeRead(t *testing.T) {
	broken := errors.New("input/output error")
	for _, text := range []string{"", `{"mark":"what`, `{"mark":"` + Mark + `"`} {
		r := bufio.NewReader(io.MultiReader(strings.NewReader(text), iotest.ErrReader(broken)))
		if _, _, err := Read(r); !errors.Is(err, broken) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// written is a report as a file has it.
func written(t testing.TB, r *Report) string {
	t.Helper()
	var b strings.Builder
	if err := visible.JSON(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func asRead(text string) *bufio.Reader { return bufio.NewReader(strings.NewReader(text)) }

// dear bounds what a report may cost. The dearest of all has 256 Ki empty ranks.
var dear = cost.Bound{Fixed: 192 << 20, PerByte: 512}

// FuzzRead: no file makes it fail other than by an error, and what it finds can be shown.
func FuzzRead(f *testing.F) {
	f.Add([]byte(written(f, recorded())))
	f.Add([]byte("rank 0: hello"))
	f.Add([]byte(`{"mark":"` + Mark + `","version":1,"ranks":[0,0,{}],"hosts":[{}],"events":[{"ranks":"0-9"}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		defer cost.Watch(t, dear, len(text))()
		r, _, err := Read(asRead(string(text)))
		if err != nil {
			return
		}
		var b strings.Builder
		if err := Timeline(&b, r, View{}); err != nil || visible.Text(b.String()) != b.String() {
			t.Fatalf("%v: %q", err, b.String())
		}
	})
}
