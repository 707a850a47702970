package iof

import (
	"bytes"
	"fmt"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/test/cost"
	"strings"
	"testing"
	"time"
)

// script runs lines against a clock of its own. Each step is "RANK text" (\n, \r spelled out), "eRANK text" on standard error,
// "+DURATION", or "end RANK"; after each step the new output is a line of the result.
func script(t *testing.T, cfg Config, terminal bool, steps string) (results []string, all string) {
	t.Helper()
	cfg.Hold = time.Second
	var b bytes.Buffer
	credit := map[int]int{}
	o := &out{to: &b, name: "test", done: func(k laneKey, n int) { credit[k.id] += n }}
	ls := newLines(&cfg, o, terminal)
	ls.open()
	now, sent := noon, map[int]int{}
	seen := 0
	note := func() { results = append(results, b.String()[seen:]); seen = b.Len() }
	for _, step := range strings.Split(steps, "|") {
		var rank int
		word, rest, _ := strings.Cut(step, " ")
		switch {
		case strings.HasPrefix(word, "+"):
			d, err := time.ParseDuration(word[1:])
			if err != nil {
				t.Fatal(err)
			}
			now = now.Add(d)
		case word == "end":
			fmt.Sscan(rest, &rank)
			ls.put(piece{id: rank, end: true}, now)
			ls.put(piece{id: rank, stream: job.Stderr, end: true}, now)
		default:
			number, isError := strings.CutPrefix(word, "e")
			fmt.Sscan(number, &rank)
			stream := job.Stdout
			if isError {
				stream = job.Stderr
			}
			text := strings.NewReplacer(`\n`, "\n", `\r`, "\r").Replace(rest)
			sent[rank] += len(text)
			ls.put(piece{id: rank, stream: stream, data: []byte(text), time: now, whole: strings.HasSuffix(text, "\n")}, now)
		}
		ls.expire(now)
		ls.flush()
		note()
	}
	ls.close()
	note()
	for r, n := range sent {
		if credit[r] != n {
			t.Errorf("rank %d: %d bytes given back of %d", r, credit[r], n)
		}
	}
	return results, b.String()
}

func TestLines(t *testing.T) {
	tests := []struct {
		name     string
		mode     Mode
		terminal bool
		steps    string
		want     []string // output of each step, and of close
	}{
		{"whole lines pass", Plain, false, `0 a\n|1 b\nc\n`, []string{"a\n", "b\nc\n", ""}},
		{"lone prompt appears", Plain, false, `0 name? |0 Bob\n`, []string{"name? ", "Bob\n", ""}},
		{"prompt in a busy job waits for Hold", Plain, false, `1 x\n|0 name? |+900ms|+100ms`, []string{"x\n", "", "", "name? ", ""}},
		{"beginning of a line waits for its end", Plain, false, `1 x\n|0 a|1 y\n|0 b\n`, []string{"x\n", "", "y\n", "ab\n", ""}},
		{"others wait for an open line", Plain, false, `0 a|1 x\n|1 y\n|0 b\n|0 c`, []string{"a", "", "", "b\nx\ny\n", "", "c"}},
		{"an open line is given up: plain", Plain, false, `0 a|1 x\n|+1s|0 b\n`, []string{"a", "", "x\n", "b\n", ""}},
		{"an open line is given up: terminal", Plain, true, `0 a|1 x\n|+1s|0 b\n`, []string{"a", "", "\nx\n", "b\n", ""}},
		{"an open line is given up: tags", Tag, false, `0 a|1 x\n|+1s|0 b\n`, []string{"[0] a", "", "\n[1] x\n", "[0] b\n", ""}},
		{"an old open line keeps nobody", Tag, false, `0 a|+2s|1 x\n`, []string{"[0] a", "", "\n[1] x\n", ""}},
		{"dots of one line", Plain, false, `0 .|+900ms|0 .|0 .\n`, []string{".", "", ".", ".\n", ""}},
		{"two open lines", Tag, false, `0 a|1 b|+1s|+1s`, []string{"[0] a", "", "\n[1] b", "", ""}},
		{"end of a rank without a newline", Tag, false, `1 x\n|0 a|end 0|1 y\n`, []string{"[1] x\n", "", "[0] a", "\n[1] y\n", ""}},
		{"end of a rank, exact", Plain, false, `1 x\n|0 a|end 0|1 y\n`, []string{"x\n", "", "a", "y\n", ""}},
		{"a traceback stays together", Plain, false, `e0 Traceback (most recent call last):\n  File "a"\n|e1 Traceback (most recent call last):\n|e0   x\n|e1   y\nError: 1\n|e0 Error: 0\n|e1 z\n`,
			[]string{"Traceback (most recent call last):\n  File \"a\"\n", "", "  x\n", "", "Error: 0\nTraceback (most recent call last):\n  y\nError: 1\n", "z\n", ""}},
		{"and for no longer than Hold", Plain, true, `e0 Traceback (most recent call last):\n|e1 x\n|+900ms|e0  y\n|+100ms|e0  z\n`,
			[]string{"Traceback (most recent call last):\n", "", "", " y\n", "x\n", " z\n", ""}},
		{"nor longer than its rank", Plain, false, `e0 Traceback (most recent call last):\n|e1 x\n|end 0`, []string{"Traceback (most recent call last):\n", "", "x\n", ""}},
		{"with tags nobody waits", Tag, false, `e0 Traceback (most recent call last):\n|e1 x\n`, []string{"[0] Traceback (most recent call last):\n", "[1] x\n", ""}},
		{"close writes what is held", Plain, false, `1 x\n|0 a`, []string{"x\n", "", "a"}},
		{"bar in a busy job", Tag, false, `1 x\n|0 1%\r|0 2%\r|+1s|1 y\n`, []string{"[1] x\n", "", "", "[0] 1%\r[0] 2%\r", "\n[1] y\n", ""}},
		{"bar alone", Plain, true, `0 1%\r|0 2%\r|0 \n`, []string{"1%\r", "2%\r", "\n", ""}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, all := script(t, Config{Mode: tt.mode}, tt.terminal, tt.steps)
			if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", tt.want) {
				t.Errorf("got  %q\nwant %q (all %q)", got, tt.want, all)
			}
		})
	}
}

