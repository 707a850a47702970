package reach

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/mpiup/mpiup/internal/awake"
	"github.com/mpiup/mpiup/internal/hostlist"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/launcher/link"
)

// board knows which hosts are missing and why, and shows it while the launcher waits: redrawn
// in place on a terminal, else a line now and then, sooner when something changed.
//
//	mpiup: waiting for 4 of 16 hosts (12s, 4m48s left)
//	  host w3: no such name (the name of a pod appears when it is ready): ...
//	  3 hosts, w[7-9], at port 21111: connection refused
type board struct {
	names []string
	to    *Reach // where it is shown

	mu      sync.Mutex
	missing []*link.Cause // per host; nil: it answered, guarded by mu
	left    int           // how many are missing, guarded by mu
	changed bool          // since last shown, guarded by mu
	text    string        // what is waited for while the hosts are not known, guarded by mu
	cached  time.Time     // until when DNS may say so, guarded by mu

	drawn int // lines on the terminal that a redraw replaces; show's own
}

var notYet = &link.Cause{Stage: link.StageResolve, Err: fmt.Errorf("not reached yet")}

func newBoard(names []string, r *Reach) *board {
	b := &board{names: names, to: r, missing: make([]*link.Cause, len(names)), left: len(names)}
	for i := range b.missing {
		b.missing[i] = notYet
	}
	return b
}

// set says why host i is missing; nil: it answered.
func (b *board) set(i int, c *link.Cause) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case c == nil && b.missing[i] != nil:
		b.left--
	case c != nil && b.missing[i] == nil:
		b.left++
	}
	old := b.missing[i]
	b.missing[i] = c
	b.changed = b.changed || c == nil || old == nil || label(old) != label(c)
}

// swap changes why host i is missing, if it is for old: by notYet, or itsTurn while it was not asked because of this launcher.
func (b *board) swap(i int, old, to *link.Cause) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.missing[i] == old {
		b.missing[i], b.changed = to, true
	}
}

// note says what is waited for while it is not known which hosts there are, and until when DNS may say so.
func (b *board) note(text string, cached time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.changed, b.text, b.cached = b.changed || b.text != text, text, cached
}

// last is the cause of an attempt that the end of waiting cut short: it counts where it says more than what was known.
func (b *board) last(i int, c *link.Cause) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if old := b.missing[i]; untold(old) || old != nil && c.Stage > old.Stage {
		b.missing[i] = c
	}
}

// Times of the display. A run whose hosts are there shows nothing.
const (
	firstDraw   = 400 * time.Millisecond // on a terminal
	redraw      = 250 * time.Millisecond
	firstLine   = 2 * time.Second // elsewhere
	nextLine    = 5 * time.Second // at the earliest, when something changed
	maxRows     = 12              // on the terminal
	defaultCols = 80
)

// showing displays progress until hide is called.
func (b *board) showing(ctx context.Context) (hide func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { defer close(done); b.show(ctx) }()
	return func() { cancel(); <-done }
}

// show displays progress until ctx ends, and then takes a table off the terminal.
func (b *board) show(ctx context.Context) {
	begun := time.Now()
	pause := firstLine
	if b.to.Terminal {
		pause = firstDraw
	}
	t := time.NewTimer(pause)
	defer t.Stop()
	due := 10 * time.Second // for a line whatever happens, then at 30 s, then each minute
	for {
		select {
		case <-ctx.Done():
			if b.drawn > 0 {
				io.WriteString(b.to.Stderr, b.back())
			}
			return
		case now := <-t.C:
			waited := now.Sub(begun).Round(time.Second)
			since := waited.String()
			if left, bounded := awake.Left(ctx); bounded {
				since += fmt.Sprintf(", %v left", inSeconds(left))
			}
			switch {
			case b.to.Terminal:
				b.draw(since)
				t.Reset(redraw)
			case b.take() || waited >= due:
				fmt.Fprintf(b.to.Stderr, "mpiup: %s\n", visible.Line(b.line(since)))
				if waited >= due {
					due = min(3*due, waited+time.Minute)
				}
				t.Reset(nextLine)
			default:
				t.Reset(time.Second)
			}
		}
	}
}

func (b *board) take() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	was := b.changed
	b.changed = false
	return was
}

// back goes to the beginning of what was drawn and clears it. The terminal has echoed "^C" where the cursor was,
// and going up alone leaves the cursor in that column.
func (b *board) back() string { return fmt.Sprintf("\r\x1b[%dA\x1b[J", b.drawn) }

func (b *board) draw(since string) {
	cols := b.to.Width()
	if cols < 20 {
		cols = defaultCols
	}
	var s strings.Builder
	if b.drawn > 0 {
		s.WriteString(b.back())
	}
	rows := b.rows(since, maxRows)
	for _, row := range rows {
		s.WriteString(clipTo(visible.Line(row), cols-1))
		s.WriteByte('\n')
	}
	b.drawn = len(rows)
	io.WriteString(b.to.Stderr, s.String())
}

