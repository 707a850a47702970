package iof

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/test/cost"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// credits adds up what was given back.
type credits struct {
	mu sync.Mutex
	n  map[int]int // guarded by mu
}

func (c *credits) written(rank, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = map[int]int{}
	}
	c.n[rank] += n
}

func (c *credits) of(rank int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n[rank]
}

// collect runs a sink over buffers.
func collect(t *testing.T, cfg Config, use func(*Sink)) (stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	cfg.Stdout, cfg.Stderr = &out, &err
	s, newErr := New(cfg)
	if newErr != nil {
		t.Fatal(newErr)
	}
	done := make(chan error, 1)
	go func() { done <- s.Run(context.Background()) }()
	use(s)
	s.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
	return out.String(), err.String()
}

func TestStreams(t *testing.T) {
	use := func(s *Sink) {
		s.Write(0, job.Stdout, []byte("a\n"), false, noon)
		s.Write(1, job.Stderr, []byte("b\n"), false, noon)
		s.End(0)
		s.End(1)
	}
	out, err := collect(t, Config{Mode: Tag, Ranks: 2}, use)
	if out != "[0] a\n" || err != "[1] b\n" {
		t.Errorf("got %q and %q", out, err)
	}
	out, err = collect(t, Config{Mode: Tag, Ranks: 2, Merge: true}, use)
	if out != "[0] a\n[1] b\n" || err != "" {
		t.Errorf("merged: got %q and %q", out, err)
	}
}

func TestJSON(t *testing.T) {
	bad := "\xff\xfe\n"
	var c credits
	out, _ := collect(t, Config{Mode: JSON, Ranks: 12, Host: func(int) string { return "w-1" }, Written: c.written}, func(s *Sink) {
		s.Write(11, job.Stdout, []byte("a<b\nhal"), true, noon)
		s.Write(11, job.Stdout, []byte("f\n\nrest"), true, noon)
		s.Write(0, job.Stderr, []byte(bad), false, noon)
		s.End(11)
	})
	for _, want := range []string{
		`{"time":"2026-11-20T12:00:00.042Z","rank":11,"host":"w-1","stream":"stdout","text":"a<b"}`,
		`"text":"half"}`, `"text":""}`, `"text":"rest","partial":true}`,
	} {
		if !strings.Contains(out, want) {
			t.Errorf("lacks %s:\n%s", want, out)
		}
	}
	if c.of(11) != 14 || c.of(0) != len(bad) {
		t.Errorf("given back %d and %d", c.of(11), c.of(0))
	}
}

// Text and base64 together give back every byte.
func FuzzJSON(f *testing.F) {
	f.Add([]byte("a\n\xffb\r\n\u2028<\x00"), uint8(1))
	f.Add(bytes.Repeat([]byte("x"), longLine+10), uint8(255))
	f.Fuzz(func(t *testing.T, data []byte, split uint8) {
		defer cost.Watch(t, cost.Parser, len(data))()
		var b bytes.Buffer
		back := 0
		cfg := Config{Hold: time.Hour}
		rs := &records{cfg: &cfg, out: &out{to: &b, name: "test", done: func(_ laneKey, n int) { back += n }}, lanes: map[laneKey]*record{}}
		rs.open()
		for d := data; len(d) > 0; {
			n := min(len(d), 1+int(split)*300)
			rs.put(piece{id: 1, data: d[:n], time: noon}, noon)
			d = d[n:]
		}
		rs.close()
		var all []byte
		for line := range strings.Lines(b.String()) {
			var r struct {
				Text, Base64 string
				Partial      bool
			}
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			text := []byte(r.Text)
			if r.Base64 != "" {
				text, _ = base64.StdEncoding.DecodeString(r.Base64)
			}
			all = append(all, text...)
			if !r.Partial {
				all = append(all, '\n')
			}
		}
		if !bytes.Equal(all, data) || back != len(data) {
			t.Fatalf("got %q, want %q; %d given back of %d", all, data, back, len(data))
		}
	})
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	var c credits
	out, _ := collect(t, Config{Mode: Tag, Dir: dir, Ranks: 11, Written: c.written}, func(s *Sink) {
		s.Write(3, job.Stdout, []byte("a\nb"), true, noon)
		s.Write(3, job.Stderr, []byte("c\n"), false, noon)
		s.End(3)
	})
	if out != "[3] a\n[3] b" {
		t.Errorf("terminal: %q", out)
	}
	for name, want := range map[string]string{"rank.03/stdout": "a\nb", "rank.03/stderr": "c\n", "rank.10/stdout": ""} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if c.of(3) != 5 {
		t.Errorf("%d bytes given back, want each once", c.of(3))
	}
	out, _ = collect(t, Config{Dir: dir, NoCopy: true, Ranks: 1, Written: c.written}, func(s *Sink) {
		s.Write(0, job.Stdout, []byte("only there\n"), false, noon)
	})
	if out != "" || c.of(0) != 11 {
		t.Errorf("without a copy: %q, %d given back", out, c.of(0))
	}
}

