package aftermath

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/launcher/verdict/logs"
	"github.com/mpiup/mpiup/test/cost"
)

func kept(w Wanted, log string) (lines []string, lacking string) {
	f := NewFilter(w)
	for line := range strings.Lines(log) {
		if f.Begin([]byte(line)); f.Kept() {
			lines = append(lines, strings.TrimSuffix(line, "\n"))
		}
	}
	return lines, f.Lacking()
}

// Each log is filtered by what its lines say; a line is named by its first word after the tags.
func TestFilter(t *testing.T) {
	const (
		tagged = `[0] a step 1
[1] b step 1
[1] c WARNING: slow loader
mpiup: d warning: clocks differ
[11] e Traceback (most recent call last):
[11]   File "train.py", line 3
[1] f step 2
[11] ValueError: g
[11] h bye
`
		streams = `[0 w0 stdout] a
[1 w1 stderr] b
[2.1 w1 stdout] c
d
`
		records = `{"time":"2026-11-23T04:00:00.000Z","rank":0,"host":"w0","stream":"stdout","text":"a INFO up"}
{"time":"2026-11-23T04:00:01.000Z","rank":1,"host":"w1","stream":"stderr","text":"b"}
{"time":"2026-11-23T04:00:02.000Z","rank":1,"host":"w1","stream":"stderr","text":"c RuntimeError: CUDA error: out of memory"}
{"time":"2026-11-23T04:00:03.000Z","event":"verdict","kind":"gpu-error"}
`
		stamped = `2026-11-23T04:00:00.5Z [0] a
2026-11-23T04:00:01.5Z [1] b
   c goes on
2026-11-23T04:00:02.5Z [0] d
`
		own = `time=2026-11-23T04:00:00Z level=INFO msg="agent is ready"
time=2026-11-23T04:00:01Z level=WARN msg=fenced
{"time":"2026-11-23T04:00:02Z","level":"ERROR","msg":"x"}
`
		others = `[1,0]<stdout>: a
[1,3]<stderr>:b
3: c
E1123 04:00:00.1 77 d.cc:1] glog
2026-11-23 04:00:00.1: W tensorflow/core e
w0:77:77 [0] NCCL WARN f
ok g error in 0 steps
INFO:root:h
`
		mixed = `[0 w0 stderr] a Traceback (most recent call last):
[0 w0 stderr]   File "train.py", line 3
[0 w0 stderr] b INFO of another thread
[0 w0 stderr] ValueError: c
d of w0
[1 w1 stderr] e
`
		marked = `{"msg":"a disk error now","level":"warn"}
msg="b an error here" level=debug
c at level: error
d the level error is small
train.py:3: UserWarning: e
`
	)
	at := func(s int) time.Time { return time.Date(2026, 11, 23, 4, 0, s, 0, time.UTC) }
	set := func(text string) idset.Set { s, _ := idset.Parse(text); return s }
	for _, tt := range []struct {
		name    string
		want    Wanted
		log     string
		lines   string // the first letter that only it has of each
		lacking string
	}{
		{"all", Wanted{}, streams, "[0 w0 stdout] a|[1 w1 stderr] b|[2.1 w1 stdout] c|d", ""},
		{"a rank", Wanted{Ranks: set("1")}, tagged, "[1] b step 1|[1] c WARNING: slow loader|[1] f step 2", ""},
		{"ranks", Wanted{Ranks: set("0,2-10")}, tagged, "[0] a step 1", ""},
		{"warnings", Wanted{Level: logs.Warn}, tagged, `[1] c WARNING: slow loader|[11] e Traceback (most recent call last):|[11]   File "train.py", line 3|[11] ValueError: g`, ""},
		{"a stream", Wanted{Stream: "stderr"}, streams, "[1 w1 stderr] b", ""},
		{"a host", Wanted{Host: "w1"}, streams, "[1 w1 stderr] b|[2.1 w1 stdout] c", ""},
		{"a rank of records", Wanted{Ranks: set("1"), Stream: "stderr", Level: logs.Error}, records, `{"time":"2026-11-23T04:00:02.000Z","rank":1,"host":"w1","stream":"stderr","text":"c RuntimeError: CUDA error: out of memory"}`, ""},
		{"times", Wanted{Since: at(1), Until: at(2)}, stamped, "2026-11-23T04:00:01.5Z [1] b|   c goes on", ""},
		{"since", Wanted{Since: at(2)}, stamped, "2026-11-23T04:00:02.5Z [0] d", ""},
		{"our own log", Wanted{Level: logs.Warn, Since: at(1)}, own, `time=2026-11-23T04:00:01Z level=WARN msg=fenced|{"time":"2026-11-23T04:00:02Z","level":"ERROR","msg":"x"}`, ""},
		{"another launcher's", Wanted{Ranks: set("3")}, others, "[1,3]<stderr>:b|3: c", ""},
		{"others' levels", Wanted{Level: logs.Warn}, others, "E1123 04:00:00.1 77 d.cc:1] glog|2026-11-23 04:00:00.1: W tensorflow/core e|w0:77:77 [0] NCCL WARN f", ""},
		{"amid a traceback", Wanted{Level: logs.Error}, mixed, `[0 w0 stderr] a Traceback (most recent call last):|[0 w0 stderr]   File "train.py", line 3|[0 w0 stderr] ValueError: c`, ""},
		{"streams of another host", Wanted{Host: "w1", Stream: "stdout"}, mixed, "", ""},
		{"marked levels", Wanted{Level: logs.Warn}, marked, `{"msg":"a disk error now","level":"warn"}|c at level: error|train.py:3: UserWarning: e`, ""},
		{"no stream", Wanted{Stream: "stdout"}, tagged, "", "no line names its stream; mpiup run --tag-with stream (or --output json) writes it, in the next run"},
		{"no time", Wanted{Since: at(0)}, streams, "", "no line names its time; mpiup run --timestamp (or --output json) writes it, in the next run, and kubectl logs --timestamps of this one"},
		{"no rank", Wanted{Ranks: set("0")}, "a\nb\n", "", "no line names its rank; mpiup run --tag-output (or --output json) writes it, in the next run"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			lines, lacking := kept(tt.want, tt.log)
			if got := strings.Join(lines, "|"); got != tt.lines || lacking != tt.lacking {
				t.Errorf("kept %q, want %q; lacks %q, want %q", got, tt.lines, lacking, tt.lacking)
			}
		})
	}
}

