package pattern

import "testing"

func TestOf(t *testing.T) {
	p := Of(`^rank (\d+)`)
	first := p()
	if p() != first {
		t.Error("it is compiled again")
	}
	if m := p().FindStringSubmatch("rank 7 on w1"); len(m) != 2 || m[1] != "7" {
		t.Errorf("%q", m)
	}
	none := Of(`(`)
	defer func() {
		if recover() == nil {
			t.Error("a text that is no pattern is one")
		}
	}()
	none()
}

func TestWith(t *testing.T) {
	p := With("done|exit", `(?i)\b(done|exit) (\d+)`)
	for text, want := range map[string]string{"Done 3": "3", "all EXIT 7": "7", "exit": "", "rank 7 on w1": ""} {
		got := ""
		if m := p.Find(text); m != nil {
			got = m[2]
		}
		if got != want || p.Match(text) != (want != "") {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if With("done", `(`).Match("rank 7") {
		t.Error("it is compiled for a text without its word")
	}
}

func TestWords(t *testing.T) {
	w := Looked([]string{"out of memory", "rank*died", "ab", "signal 1", "out of"})
	for text, want := range map[string]int{"it is out of memory": 0, "out of it": 4, "rank 3 has died": 1, "died rank": -1, "ab": 2, "cab": 2, "a": -1, "": -1,
		"signal 11": -1, "signal 11, signal 1": 3} {
		if got := w.First(text); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

func TestTable(t *testing.T) {
	table := TableOf("# what ends\nend\tdone\nend\tgone\n\ncode\texit\t^exit (\\d+)\ncode\tquit\t^quit (\\d+)\nhead\t\t^a\n")
	for text, want := range map[string]bool{"all is done": true, "it is gone": true, "exit 7": false} {
		if table.In(text, "end") != want {
			t.Errorf("%q: not %v", text, want)
		}
	}
	if m := table.Hinted("code")().Find("quit 7"); len(m) != 3 || m[2] != "7" {
		t.Errorf("%q", m)
	}
	if !table.Unhinted("head")().MatchString("abc") || len(table.Texts("none")) != 0 {
		t.Error("a pattern without words is not found, or texts are that nobody wrote")
	}
}
