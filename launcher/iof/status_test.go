package iof

import (
	"bytes"
	"strings"
	"testing"
)

// shows is what a terminal of many columns shows of bytes: carriage returns, line feeds, and the clearing of a line's rest.
func shows(text string) (lines []string) {
	lines, at := []string{""}, 0
	for len(text) > 0 {
		last := &lines[len(lines)-1]
		switch {
		case strings.HasPrefix(text, "\x1b[K"):
			*last, text = (*last)[:at], text[3:]
			continue
		case text[0] == '\r':
			at = 0
		case text[0] == '\n':
			lines, at = append(lines, ""), 0
		default:
			*last = (*last)[:at] + text[:1] + (*last)[min(at+1, len(*last)):]
			at++
		}
		text = text[1:]
	}
	return lines
}

// Whatever is written while the line stands there, the terminal shows the output as it would without, and the line at most below it.
func TestStatus(t *testing.T) {
	var b bytes.Buffer
	s := &Status{to: &b, width: func() int { return 40 }}
	write := func(text string) { _, _ = s.before(&b, []byte(text)) }
	for _, tt := range []struct {
		name string
		do   func()
		want string // lines, the last is the one with the cursor
	}{
		{"drawn", func() { s.Show("step 1 of 9") }, "step 1 of 9"},
		{"drawn anew, shorter", func() { s.Show("step 2") }, "step 2"},
		{"a line of output takes its place", func() { write("hello\n") }, "hello|"},
		{"it comes back below", func() { s.Show("step 3") }, "hello|step 3"},
		{"output within a line", func() { write("wor") }, "hello|wor"},
		{"is left alone", func() { s.Show("step 4") }, "hello|wor"},
		{"until its end", func() { write("ld\n"); s.Show("step 5") }, "hello|world|step 5"},
		{"a line of mpiup's own", func() { _, _ = s.Write([]byte("mpiup: word\n")) }, "hello|world|mpiup: word|"},
		{"a bar that goes back to its begin", func() { write("50%\r"); s.Show("step 6"); write("60%\r") }, "hello|world|mpiup: word|60%"},
		{"taken away", func() { write("\n"); s.Show("step 7"); s.Show("") }, "hello|world|mpiup: word|60%|"},
		{"no wider than the terminal", func() { s.Show(strings.Repeat("x", 60)) }, "hello|world|mpiup: word|60%|" + strings.Repeat("x", 38) + "…"},
	} {
		tt.do()
		if got := strings.Join(shows(b.String()), "|"); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	var none *Status
	b.Reset()
	if _, err := none.before(&b, []byte("x")); err != nil || b.String() != "x" {
		t.Errorf("without one: %q, %v", b.String(), err)
	}
}