// With TagFiles lines in files have the same before them as those that are shown, however they are cut.
func TestTagsInFiles(t *testing.T) {
	dir := t.TempDir()
	var c credits
	out, _ := collect(t, Config{Mode: Tag, Style: OpenMPIStyle, TagFiles: true, Dir: dir, Ranks: 2, Written: c.written}, func(s *Sink) {
		s.Write(1, job.Stdout, []byte("a\nb"), true, noon)
		s.Write(1, job.Stdout, []byte("c\n"), false, noon)
		s.End(1)
	})
	want := "[1,1]<stdout>:a\n[1,1]<stdout>:bc\n"
	if out != want {
		t.Errorf("terminal: %q", out)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "1/rank.1/stdout")); err != nil || string(got) != want {
		t.Errorf("file: %q, %v", got, err)
	}
	if c.of(1) != 5 {
		t.Errorf("%d bytes given back, want what the rank wrote", c.of(1))
	}

	pattern := Pattern(filepath.Join(dir, "o.%r"))
	collect(t, Config{Prepend: "x%r:", TagFiles: true, Files: [2]Pattern{job.Stdout: pattern}, Ranks: 1, Written: c.written}, func(s *Sink) {
		s.Write(0, job.Stdout, []byte("a\n"), false, noon)
		s.End(0)
	})
	if got, err := os.ReadFile(filepath.Join(dir, "o.0")); err != nil || string(got) != "x0:a\n" {
		t.Errorf("file of a pattern: %q, %v", got, err)
	}
}

func TestFilesThatCannotBeMade(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	os.WriteFile(file, nil, 0o666)
	_, err := New(Config{Dir: file, Ranks: 2})
	if err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("got %v", err)
	}
}

// `| head`: the reader goes. Broken is told once, credit goes on.
func TestReaderGone(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	r.Close()
	var c credits
	broken := make(chan error, 10)
	s, err := New(Config{Stdout: w, Ranks: 1, Written: c.written, Broken: func(err error) { broken <- err }})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Run(context.Background()) }()
	for range 3 {
		s.Write(0, job.Stdout, []byte("x\n"), false, noon)
	}
	s.Close()
	if err := <-done; !errors.Is(err, syscall.EPIPE) || !strings.Contains(err.Error(), "standard output") {
		t.Errorf("Run: %v", err)
	}
	if len(broken) != 1 || c.of(0) != 6 {
		t.Errorf("told %d times, %d bytes given back", len(broken), c.of(0))
	}
	s.Write(0, job.Stdout, []byte("y\n"), false, noon)
	if c.of(0) != 8 {
		t.Error("no credit after the end")
	}
}

// A reader that has stopped: nothing is given back beyond what it took, Write does not block, and
// the end of ctx ends Run though the pipe is full. The shell's descriptor keeps its flags.
func TestReaderStopped(t *testing.T) {
	fds := make([]int, 2)
	if err := syscall.Pipe2(fds, syscall.O_CLOEXEC); err != nil { // blocking, as from a shell
		t.Fatal(err)
	}
	r, w := os.NewFile(uintptr(fds[0]), "r"), os.NewFile(uintptr(fds[1]), "w")
	defer r.Close()
	defer w.Close()
	const total = 8 << 20
	var c credits
	s, err := New(Config{Stdout: w, Ranks: 1, Written: c.written})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	for range total / (64 << 10) {
		s.Write(0, job.Stdout, bytes.Repeat([]byte("y\n"), 32<<10), false, noon)
	}
	first := make([]byte, 2)
	if _, err := r.Read(first); err != nil {
		t.Fatal(err)
	}
	if n := c.of(0); n > 2<<20 {
		t.Errorf("%d bytes given back, a pipe does not take that", n)
	}
	flags, _, _ := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fds[1]), syscall.F_GETFL, 0)
	if flags&syscall.O_NONBLOCK != 0 {
		t.Error("the shared file description was made non-blocking")
	}
	cancel()
	<-done
	if c.of(0) != total {
		t.Errorf("%d bytes given back of %d", c.of(0), total)
	}
}

