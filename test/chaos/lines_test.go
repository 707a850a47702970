package chaos

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"sync"
)

// lines is a launcher's standard output: it checks, line by line, that every rank counts
// without a gap or a repetition.
type lines struct {
	mu      sync.Mutex
	rest    []byte         // of a line not complete, guarded by mu
	next    map[int]int    // by rank: the number it must write next, guarded by mu
	last    map[int]string // by rank: "end" or "term", guarded by mu
	wrong   []string       // guarded by mu
	changed chan struct{}  // closed and replaced when something came, guarded by mu
}

func newLines() *lines {
	return &lines{next: map[int]int{}, last: map[int]string{}, changed: make(chan struct{})}
}

// Write takes a piece of output; it never fails.
func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest = append(l.rest, b...)
	for {
		line, rest, ok := bytes.Cut(l.rest, []byte("\n"))
		if !ok {
			break
		}
		l.line(string(line))
		l.rest = rest
	}
	close(l.changed)
	l.changed = make(chan struct{})
	return len(b), nil
}

// line judges one line; mu is held.
func (l *lines) line(text string) {
	f := strings.Fields(text)
	rank, err := strconv.Atoi(append(f, "")[0])
	switch {
	case err == nil && len(f) == 2 && f[1] == strconv.Itoa(l.next[rank]) && l.last[rank] == "":
		l.next[rank]++
	case err == nil && len(f) == 3 && f[2] == strconv.Itoa(l.next[rank]-1) && l.last[rank] == "":
		l.last[rank] = f[1]
	case len(l.wrong) < 5:
		l.wrong = append(l.wrong, fmt.Sprintf("%q where rank %d was to write %d", text, rank, l.next[rank]))
	}
}

// counts is how far each rank has come.
func (l *lines) counts() (next map[int]int, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	next = make(map[int]int, len(l.next))
	for r, n := range l.next {
		next[r] = n
	}
	return next, l.changed
}

// problems are lines lost or doubled.
func (l *lines) problems() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.wrong...)
}

// ended counts the ranks that ended in a way, "end" or "term".
func (l *lines) ended(how string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range l.last {
		if h == how {
			n++
		}
	}
	return n
}
