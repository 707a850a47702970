package iof

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher/run/model"
)

// onOne is a run of jobs of so many ranks, all on one host.
func onOne(ranks ...int) (who model.Roster) {
	for _, n := range ranks {
		who = who.Grow(&job.Plan{Placements: make([]job.Placement, n)}, []int{0})
	}
	return who
}

func TestGrow(t *testing.T) {
	who := onOne(2, 1, 2)
	use := func(s *Sink) {
		for number := 1; number < 3; number++ {
			first, end := who.Job(number).IDs()
			if err := s.Grow(number, first, end-first); err != nil {
				t.Fatal(err)
			}
		}
		for id, text := range []string{"a\n", "b\n", "c\n", "d\n", "e\n"} {
			s.Write(id, job.Stdout, []byte(text), false, noon)
		}
		for id := range 5 {
			s.End(id)
		}
	}
	for _, tt := range []struct {
		name string
		mode Mode
		want []string // lines
	}{
		{"plain", Plain, []string{"a", "b", "c", "d", "e"}},
		{"tags", Tag, []string{"[0] a", "[1] b", "[1.0] c", "[2.0] d", "[2.1] e"}},
		{"JSON", JSON, []string{
			`{"time":"2026-11-20T12:00:00.042Z","rank":0,"stream":"stdout","text":"a"}`,
			`{"time":"2026-11-20T12:00:00.042Z","rank":1,"stream":"stdout","text":"b"}`,
			`{"time":"2026-11-20T12:00:00.042Z","job":1,"rank":0,"stream":"stdout","text":"c"}`,
			`{"time":"2026-11-20T12:00:00.042Z","job":2,"rank":0,"stream":"stdout","text":"d"}`,
			`{"time":"2026-11-20T12:00:00.042Z","job":2,"rank":1,"stream":"stdout","text":"e"}`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if out, _ := collect(t, Config{Mode: tt.mode, Ranks: 2, Process: who.Process}, use); out != strings.Join(tt.want, "\n")+"\n" {
				t.Errorf("got\n%s", out)
			}
		})
	}
	t.Run("Open MPI's tags", func(t *testing.T) {
		out, _ := collect(t, Config{Mode: Tag, Style: OpenMPIStyle, Ranks: 2, Process: who.Process}, use)
		if want := "[1,0]<stdout>:a\n[1,1]<stdout>:b\n[2,0]<stdout>:c\n[3,0]<stdout>:d\n[3,1]<stdout>:e\n"; out != want {
			t.Errorf("got\n%s", out)
		}
	})
	t.Run("Open MPI's files", func(t *testing.T) {
		for _, noID := range []bool{false, true} {
			dir := t.TempDir()
			first := "1/"
			if noID {
				first = ""
			}
			collect(t, Config{Dir: dir, Style: OpenMPIStyle, NoJobID: noID, Ranks: 2, Process: who.Process}, use)
			for path, want := range map[string]string{first + "rank.1/stdout": "b\n", "2/rank.0/stdout": "c\n",
				"3/rank.1/stdout": "e\n", "3/rank.1/stderr": ""} {
				if got, err := os.ReadFile(filepath.Join(dir, path)); err != nil || string(got) != want {
					t.Errorf("%s: %q, %v; want %q", path, got, err, want)
				}
			}
		}
	})
	t.Run("Open MPI's tags of what was merged", func(t *testing.T) {
		out, _ := collect(t, Config{Mode: Tag, Style: OpenMPIStyle, Merge: true, Ranks: 1}, func(s *Sink) {
			s.Write(0, job.Stderr, []byte("a\n"), false, noon)
		})
		if out != "[1,0]<stderr>:a\n" {
			t.Errorf("got %q", out)
		}
	})
	t.Run("a pattern before lines", func(t *testing.T) {
		out, _ := collect(t, Config{Prepend: "%r/%g/%p/%h/%%%x: ", Ranks: 2, Process: who.Process, Host: func(id int) string { return "h" + strconv.Itoa(id) }, Node: func(id int) int { return 10 + id }}, use)
		if want := "0/0/10/h0/%: a\n1/0/11/h1/%: b\n0/1/12/h2/%: c\n0/2/13/h3/%: d\n1/2/14/h4/%: e\n"; out != want {
			t.Errorf("got\n%s", out)
		}
	})
	t.Run("the time before lines", func(t *testing.T) {
		out, _ := collect(t, Config{Prepend: "%t|%r %t: ", Ranks: 2, Begun: noon.Add(-90 * time.Second)}, func(s *Sink) {
			s.Write(0, job.Stdout, []byte("a\nb\n"), false, noon)
			s.Write(0, job.Stdout, []byte("c\n"), false, noon.Add(-2*time.Minute)) // a clock that is behind
		})
		if want := "90|0 90: a\n90|0 90: b\n0|0 0: c\n"; out != want {
			t.Errorf("got\n%s", out)
		}
	})
	t.Run("one rank's output", func(t *testing.T) {
		var c credits
		out, errs := collect(t, Config{Ranks: 2, Process: who.Process, Only: func(id int) bool { return id == 1 }, Written: c.written}, use)
		if out != "b\n" || errs != "" {
			t.Errorf("got %q and %q", out, errs)
		}
	})
	t.Run("patterns of files", func(t *testing.T) {
		dir := t.TempDir()
		var c credits
		out, errs := collect(t, Config{Files: [2]Pattern{Pattern(dir) + "/sub/o.%g", ""}, Ranks: 2, Process: who.Process, Written: c.written}, func(s *Sink) {
			use(s)
			s.Write(1, job.Stderr, []byte("f\n"), false, noon)
		})
		if out != "" || errs != "f\n" {
			t.Errorf("the streams got %q and %q", out, errs)
		}
		for path, want := range map[string]string{"o.0": "a\nb\n", "o.1": "c\n", "o.2": "d\ne\n"} {
			if got, err := os.ReadFile(filepath.Join(dir, "sub", path)); err != nil || string(got) != want {
				t.Errorf("%s: %q, %v; want %q", path, got, err, want)
			}
		}
		if c.of(0) != 2 || c.of(1) != 4 || c.of(4) != 2 {
			t.Errorf("given back: %d, %d and %d bytes", c.of(0), c.of(1), c.of(4))
		}
	})
	t.Run("a file that cannot be", func(t *testing.T) {
		var broken []error
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "0"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		cfg := Config{Files: [2]Pattern{Pattern(dir) + "/%r/o", Pattern(dir) + "/e"}, Ranks: 2, Process: who.Process, Broken: func(err error) { broken = append(broken, err) }}
		var out, errs bytes.Buffer
		cfg.Stdout, cfg.Stderr = &out, &errs
		s, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		use(s)
		s.Close()
		if err := s.Run(t.Context()); err == nil || len(broken) != 1 || !strings.Contains(broken[0].Error(), "output file of rank 0: open "+dir+"/0: not a directory") {
			t.Errorf("%v, told %v", err, broken)
		}
	})
	t.Run("files", func(t *testing.T) {
		dir := t.TempDir()
		collect(t, Config{Dir: dir, Ranks: 2, Process: who.Process}, use)
		for path, want := range map[string]string{"rank.1/stdout": "b\n", "job.1/rank.0/stdout": "c\n",
			"job.2/rank.1/stdout": "e\n", "job.2/rank.1/stderr": ""} {
			if got, err := os.ReadFile(filepath.Join(dir, path)); err != nil || string(got) != want {
				t.Errorf("%s: %q, %v; want %q", path, got, err, want)
			}
		}
	})
}

// A job whose files cannot be made does not exist: the next one gets its number and ids.
func TestGrowThatFails(t *testing.T) {
	dir := t.TempDir()
	out, _ := collect(t, Config{Mode: Tag, Dir: dir, Ranks: 1, Process: onOne(1, 1).Process}, func(s *Sink) {
		in := filepath.Join(dir, "job.1")
		if err := os.WriteFile(in, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := s.Grow(1, 1, 3); err == nil || !strings.Contains(err.Error(), "rank 1.0") {
			t.Errorf("error %v does not name the rank", err)
		}
		if err := os.Remove(in); err != nil {
			t.Fatal(err)
		}
		if err := s.Grow(1, 1, 1); err != nil {
			t.Fatal(err)
		}
		s.Write(1, job.Stdout, []byte("x\n"), false, noon)
	})
	if out != "[1.0] x\n" {
		t.Errorf("got %q", out)
	}
}