// 2>&1: one destination, so that whole lines stay whole.
func TestMidLine(t *testing.T) {
	for text, want := range map[string]bool{"": false, "line\n": false, "line\nbegin": true} {
		var s *Sink
		collect(t, Config{Ranks: 1}, func(it *Sink) {
			s = it
			s.Write(0, job.Stdout, []byte("not here"), true, time.Now())
			s.Write(0, job.Stderr, []byte(text), true, time.Now())
			s.End(0)
		})
		if s.MidLine() != want {
			t.Errorf("after %q: %v", text, !want)
		}
	}
}

func TestSamePipeForBoth(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	s, err := New(Config{Stdout: w, Stderr: w})
	if err != nil || s.route[job.Stdout] != s.route[job.Stderr] || len(s.dests) != 1 {
		t.Errorf("%v: %d destinations", err, len(s.dests))
	}
}

// The timers of the real goroutines, on a clock that does not wait.
func TestHoldTimers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &lockedBuffer{}
		s, err := New(Config{Stdout: out, Mode: Tag, Ranks: 2})
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- s.Run(t.Context()) }()
		check := func(want string) {
			t.Helper()
			synctest.Wait()
			if got := out.String(); got != want {
				t.Fatalf("got %q, want %q", got, want)
			}
		}
		s.Write(0, job.Stdout, []byte("name? "), true, noon)
		check("[0] name? ")
		s.Write(1, job.Stdout, []byte("x\n"), false, noon)
		check("[0] name? ")
		time.Sleep(DefaultHold)
		check("[0] name? \n[1] x\n")
		s.Write(0, job.Stdout, []byte("1%"), true, noon)
		check("[0] name? \n[1] x\n")
		time.Sleep(DefaultHold)
		check("[0] name? \n[1] x\n[0] 1%")
		s.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer // guarded by mu
}

func (l *lockedBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func TestTail(t *testing.T) {
	tl := &tails{ends: map[laneKey][]byte{}}
	for i := range 5000 {
		tl.add(0, job.Stdout, []byte{byte('a' + i%26), '\n'})
	}
	if got, of := tl.lines(0); of != job.Stdout || len(got) != tailLines || got[9] != string(rune('a'+4999%26)) {
		t.Errorf("got %q", got)
	}
	tl.add(0, job.Stderr, []byte("1%\r2%\nwhy\r\n\n"))
	if got, of := tl.lines(0); of != job.Stderr || !reflect.DeepEqual(got, []string{"2%", "why"}) {
		t.Errorf("got %q of %v", got, of)
	}
	tl.add(1, job.Stderr, bytes.Repeat([]byte("z"), 1<<20))
	if got, _ := tl.lines(1); len(got) != 1 || len(got[0]) != tailBytes {
		t.Errorf("%d lines", len(got))
	}
	if got, _ := tl.lines(2); got != nil {
		t.Error("lines of a silent rank")
	}
}

// What all have written last is a log with tags, by rank and stream, also of who has been asked before there was anything.
func TestSaid(t *testing.T) {
	if got := (*Sink)(nil).Said(); got != nil {
		t.Errorf("of no run: %q", got)
	}
	s := &Sink{tails: &tails{ends: map[laneKey][]byte{}}, cfg: Config{Ranks: 2, Host: func(id int) string { return []string{"w0", "w\n1"}[id] }}}
	s.tails.add(1, job.Stderr, []byte("oh\nno"))
	s.tails.add(1, job.Stdout, []byte("step 1\r2\n"))
	s.tails.add(0, job.Stdout, []byte("step 1\n"))
	if got, want := string(s.Said()), "[0 w0 stdout] step 1\n[1 w\\n1 stdout] 2\n[1 w\\n1 stderr] oh\n[1 w\\n1 stderr] no\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
