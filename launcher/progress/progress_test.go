package progress

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/test/cost"
)

// TestReady compares lines as programs write them with the patterns that are known by name.
func TestReady(t *testing.T) {
	for _, c := range []struct {
		name, line string
		want       string // of the values
	}{
		{"tqdm", " 45%|████▌     | 450/1000 [00:45<00:55, 10.00it/s]", "step=450 of=1000"},
		{"tqdm", "train:   3%|▎   | 3/100 [00:03<01:37,  1.00s/it, loss=2.31]", "step=3 of=100 loss=2.31"},
		{"lightning", "Epoch 2:  50%|█████     | 32/64 [00:03<00:03,  9.87it/s, v_num=0, train_loss=0.123]", "epoch=2 step=32 of=64 loss=0.123"},
		{"transformers", "{'loss': 2.3141, 'grad_norm': 1.29, 'learning_rate': 4.9e-05, 'epoch': 0.06}", "loss=2.3141 epoch=0.06"},
		{"transformers", "{'loss': 'nan', 'grad_norm': 'nan', 'learning_rate': '4.9e-05', 'epoch': '0.06'}", "loss=NaN epoch=0.06"},
		{"transformers", "  6%|▌         | 500/8000 [01:12<18:09,  6.88it/s]", "step=500 of=8000"},
		{"megatron", " [2026-01-01 00:00:00] iteration       10/     100 | consumed samples:          160 | elapsed time per iteration (ms): 1234.5 | learning rate: 1.500000E-04 | global batch size:    16 | lm loss: 1.045E+01 | loss scale: 1.0 |", "step=10 of=100 ms=1234.5 loss=10.45"},
		{"deepspeed", "steps: 10 loss: 2.3456 iter time (s): 0.123 samples/sec: 130.081", "step=10 loss=2.3456"},
		{"deepspeed", "[2026-01-01 00:00:00,000] [INFO] [logging.py:96:log_dist] [Rank 0] step=20, skipped=1, lr=[0.001], mom=[(0.9, 0.999)]", "step=20 skipped=1"},
		{"mlperf", `:::MLLOG {"namespace": "", "time_ms": 1, "event_type": "POINT_IN_TIME", "key": "eval_accuracy", "value": 0.71, "metadata": {"file": "a.py", "lineno": 3, "epoch_num": 4}}`, "accuracy=0.71 step=4"},
		{"lammps", "       100   0.75865617   -5.7603184    0            -4.6225995    0.197225", "step=100 temp=0.75865617"},
		{"lammps", "Step          Temp          E_pair         E_mol          TotEng         Press", ""},
		{"espresso", "     iteration #  3     ecut=    30.00 Ry     beta= 0.70", "step=3"},
		{"espresso", "!    total energy              =     -15.79441848 Ry", "energy=-15.79441848"},
		{`step (?P<step>\d+).*loss (?P<loss>\S+)`, "step 1,200 loss 1.5D-03", "step=1 loss=0.0015"},
		{`step (?P<step>[\d,]+).*loss (?P<loss>\S+)`, "\x1b[32mstep 1,200\x1b[0m loss 1.5D-03", "step=1200 loss=0.0015"},
		{`seen (?P<seen>\S+)`, "seen 3k of", "seen=3000"},
		{`seen (?P<seen>\S+)`, "seen much", ""},
	} {
		p, err := ParsePattern(c.name)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		r := Reader{Patterns: []Pattern{p}}
		var got []string
		r.Read(0, job.Stdout, []byte(c.line+"\n"), time.Time{}, func(p Point) {
			for _, v := range p.Values {
				got = append(got, fmt.Sprintf("%s=%v", v.Name, v.Number))
			}
		})
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %q tells %q, want %q", c.name, c.line, got, c.want)
		}
	}
}

