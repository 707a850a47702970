package peers

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func screenOfSize(rows, columns int) *screen {
	return &screen{size: func() (int, int) { return rows, columns }, marks: blocks, past: map[rankKey][]float64{}}
}

// look is what ranks of w0 use now.
func look(percent ...float64) *psView {
	v := &psView{}
	for i, c := range percent {
		v.Ranks = append(v.Ranks, psRow{Launcher: "l0", Job: "j1", Rank: uint32(i), Host: "w0", Main: 1, Program: "train",
			State: "running", CPU: c, Phase: "-"})
	}
	return v
}

func shown(t *testing.T, s *screen, looks ...*psView) (last string) {
	t.Helper()
	for _, v := range looks {
		var b strings.Builder
		if err := s.show(&b, v); err != nil {
			t.Fatal(err)
		}
		last = b.String()
	}
	clean, cleared := strings.CutPrefix(last, homeAndClear)
	if !cleared {
		t.Errorf("the screen is not cleared: %q", last)
	}
	return clean
}

// Each rank's CPU is a line; the one that differs is marked, and bold where that is wanted.
func TestSparklines(t *testing.T) {
	last := look(100, 100, 0)
	looks := []*psView{look(100, 100, 100), look(100, 100, 50), last, last, last, last}
	s := screenOfSize(24, 200)
	want := `job j1, by l0
RANK  HOST  PID  PROGRAM  STATE    CPU%  CPU OF LATE                      RSS  OUTPUT      MPI  WAITS IN
0     w0    1    train    running  100                           ██████   -    none in 0s  -    -
1     w0    1    train    running  100                           ██████   -    none in 0s  -    -
2     w0    1    train    running  0                             █▅▁▁▁▁!  -    none in 0s  -    -
`
	if d := cmp.Diff(want, shown(t, s, looks...)); d != "" {
		t.Error(d)
	}
	s.bold, s.marks = true, ascii
	if got := shown(t, s, looks[0]); strings.Contains(got, "\x1b[") || !strings.Contains(got, "#+____#") {
		t.Errorf("%q", got)
	}
	got := shown(t, s, looks[2:]...)
	if !strings.Contains(got, "\x1b[1m2     w0") || strings.Count(got, "\x1b[1m") != 1 {
		t.Errorf("rank 2 is not bold alone: %q", got)
	}
}

// Lines end where the terminal does, and what has no room is told of.
func TestScreenIsNotOverrun(t *testing.T) {
	for _, size := range [][2]int{{24, 80}, {5, 20}, {1, 1}, {2, 3}} {
		percent := make([]float64, 512)
		got := shown(t, screenOfSize(size[0], size[1]), look(percent...), look(percent...))
		lines := strings.Split(strings.TrimSuffix(got, "\n"), "\n")
		for _, l := range lines {
			if utf8.RuneCountInString(l) > size[1] {
				t.Errorf("%v: %q", size, l)
			}
		}
		if size[0] > 2 && len(lines) >= size[0] {
			t.Errorf("%v: %d lines", size, len(lines))
		}
	}
	got := shown(t, screenOfSize(10, 80), look(make([]float64, 20)...))
	if !strings.HasSuffix(got, "and 14 lines more; mpiup ps shows all\n") {
		t.Errorf("%s", got)
	}
}

// A rank that comes later has blanks before it, and one that is gone is forgotten.
func TestRanksThatComeAndGo(t *testing.T) {
	s := screenOfSize(24, 200)
	got := shown(t, s, look(100), look(100, 100))
	if !strings.Contains(got, " ██") || !strings.Contains(got, "  █") || len(s.past) != 2 {
		t.Errorf("%s\n%v", got, s.past)
	}
	if shown(t, s, look(100)); len(s.past) != 1 {
		t.Errorf("%v", s.past)
	}
	for range 100 {
		s.saw(look(1).Ranks)
	}
	for _, past := range s.past {
		if len(past) > maxPast {
			t.Errorf("%d looks are kept", len(past))
		}
	}
}

// What a rank calls itself makes no line, no mark and no control sequence.
func TestScreenOfHostileNames(t *testing.T) {
	s := screenOfSize(24, 300)
	v := look(1, 1)
	v.Ranks[0].Program, v.Ranks[0].Host, v.Ranks[0].Wchan = "a\n9 w9\x00\x1b[2J\tb", "\u202ew\n", oddSign
	v.Ranks[0].Job, v.Ranks[1].Job = "j\n\x00", "j\n\x00"
	s.bold = true
	got := shown(t, s, v)
	if strings.ContainsAny(got, "\x00\x1b\u202e") || strings.Count(got, "\n") != 4 {
		t.Errorf("%q", got)
	}
}

func TestUnicodeLocale(t *testing.T) {
	for env, want := range map[string]bool{"": false, "LANG=C": false, "LANG=C.UTF-8": true, "LANG=de_DE.utf8": true,
		"LANG=C.UTF-8 LC_ALL=C": false, "LANG=C LC_CTYPE=en_US.UTF-8": true, "LANG=en_US.ISO-8859-1": false} {
		get := func(name string) string {
			for kv := range strings.FieldsSeq(env) {
				if v, ok := strings.CutPrefix(kv, name+"="); ok {
					return v
				}
			}
			return ""
		}
		if got := unicodeLocale(get); got != want {
			t.Errorf("%s", fmt.Sprint(env, got))
		}
	}
}
