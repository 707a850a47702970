package stdio

import (
	"bytes"
	"context"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/test/cost"
	"strconv"
	"strings"
	"testing"
)

func TestTee(t *testing.T) {
	var out, err bytes.Buffer
	tee := NewTee(&out, &err, strconv.Itoa)
	tee.Write(0, job.Stdout, []byte("one\ntw"))
	tee.Write(1, job.Stdout, []byte("other\n"))
	tee.Write(0, job.Stdout, []byte("o\nrest"))
	tee.Write(1, job.Stderr, []byte("bad\n"))
	tee.End(0)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	tee.Run(ctx)
	if want := "[0] one\n[1] other\n[0] two\n[0] rest\n"; out.String() != want {
		t.Errorf("stdout %q, want %q", out.String(), want)
	}
	if err.String() != "[1] bad\n" {
		t.Errorf("stderr %q", err.String())
	}
}

func TestTeeCallsRanksAsItIsTold(t *testing.T) {
	var out bytes.Buffer
	tee := NewTee(&out, &out, func(rank int) string { return "1." + strconv.Itoa(rank-4) })
	tee.Write(6, job.Stdout, []byte("of a spawned job\n"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	tee.Run(ctx)
	if want := "[1.2] of a spawned job\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}

func TestTeeDropsWhatIsNotRead(t *testing.T) {
	var out bytes.Buffer
	tee := NewTee(&out, &out, strconv.Itoa)
	line := []byte(strings.Repeat("x", 79) + "\n")
	const n = 20_000 // 1.6 MB while nobody writes
	for range n {
		tee.Write(0, job.Stdout, line)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	tee.Run(ctx)
	if out.Len() > teeQueue+1000 {
		t.Errorf("%d bytes were queued", out.Len())
	}
	kept := strings.Count(out.String(), "[0] ")
	if !strings.HasSuffix(out.String(), "read too slowly\n") || kept == n {
		t.Errorf("%d lines kept, ends with %q", kept, out.String()[out.Len()-100:])
	}
}

func FuzzTee(f *testing.F) {
	f.Add([]byte("a\nb"), uint8(1))
	f.Add(bytes.Repeat([]byte("y"), 20_000), uint8(200))
	f.Fuzz(func(t *testing.T, data []byte, split uint8) {
		defer cost.Watch(t, cost.Parser, len(data))()
		l := newTeeLog(nil, strconv.Itoa)
		for d := data; len(d) > 0; {
			n := min(len(d), 1+int(split))
			l.add(7, d[:n])
			d = d[n:]
		}
		l.finish(7)
		for _, line := range strings.SplitAfter(string(l.ready), "\n") {
			if line != "" && !strings.HasPrefix(line, "[7] ") || len(line) > teeLine+16 {
				t.Fatalf("line %.40q, %d bytes", line, len(line))
			}
		}
		text := strings.ReplaceAll(string(l.ready), "[7] ", "")
		want := strings.ReplaceAll(string(data), "[7] ", "")
		if strings.ReplaceAll(text, "\n", "") != strings.ReplaceAll(want, "\n", "") {
			t.Fatalf("got %q, want the bytes of %q", text, data)
		}
	})
}