// TestWrong reads what users may get wrong.
func TestWrong(t *testing.T) {
	for text, want := range map[string]string{
		"step (\\d+)":                            "no named group",
		"(?P<step>":                              "missing closing )",
		"(?P<step>\\d+":                          "missing closing )",
		strings.Repeat("x", 5e3):                 "5000 bytes",
		"(?P<" + strings.Repeat("n", 40) + ">x)": "over 32 bytes",
	} {
		if _, err := ParsePattern(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("pattern %.40q: %v, want %q", text, err, want)
		}
	}
	for text, want := range map[string]string{
		"loss": "write NAME", "=nan": "write NAME", "loss~3": "write NAME", "loss!3": "no comparison", "loss<x": "no number",
		"loss<nan": "nothing is less", "loss<50%": "share is of the rate", "rate>50%": "share is of the rate",
	} {
		if _, err := ParseRule(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("rule %q: %v, want %q", text, err, want)
		}
	}
	p, _ := ParsePattern(`(?P<step>\d+)`)
	r, _ := ParseRule("loss=nan")
	if err := (Config{Patterns: []Pattern{p}, Fail: []Rule{r}}).Check(); err == nil || !strings.Contains(err.Error(), "no --watch has a group loss") {
		t.Errorf("a rule about a name that no pattern has: %v", err)
	}
}

// TestRules compares values with rules.
func TestRules(t *testing.T) {
	for _, c := range []struct {
		rule   string
		value  float64
		broken bool
	}{
		{"loss=nan", math.NaN(), true}, {"loss=nan", 3, false}, {"loss!=nan", 3, true}, {"loss=inf", math.Inf(1), true},
		{"loss=inf", math.Inf(-1), false}, {"loss=-inf", math.Inf(-1), true}, {"loss>1e4", 1e5, true}, {"loss>1e4", math.NaN(), false},
		{"acc<0.5", 0.5, false}, {"acc<=0.5", 0.5, true}, {"acc>=1", 0.9, false}, {"step = 3", 3, true},
	} {
		r, err := ParseRule(c.rule)
		if err != nil {
			t.Fatalf("%s: %v", c.rule, err)
		}
		if got := r.broken(c.value); got != c.broken {
			t.Errorf("%s of %v: %v", c.rule, c.value, got)
		}
	}
}

// TestReader reads lines in whatever pieces they come, by line feeds and carriage returns.
func TestReader(t *testing.T) {
	p, _ := ParsePattern(`s(?P<step>\d+)`)
	text := "s1\rs2\r\ns3\nnothing\n" + strings.Repeat("x", 2*maxLine) + "s4\ns5\n"
	for size := 1; size < len(text); size += 1 + size/3 {
		r := Reader{Patterns: []Pattern{p}}
		var got []float64
		for at := 0; at < len(text); at += size {
			r.Read(0, job.Stderr, []byte(text[at:min(at+size, len(text))]), time.Time{}, func(p Point) { got = append(got, p.Values[0].Number) })
		}
		if want := []float64{1, 2, 3, 5}; !reflect.DeepEqual(got, want) {
			t.Fatalf("in pieces of %d: %v, want %v", size, got, want)
		}
	}
	r := Reader{Patterns: []Pattern{p}}
	var got []float64
	found := func(p Point) { got = append(got, p.Values[0].Number) }
	r.Read(1, job.Stdout, []byte("s1"), time.Time{}, found)
	r.Torn(1, job.Stdout)
	r.Read(1, job.Stdout, []byte("7\ns8\n"), time.Time{}, found)
	if !reflect.DeepEqual(got, []float64{8}) {
		t.Errorf("after bytes were left out: %v, want the 8 alone", got)
	}
}

func points(name string, values ...float64) (list []Point) {
	for _, v := range values {
		list = append(list, Point{Values: []Value{{Name: name, Number: v}}})
	}
	return list
}