// Whatever is read, the zero filter keeps it, a strict one a part of it, and little is remembered.
func FuzzFilter(f *testing.F) {
	files, _ := filepath.Glob("../verdict/logs/testdata/corpus/*.txt")
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil {
			f.Add(text)
		}
	}
	f.Add([]byte("[7 w0 stderr] x\ntime=x level=\nTraceback (most recent call last):\n\n\xff\r\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		defer cost.Watch(t, cost.Bound{Fixed: 64 << 20, PerByte: 1024}, len(text))() // as for reading a log, which two do here
		all, strict := NewFilter(Wanted{}), NewFilter(Wanted{Stream: "stderr", Level: logs.Warn, Since: time.Unix(0, 0)})
		for line := range strings.Lines(string(text)) {
			all.Begin([]byte(line))
			strict.Begin([]byte(line))
			if !all.Kept() {
				t.Errorf("%q is not kept", line)
			}
		}
		if len(strict.ranks) > maxNames || len(strict.hosts) > maxNames {
			t.Errorf("%d ranks and %d hosts are remembered", len(strict.ranks), len(strict.hosts))
		}
	})
}

// Where no line is wanted it is said what those that fit best lack, and what there is.
func TestNoLineIsWanted(t *testing.T) {
	const log = "[0 w0 stdout] a\n[1 w1 stdout] b\n[2 w1 stderr] c\n"
	for _, tt := range []struct {
		want Wanted
		says string
	}{
		{Wanted{Ranks: idset.Of(7)}, "no line is of rank 7: the log has lines of ranks 0-2"},
		{Wanted{Host: "w9"}, "no line says that it is of host w9: those that name a host are of w0, w1; mpiup run --tag-with host writes it into each, in the next run"},
		{Wanted{Ranks: idset.Of(0), Stream: "stderr"}, "no line is on stderr"},
		{Wanted{Ranks: idset.Of(0), Level: logs.Error}, "no line is of level error or above"},
		{Wanted{Ranks: idset.Of(2), Stream: "stderr"}, ""},
		{Wanted{Since: time.Now()}, ""}, // Lacking tells
	} {
		f := NewFilter(tt.want)
		for line := range strings.Lines(log) {
			f.Begin([]byte(line))
		}
		if got := f.Nothing(); got != tt.says {
			t.Errorf("%+v: %q, want %q", tt.want, got, tt.says)
		}
	}
}