// A line longer than 64 KiB is not kept together: binary output of several ranks flows.
func TestLongLinesFlow(t *testing.T) {
	cfg := Config{Hold: time.Hour}
	var b bytes.Buffer
	back := 0
	ls := newLines(&cfg, &out{to: &b, name: "test", done: func(_ laneKey, n int) { back += n }}, false)
	ls.open()
	for i := range 64 {
		ls.put(piece{id: i % 2, data: make([]byte, 32<<10)}, noon)
	}
	ls.flush()
	if held := 2<<20 - back; held > 2*(longLine+32<<10) {
		t.Errorf("%d bytes are held", held)
	}
	ls.close()
	if back != 2<<20 || b.Len() != back {
		t.Errorf("%d bytes written, %d given back", b.Len(), back)
	}
}

// Whatever comes from two ranks in whatever pieces and pauses: exact output has each rank's bytes
// in order; with tags no line has bytes of both.
func FuzzLines(f *testing.F) {
	f.Add([]byte("a\nb"), []byte("c\n\rd"), []byte{1, 200, 3, 4})
	f.Add([]byte("aaaa"), []byte("cccc"), []byte{255, 1, 255, 1})
	f.Fuzz(func(t *testing.T, a, b, plan []byte) {
		defer cost.Watch(t, cost.Parser, len(a)+len(b)+len(plan))()
		for _, mode := range []Mode{Plain, Tag} {
			checkLines(t, mode, [2][]byte{alphabet(a, 'a'), alphabet(b, 'A')}, plan)
		}
	})
}

// alphabet makes letters from base on, and line ends, of any bytes.
func alphabet(in []byte, base byte) []byte {
	out := make([]byte, len(in))
	for i, c := range in {
		switch {
		case c%8 == 0:
			out[i] = '\n'
		case c%8 == 1:
			out[i] = '\r'
		default:
			out[i] = base + c%16
		}
	}
	return out
}

func checkLines(t *testing.T, mode Mode, data [2][]byte, plan []byte) {
	cfg := Config{Mode: mode, Hold: time.Second}
	var b bytes.Buffer
	back := 0
	ls := newLines(&cfg, &out{to: &b, name: "test", done: func(_ laneKey, n int) { back += n }}, false)
	ls.open()
	now, left := noon, data
	for i := 0; len(left[0])+len(left[1]) > 0; i++ {
		step := byte(3)
		if len(plan) > 0 {
			step = plan[i%len(plan)]
		}
		r := int(step & 1)
		if len(left[r]) == 0 {
			r = 1 - r
		}
		n := min(len(left[r]), 1+int(step>>1&7))
		d := left[r][:n]
		left[r] = left[r][n:]
		now = now.Add(time.Duration(step>>4) * 100 * time.Millisecond)
		ls.put(piece{id: r, data: d, time: now, whole: d[n-1] == '\n'}, now)
		ls.expire(now)
		ls.flush()
	}
	ls.put(piece{id: 0, end: true}, now)
	ls.close()
	if back != len(data[0])+len(data[1]) {
		t.Fatalf("%v: %d bytes given back of %d", mode, back, len(data[0])+len(data[1]))
	}
	only := func(base byte) func(r rune) rune {
		return func(r rune) rune {
			if byte(r) >= base && byte(r) < base+16 {
				return r
			}
			return -1
		}
	}
	for r, base := range []byte{'a', 'A'} {
		got, want := bytes.Map(only(base), b.Bytes()), bytes.Map(only(base), data[r])
		if !bytes.Equal(got, want) {
			t.Fatalf("%v: rank %d wrote %q, %q came out", mode, r, want, got)
		}
	}
	if mode == Plain && b.Len() != back {
		t.Fatalf("plain output has %d bytes instead of %d", b.Len(), back)
	}
	for line := range strings.SplitSeq(b.String(), "\n") {
		if mode == Tag && strings.ContainsAny(line, "abcdefghijklmnop") && strings.ContainsAny(line, "ABCDEFGHIJKLMNOP") {
			t.Fatalf("two ranks in %q of %q", line, b.String())
		}
	}
}
