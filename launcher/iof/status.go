package iof

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/launcher/streams"
)

// Status is one line below the output on a terminal while ranks run. Whoever writes there takes it away first, and it comes back by Show, but not
// within a line of output: so no byte of the ranks is another, nor elsewhere. A Writer and Show may be used from several goroutines.
type Status struct {
	to    io.Writer
	width func() int
	text  func() string

	mu    sync.Mutex
	shown bool // guarded by mu
	torn  bool // the last byte of the output was no line end, guarded by mu
}

// clearLine goes to the beginning of the line and clears it. A terminal may have echoed "^C" where the cursor was.
const clearLine = "\r\x1b[K"

// Status makes a status line on a terminal, through which all output that goes to terminals passes; text is what stands there. It is called before Run.
func (s *Sink) Status(terminal io.Writer, width func() int, text func() string) *Status {
	st := &Status{to: terminal, width: width, text: text}
	for _, stream := range []job.Stream{job.Stdout, job.Stderr} {
		if o := s.outs[stream]; o != nil && streams.IsTerminal(o.to) {
			o.status = st
		}
	}
	return st
}

// Run draws the line anew now and then, and takes it away when ctx ends.
func (s *Status) Run(ctx context.Context) {
	t := time.NewTicker(redraw)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			s.Show(s.text())
		case <-ctx.Done():
			s.Show("")
			return
		}
	}
}

// redraw is the time between two drawings.
const redraw = 250 * time.Millisecond

// Show draws the line; "" takes it away.
func (s *Status) Show(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if text == "" || s.torn {
		s.clear()
		return
	}
	line := []rune(visible.Line(text))
	if most := max(s.width()-1, 20); len(line) > most {
		line = append(line[:most-1], '…')
	}
	_, _ = s.to.Write([]byte(clearLine + string(line)))
	s.shown = true
}

func (s *Status) clear() {
	if s.shown {
		_, _ = io.WriteString(s.to, clearLine)
		s.shown = false
	}
}

// Write writes lines of mpiup's own.
func (s *Status) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clear()
	return s.to.Write(b)
}

// before writes output to another writer of the same terminal. A nil Status does nothing but that.
func (s *Status) before(w io.Writer, b []byte) (int, error) {
	if s == nil {
		return w.Write(b)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clear()
	s.torn = b[len(b)-1] != '\n'
	return w.Write(b)
}
