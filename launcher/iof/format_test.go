package iof

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/test/cost"
)

var noon = time.Date(2026, 11, 20, 13, 0, 0, 42_000_000, time.FixedZone("", 3600))

func TestTagger(t *testing.T) {
	was := time.Local
	time.Local = noon.Location()
	t.Cleanup(func() { time.Local = was })
	tests := []struct {
		name       string
		tag, stamp bool
		in, want   string
		style      Style
	}{
		{"lines", true, false, "a\nb\n", "[3] a\n[3] b\n", OwnStyle},
		{"no end", true, false, "a\nb", "[3] a\n[3] b", OwnStyle},
		{"empty lines", true, false, "\n\n", "[3] \n[3] \n", OwnStyle},
		{"progress bar", true, false, "1%\r2%\n", "[3] 1%\r[3] 2%\n", OwnStyle},
		{"return and newline", true, false, "a\r\nb\r\n", "[3] a\r\n[3] b\r\n", OwnStyle},
		{"time", false, true, "a\nb\n", "2026-11-20T12:00:00.042Z a\n2026-11-20T12:00:00.042Z b\n", OwnStyle},
		{"both", true, true, "a\n", "2026-11-20T12:00:00.042Z [3] a\n", OwnStyle},
		{"neither", false, false, "a\x00\r\xff\n", "a\x00\r\xff\n", OwnStyle},
		{"Open MPI's tag", true, false, "a\rb\nc", "[1,3]<stdout>:a\rb\n[1,3]<stdout>:c", OpenMPIStyle},
		{"Open MPI's time", false, true, "a\n", "Fri Nov 20 13:00:00 2026<stdout>:a\n", OpenMPIStyle},
		{"Open MPI's both", true, true, "a\n", "Fri Nov 20 13:00:00 2026[1,3]<stdout>:a\n", OpenMPIStyle},
		{"Open MPI 5's tag", true, false, "a\rb\nc", "[1,3]<stdout>: a\rb\n[1,3]<stdout>: c", OpenMPI5Style},
		{"Open MPI 5's time", false, true, "a\n", "[Fri Nov 20 13:00:00 2026]<stdout>: a\n", OpenMPI5Style},
		{"Open MPI 5's both", true, true, "a\n\n", "[Fri Nov 20 13:00:00 2026][1,3]<stdout>: a\n[Fri Nov 20 13:00:00 2026][1,3]<stdout>: \n", OpenMPI5Style},
		{"Open MPI's neither", false, false, "a\r\n", "a\r\n", OpenMPIStyle},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := taggerOf(3, tt.tag, tt.stamp, tt.style)
			if got := string(g.append(nil, []byte(tt.in), noon)); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// Open MPI 5's tags name a process in several forms; the lines are those of 5.0.8 ("--output tag-detailed,timestamp" and so on).
func TestFormsOfTags(t *testing.T) {
	for _, tt := range []struct {
		form  TagForm
		stamp bool
		want  string
	}{
		{TagProcess, false, "[1,3]<stderr>: x\n"},
		{TagRank, false, "[3]<stderr>: x\n"},
		{TagDetailed, false, `[1,3][w1\u001b:77]<stderr>: x` + "\n"},
		{TagFullname, false, "[prterun-w0-5@1,3]<stderr>: x\n"},
		{TagProcess, true, "STAMP[1,3]<stderr>: x\n"},
		{TagRank, true, "STAMP[3]<stderr>: x\n"},
		{TagDetailed, true, `STAMP<stderr>: [1,3][w1\u001b:77]<stderr>: x` + "\n"},
		{TagFullname, true, "STAMP<stderr>: [prterun-w0-5@1,3]<stderr>: x\n"},
	} {
		c := Config{Mode: Tag, Style: OpenMPI5Style, Form: tt.form, Timestamps: tt.stamp, JobName: "prterun-w0-5",
			Host: func(int) string { return "w1\x1b" }, PID: func(int) int { return 77 }}
		g := c.tagger(laneKey{3, job.Stderr})
		want := strings.Replace(tt.want, "STAMP", noon.Local().Format("[Mon Jan _2 15:04:05 2006]"), 1)
		if got := string(g.append(nil, []byte("x\n"), noon)); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// Tags may have the host, as it is safe to show, and the stream.
func TestTagsWithHostAndStream(t *testing.T) {
	for _, tt := range []struct {
		host, stream bool
		want         string
	}{
		{false, false, "[3] x\n"},
		{true, false, `[3 w1\u001b] x` + "\n"},
		{false, true, "[3 stderr] x\n"},
		{true, true, `[3 w1\u001b stderr] x` + "\n"},
	} {
		c := Config{Mode: Tag, TagHost: tt.host, TagStream: tt.stream, Host: func(int) string { return "w1\x1b" }}
		g := c.tagger(laneKey{3, job.Stderr})
		if got := string(g.append(nil, []byte("x\n"), noon)); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}

func taggerOf(id int, tag, stamp bool, style Style) tagger {
	c := Config{Timestamps: stamp, Style: style}
	if tag {
		c.Mode = Tag
	}
	return c.tagger(laneKey{id, job.Stdout})
}

// Any split of the same bytes gives the same output, and without the tags it is the input.
func FuzzTagger(f *testing.F) {
	f.Add([]byte("a\nb\r\nc\rd\n\n"), []byte{1, 2}, true)
	f.Add([]byte("\r\r\n\n\r"), []byte{0}, false)
	f.Fuzz(func(t *testing.T, data, splits []byte, stamp bool) {
		defer cost.Watch(t, cost.Parser, len(data)+len(splits))()
		whole := taggerOf(1, true, stamp, OwnStyle)
		want := whole.append(nil, data, noon)
		parts := taggerOf(1, true, stamp, OwnStyle)
		var got []byte
		for i, d := 0, data; len(d) > 0; i++ {
			n := len(d)
			if len(splits) > 0 {
				n = min(n, 1+int(splits[i%len(splits)]))
			}
			got = parts.append(got, d[:n], noon)
			d = d[n:]
		}
		if !bytes.Equal(got, want) || parts.state != whole.state {
			t.Fatalf("in pieces %q, at once %q", got, want)
		}
		tag := string(whole.tag)
		if stamp {
			tag = "2026-11-20T12:00:00.042Z " + tag
		}
		plain := bytes.ReplaceAll(got, []byte(tag), nil)
		if !bytes.Equal(plain, bytes.ReplaceAll(data, []byte(tag), nil)) {
			t.Fatalf("%q lost something of %q", got, data)
		}
	})
}