// rows is the table, with at most most hosts.
func (b *board) rows(since string, most int) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.text != "" {
		return []string{fmt.Sprintf("mpiup: waiting for hosts (%s): %s%s", since, b.text, repeats(b.cached))}
	}
	rows := []string{fmt.Sprintf("mpiup: waiting for %d of %s (%s)", b.left, visible.Count(len(b.names), "host"), since)}
	lines := b.causes(true)
	for i, l := range lines {
		if i == most {
			return append(rows, fmt.Sprintf("  and %s more", visible.Count(len(lines)-most, "line")))
		}
		rows = append(rows, "  "+l)
	}
	return rows
}

// line says the same in one line, hosts with one kind of cause together.
func (b *board) line(since string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.text != "" {
		return fmt.Sprintf("waiting for hosts (%s): %s%s", since, b.text, repeats(b.cached))
	}
	var order []string
	by := map[string][]string{}
	why := map[string]string{}
	var cached time.Time // of the names that are missing, the first that may be asked for anew
	for i, c := range b.missing {
		if c == nil {
			continue
		}
		if !c.Cached.IsZero() && (cached.IsZero() || c.Cached.Before(cached)) {
			cached = c.Cached
		}
		k := label(c)
		if by[k] == nil {
			order = append(order, k)
			if c.Stage >= link.StageHosts { // waiting alone will hardly cure it
				why[k] = fmt.Sprintf(" (%v)", c)
			}
		}
		by[k] = append(by[k], b.names[i])
	}
	why[noName] = repeats(cached)
	parts := make([]string, len(order))
	for i, k := range order {
		parts[i] = k + ": " + hostlist.Listed(by[k]) + why[k]
	}
	return fmt.Sprintf("waiting for %d of %s (%s): %s", b.left, visible.Count(len(b.names), "host"), since, strings.Join(parts, "; "))
}

const noName = "no such name"

// repeats says for how long other programs, too, may be told what is no longer true.
func repeats(until time.Time) string {
	if d := time.Until(until); d > 0 {
		return fmt.Sprintf(" (caches of DNS may repeat that for %v)", inSeconds(d))
	}
	return ""
}

// label is the cause in two or three words.
func label(c *link.Cause) string {
	switch {
	case c == notYet:
		return "not reached yet"
	case c == itsTurn:
		return fmt.Sprintf("to be asked by this launcher, %d at a time", atOnce)
	case c.Refused:
		return "connection refused" + onPort(c.Port)
	case c.Mute:
		return "connected, and nothing said in time" + onPort(c.Port)
	case c.Ending:
		return "its agent is shutting down"
	case c.Alive:
		return "another launcher of its run is not given up yet"
	case c.Silent && c.Port != 0:
		return "no answer" + onPort(c.Port)
	case c.Silent:
		return "no route"
	case c.Unanswered:
		return "no answer from DNS"
	case c.Turns:
		return fmt.Sprintf("key refused, which a change of the key may bring for up to %v", link.KeyTurn)
	}
	return [...]string{noName, "no connection", "no agent of its own", "TLS refused", "other version", "fenced"}[c.Stage]
}

func onPort(port uint16) string {
	if port == 0 {
		return ""
	}
	return fmt.Sprintf(" on port %d", port)
}

func clipTo(s string, cols int) string {
	r := []rune(s)
	if len(r) <= cols {
		return s
	}
	return string(r[:cols-1]) + "…"
}

// untold is of a host of which nothing is known.
func untold(c *link.Cause) bool { return c == notYet || c == itsTurn }

// telling is the cause that says most of why hosts are missing; nil: none is.
func (b *board) telling() *link.Cause {
	b.mu.Lock()
	defer b.mu.Unlock()
	return link.Telling(b.missing)
}

// verdict of the wait: what every missing host lacked, and the exit code of the most telling cause. No line when none is missing.
func (b *board) verdict() (lines []string, code int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	best := link.Telling(b.missing)
	if best == nil {
		return nil, 0
	}
	const most = 50
	if lines = b.causes(untold(best)); len(lines) > most { // else gathering ended before those of which nothing is known were asked
		lines = append(lines[:most], fmt.Sprintf("and others: %d hosts are missing in all", b.left))
	}
	return lines, best.Stage.ExitCode()
}

// away is a missing host whose pod does not run, as far as its name or its port tell: it has no name yet, or nothing listens there. "": another
// host's cause tells more, or none is missing.
func (b *board) away() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	nobody := func(c *link.Cause) bool {
		return c != nil && !untold(c) && (c.Stage == link.StageResolve && !c.Unanswered || c.Stage == link.StageConnect && c.Refused)
	}
	if best := link.Telling(b.missing); !nobody(best) {
		return ""
	}
	for i, c := range b.missing {
		if nobody(c) {
			return b.names[i]
		}
	}
	return ""
}

// causes are why hosts are missing, alike ones together. The caller has b.mu.
func (b *board) causes(all bool) []string {
	var names, texts []string
	for i, c := range b.missing {
		if c != nil && (all || !untold(c)) {
			names, texts = append(names, b.names[i]), append(texts, c.Error())
		}
	}
	return hostlist.Together("host", names, texts)
}