// TestJudge plays runs: each has its own script of points and times.
func TestJudge(t *testing.T) {
	rule := func(text string) Rule {
		r, err := ParseRule(text)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	name := func(id int) string { return fmt.Sprintf("rank %d", id) }
	at := func(j *Judge, s float64, id int, values ...Value) string {
		var text []string
		_, wrong := j.Hear(time.Duration(s*float64(time.Second)), Point{ID: id, Values: values})
		for _, w := range wrong {
			text = append(text, w.Text)
		}
		return strings.Join(text, "; ")
	}
	step := func(n float64) Value { return Value{Step, n} }

	j := NewJudge(Config{Rank: First, Stall: 10 * time.Second, Start: 5 * time.Second}, name)
	if w := j.Tick(4 * time.Second); w != nil {
		t.Errorf("before --watch-start: %v", w)
	}
	if w := j.Tick(5 * time.Second); len(w) != 1 || !w[0].Hangs || !strings.Contains(w[0].Text, "no line has matched --watch in --watch-start 5s") {
		t.Errorf("at --watch-start: %v", w)
	}
	at(j, 6, 3, step(1), Value{Of, 100}, Value{"loss", 2.5})
	if counts, _ := j.Hear(7*time.Second, Point{ID: 2, Values: []Value{step(9)}}); counts {
		t.Error("a second rank counts where the first that matched is followed")
	}
	if w := j.Tick(15 * time.Second); w != nil {
		t.Errorf("9 s after a step: %v", w)
	}
	at(j, 15.5, 3, step(1), Value{"loss", 2.4}) // no new step
	if w := j.Tick(16 * time.Second); len(w) != 1 || !strings.Contains(w[0].Text, "no new step in --watch-stall 10s: rank 3 wrote step 1 of 100 last") {
		t.Errorf("10 s after a step: %v", w)
	}
	if w := j.Tick(40 * time.Second); w != nil {
		t.Errorf("the same is told twice: %v", w)
	}
	at(j, 41, 3, step(2))
	if w := j.Tick(52 * time.Second); len(w) != 1 {
		t.Errorf("a second stall: %v", w)
	}
	if got, want := j.Status(), "step 2 of 100 (2 %), loss 2.4"; !strings.HasPrefix(got, "step 2 of 100 (2 %)") || !strings.HasSuffix(got, "loss 2.4") {
		t.Errorf("status: %q, want %q", got, want)
	}

	j = NewJudge(Config{Rank: Each, Stall: 10 * time.Second}, name)
	at(j, 1, 0, step(5))
	at(j, 1, 1, step(4))
	at(j, 8, 0, step(6))
	if w := j.Tick(12 * time.Second); w != nil {
		t.Errorf("one rank goes on: %v", w)
	}
	j.End(0)
	if w := j.Tick(13 * time.Second); len(w) != 1 || !strings.Contains(w[0].Text, "rank 1 wrote step 4 last") {
		t.Errorf("of those that have not ended: %v", w)
	}
	j.End(1)
	at(j, 14, 1, step(5))
	if w := j.Tick(time.Minute); w != nil {
		t.Errorf("all have ended: %v", w)
	}

	j = NewJudge(Config{Rank: 0, Fail: []Rule{rule("loss=nan"), rule("rate<50%")}}, name)
	for i := range 40 { // two steps a second
		if w := at(j, 10+float64(i)/2, 0, step(float64(i)), Value{"loss", 1}); w != "" {
			t.Fatalf("at an even pace: %s", w)
		}
	}
	if w := at(j, 31, 0, step(40), Value{"loss", math.NaN()}); !strings.Contains(w, "step 40: --watch-fail 'loss=nan' of rank 0: loss is NaN") {
		t.Errorf("a loss of NaN: %q", w)
	}
	if w := at(j, 32, 0, step(41), Value{"loss", math.NaN()}); strings.Contains(w, "loss") {
		t.Errorf("told again: %q", w)
	}
	slow := ""
	for i := range 8 { // a step in five seconds
		slow += at(j, 37+5*float64(i), 0, step(42+float64(i)))
	}
	if !strings.Contains(slow, "rate<50%") || !strings.Contains(slow, "of its median of 2") {
		t.Errorf("a slow run: %q", slow)
	}

	j = NewJudge(Config{Rank: First, Stall: time.Second}, name) // lines are steps
	for i, p := range points("loss", 3, 3, 3) {
		j.Hear(time.Duration(i)*time.Second, p)
	}
	if got := j.Status(); !strings.HasPrefix(got, "matching line 3") {
		t.Errorf("status without steps: %q", got)
	}
	j = NewJudge(Config{Rank: Each, Fail: []Rule{rule("loss=nan")}, Stall: 10 * time.Second}, name)
	told := 0
	for i := range 20 { // one of two ranks has lost it
		for id, v := range []float64{1, math.NaN()} {
			if at(j, float64(i), id, step(math.NaN()), Value{"loss", v}) != "" {
				told++
			}
		}
	}
	if told != 1 {
		t.Errorf("a rank's loss is told %d times", told)
	}
	if w := j.Tick(time.Minute); len(w) != 1 {
		t.Errorf("steps that are no numbers count as steps: %v", w)
	}
	many := NewJudge(Config{Rank: First, Fail: []Rule{rule("loss>1")}}, name)
	told = 0
	for i := range 100 {
		_, w := many.Hear(time.Duration(i), points("loss", float64(2*(i%2)))[0])
		told += len(w)
	}
	if told != maxFindings {
		t.Errorf("%d findings of one run; %d are told at most", told, maxFindings)
	}
}

// TestFollow reads beside the way of output, which it never holds up: what has no room is left out, counted, and tears no line.
func TestFollow(t *testing.T) {
	p, _ := ParsePattern(`s(?P<step>\d+) `)
	var mu sync.Mutex
	var steps []float64
	f := NewFollow(Config{Patterns: []Pattern{p}, Rank: Each}, 2, func(id int) string { return fmt.Sprint("rank ", id) }, func() time.Duration { return 0 })
	f.Keep = func(p Point) {
		mu.Lock()
		defer mu.Unlock()
		steps = append(steps, p.Values[0].Number)
	}
	f.Found = func(w Finding) { t.Errorf("%v", w) }
	f.Put(0, job.Stdout, []byte("s1 \ns"))
	f.Put(7, job.Stdout, []byte("s9 \n")) // a spawned job's
	big := bytes.Repeat([]byte("s"), maxQueued)
	f.Put(0, job.Stdout, big) // has no room
	f.Put(0, job.Stdout, []byte("2 \ns3 \n"))
	f.End(0)
	f.Close()
	f.Run(context.Background())
	if !reflect.DeepEqual(steps, []float64{1, 3}) {
		t.Errorf("steps %v, want 1 and 3: the line of 2 was torn", steps)
	}
	if last := f.Last(); len(last) != 2 || !strings.Contains(last[0], "step 3") || !strings.Contains(last[1], fmt.Sprintf("%d bytes", maxQueued)) {
		t.Errorf("said at the end: %q", last)
	}
	if n := f.Numbers(); n[Step] != 3 {
		t.Errorf("numbers %v", n)
	}
	small := NewFollow(Config{Patterns: []Pattern{p}, Rank: Each}, 1, nil, nil)
	for range maxQueued {
		small.Put(0, job.Stdout, []byte("x"))
	}
	if n := len(small.queue); n > maxQueued/pieceSize {
		t.Errorf("%d pieces of one byte wait", n)
	}
}

// A rank's own file has NAME=VALUE; what is none says nothing, and names are such as groups have.
func TestOwnFile(t *testing.T) {
	for _, tt := range []struct{ line, want string }{
		{"step=450 of=1000 loss=2.31", "[{step 450} {of 1000} {loss 2.31}]"},
		{"epoch 3: step=4, loss=nan lr=1e-4", "[{step 4} {loss NaN} {lr 0.0001}]"},
		{"=3 a-b=4 x{y=5 name=word " + strings.Repeat("n", 33) + "=6", "[]"},
		{strings.Repeat("a=1 ", 100), "[" + strings.TrimSpace(strings.Repeat("{a 1} ", maxNames)) + "]"},
	} {
		var got []Value
		r := Reader{}
		r.Read(0, file, []byte(tt.line+"\n"), time.Time{}, func(p Point) { got = p.Values })
		if fmt.Sprint(got) != tt.want {
			t.Errorf("%q: %v, want %s", tt.line, got, tt.want)
		}
		r.Read(1, job.Stdout, []byte(tt.line+"\n"), time.Time{}, func(p Point) { t.Errorf("output was read so: %v", p) })
	}
}

// FuzzReader: whatever ranks write, no value comes that stands in no line, memory is bounded, and time grows with the bytes alone.
func FuzzReader(f *testing.F) {
	var all []Pattern
	for _, n := range ReadyNames() {
		p, err := ParsePattern(n)
		if err != nil {
			f.Fatal(err)
		}
		all = append(all, p)
	}
	f.Add([]byte("45%| 450/1000 [00:45<00:55]\rstep 3\n"), uint8(3))
	f.Add([]byte("step=3 of=4 loss=nan x y=\nstep=1e999\n"), uint8(2))
	f.Add([]byte("\x1b[1;31m   100  1.0 2.0 3.0\n{'loss': nan, 'epoch': 1}\n"), uint8(200))
	fuzzStep, err := ParsePattern(`step (?P<step>\d+)`)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte, size uint8) {
		defer cost.Watch(t, cost.Parser, len(data))()
		r, j := Reader{Patterns: all}, NewJudge(Config{Rank: Each, Stall: 1}, func(int) string { return "it" })
		now := time.Duration(0)
		points := 0
		for i := 0; i < len(data); i += int(size) + 1 {
			r.Read(int(size)%3, job.Stream(size%3), data[i:min(i+int(size)+1, len(data))], time.Time{}, func(p Point) {
				points++
				now += time.Second
				j.Hear(now, p)
			})
			j.Tick(now)
		}
		if lines := strings.Count(string(data), "\n") + strings.Count(string(data), "\r"); points > lines {
			t.Fatalf("%d points of %d lines", points, lines)
		}
		for _, b := range r.lanes {
			if len(b.text) > maxLine {
				t.Fatalf("%d bytes of a line are kept", len(b.text))
			}
		}
		_ = j.Status()
		_ = j.Numbers()
		var skipped, read []Value // by who passes over what cannot match, and by who reads all
		step := []Pattern{fuzzStep}
		follow := NewFollow(Config{Patterns: step, Rank: Each}, 1, func(int) string { return "it" }, func() time.Duration { return 0 })
		follow.Keep, follow.Found = func(p Point) { skipped = append(skipped, p.Values...) }, func(Finding) {}
		plain := Reader{Patterns: step}
		for i := 0; i < len(data); i += int(size) + 1 {
			piece := data[i:min(i+int(size)+1, len(data))]
			follow.Put(0, job.Stdout, piece)
			plain.Read(0, job.Stdout, piece, time.Time{}, func(p Point) { read = append(read, p.Values...) })
		}
		follow.Close()
		follow.Run(t.Context())
		if follow.left == 0 && fmt.Sprint(skipped) != fmt.Sprint(read) {
			t.Fatalf("in pieces of %d: %v, and read whole %v", int(size)+1, skipped, read)
		}
	})
}

