package stdio

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/mpiup/mpiup/internal/job"
)

// Tee copies the output of an agent's ranks to the agent's own log (--worker-logs), so that `kubectl logs` of a
// worker shows it. It writes whole lines, each after "[rank] " or whatever the caller calls the rank, never two ranks
// within a line. A log that does not take them in time loses lines and says how many bytes; a rank never waits for
// it. Binary output is not kept apart: lines longer than 8 KiB are broken.
type Tee struct {
	logs [2]*teeLog
}

const (
	teeQueue = 1 << 20 // bytes that wait for a log
	teeLine  = 8 << 10
)

// NewTee returns a tee to the two logs, one goroutine each once Run is called. name is what a rank goes
// by in them; it must not block.
func NewTee(stdout, stderr io.Writer, name func(rank int) string) *Tee {
	return &Tee{logs: [2]*teeLog{newTeeLog(stdout, name), newTeeLog(stderr, name)}}
}

// Run writes until ctx is done, and then what is still queued. A write that never returns
// (a log nobody reads) delays its return: stop reading first.
func (t *Tee) Run(ctx context.Context) error {
	var g errgroup.Group
	for _, l := range t.logs {
		g.Go(func() error { return l.run(ctx) })
	}
	return g.Wait()
}

// Write takes a copy of data. It never blocks.
func (t *Tee) Write(rank int, s job.Stream, data []byte) { t.logs[s].add(rank, data) }

// End writes the unfinished last lines of a rank, with a line end.
func (t *Tee) End(rank int) {
	for _, l := range t.logs {
		l.finish(rank)
	}
}

type teeLog struct {
	w    io.Writer
	name func(rank int) string
	wake chan struct{}

	mu      sync.Mutex
	open    map[int][]byte // unfinished lines by rank, guarded by mu
	ready   []byte         // tagged lines, guarded by mu
	dropped int            // bytes, guarded by mu
}

func newTeeLog(w io.Writer, name func(rank int) string) *teeLog {
	return &teeLog{w: w, name: name, wake: make(chan struct{}, 1), open: map[int][]byte{}}
}

func (l *teeLog) add(rank int, data []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(data) > 0 {
		line, rest, ended := bytes.Cut(data, []byte{'\n'})
		if have := l.open[rank]; ended && len(have)+len(line) <= teeLine {
			l.line(rank, have, line)
			delete(l.open, rank)
			data = rest
			continue
		}
		n := min(len(line), teeLine-len(l.open[rank]))
		l.open[rank] = append(l.open[rank], line[:n]...)
		data = data[n:]
		if len(data) > 0 {
			l.line(rank, l.open[rank], nil)
			delete(l.open, rank)
		}
	}
}

func (l *teeLog) finish(rank int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if have, ok := l.open[rank]; ok {
		l.line(rank, have, nil)
		delete(l.open, rank)
	}
}

// line queues one line, given in two parts. mu is held.
func (l *teeLog) line(rank int, a, b []byte) {
	if len(l.ready) > teeQueue {
		l.dropped += len(a) + len(b) + 1
		return
	}
	if l.dropped > 0 {
		l.ready = append(l.ready, l.lost()...)
	}
	l.ready = append(append(append(l.ready, '['), l.name(rank)...), "] "...)
	l.ready = append(append(append(l.ready, a...), b...), '\n')
	poke(l.wake)
}

// lost is the line that says what is missing. mu is held.
func (l *teeLog) lost() string {
	n := l.dropped
	l.dropped = 0
	return fmt.Sprintf("mpiup: %d bytes of the ranks' output are missing in this log, which was read too slowly\n", n)
}

func (l *teeLog) run(ctx context.Context) error {
	for {
		var stop bool
		select {
		case <-l.wake:
		case <-ctx.Done():
			stop = true
		}
		l.mu.Lock()
		out := l.ready
		l.ready = nil
		if stop && l.dropped > 0 {
			out = append(out, l.lost()...)
		}
		l.mu.Unlock()
		if len(out) > 0 {
			if _, err := l.w.Write(out); err != nil {
				l.mu.Lock()
				l.dropped += len(out)
				l.mu.Unlock()
			}
		}
		if stop {
			return nil
		}
	}
}