// TestSilentPieces: however output comes in pieces, the points are those of its lines one by one.
func TestSilentPieces(t *testing.T) {
	p, err := ParsePattern(`step (?P<step>\d+)`)
	if err != nil {
		t.Fatal(err)
	}
	const text = "noise\nstep 1\r\nno\rstep 2\rst\x1b[0mep 3\n" + "xxx\nyyy\nste" + "p 4\nstep" + " 5\nend step 6"
	for size := 1; size <= len(text); size++ {
		f := NewFollow(Config{Patterns: []Pattern{p}, Rank: Each}, 1, nil, func() time.Duration { return 0 })
		var got []float64
		f.Keep = func(p Point) { got = append(got, p.Values[0].Number) }
		for at := 0; at < len(text); at += size {
			f.Put(0, job.Stdout, []byte(text[at:min(at+size, len(text))]))
		}
		f.Close()
		f.Run(t.Context())
		if !reflect.DeepEqual(got, []float64{1, 2, 3, 4, 5}) {
			t.Errorf("in pieces of %d bytes: %v", size, got)
		}
	}
	f := NewFollow(Config{Patterns: []Pattern{p}, Rank: Each}, 1, nil, nil)
	f.Put(0, job.Stdout, []byte("noise\nmore\n"))
	if len(f.queue) > 0 {
		t.Errorf("lines that cannot match wait for a reader: %v", f.queue)
	}
	own := NewFollow(Config{Patterns: []Pattern{{}}, Rank: Each}, 1, nil, nil)
	if own.Put(0, job.Stdout, []byte("step 1\n")); len(own.queue) > 0 {
		t.Errorf("output waits for a reader where ranks' own files alone are read: %v", own.queue)
	}
	f.Put(0, job.Stdout, append(bytes.Repeat([]byte("noise\n"), 10_000), 'x'))
	if n := cap(f.queue[0].data); n > 64 {
		t.Errorf("a byte that waits for a reader keeps %d", n)
	}
}

func BenchmarkFlood(b *testing.B) {
	p, err := ParsePattern(`step (?P<step>\d+)`)
	if err != nil {
		b.Fatal(err)
	}
	piece := []byte(strings.Repeat(strings.Repeat("x", 79)+"\n", 400))
	b.SetBytes(int64(len(piece)))
	f := NewFollow(Config{Patterns: []Pattern{p}, Rank: Each}, 1, nil, nil)
	for b.Loop() {
		f.Put(0, job.Stdout, piece)
	}
}
