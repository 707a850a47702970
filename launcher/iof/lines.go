package iof

import (
	"bytes"
	"slices"
	"time"

	"github.com/mpiup/mpiup/internal/job"
)

// lines writes whole lines to a stream, by the rules of the package comment. It has no clock
// of its own.
type lines struct {
	*out
	cfg   *Config
	plain bool // bytes pass unchanged
	feed  bool // a line that is given up gets a line end

	lanes   map[laneKey]*lane
	current *lane   // whose unfinished line is the last thing written; nil: none
	waiting []*lane // have something to write and wait for current, first come first served
	holding []*lane // hold the beginning of a line

	last, other     laneKey   // who wrote last, and who was the last but that
	lastAt, otherAt time.Time // when
}

// lane is one stream of one process.
//
//	held:  ....\n....\n....\n|begin of a line
//	       └──── whole ─────┘
type lane struct {
	key       laneKey
	held      []piece
	whole     int       // bytes of held through the last '\n'
	begun     int       // bytes of the unfinished line, held and written
	since     time.Time // when its first byte came
	beginHeld int       // bytes of it that are held
	ended     bool
	isWaiting bool
	isHolding bool
	tag       tagger
	trace     trace // of a traceback that it writes without tags
}

// trace keeps a Python traceback in one piece: of several ranks that fail at once, whose lines have no tags, each has the place for as long as its
// own takes, and for Hold at most.
type trace struct {
	within bool
	at     time.Time // when it began
	torn   bool      // the last byte was no line end
}

var traceback = []byte("Traceback (most recent call last):")

// see follows what is written.
func (t *trace) see(data []byte, now time.Time) {
	if !t.within && !bytes.Contains(data, traceback) {
		t.torn = data[len(data)-1] != '\n'
		return
	}
	for line := range bytes.Lines(data) {
		switch whole := !t.torn; {
		case bytes.HasPrefix(line, traceback):
			t.within, t.at = true, now
		case whole && t.within && len(bytes.TrimSpace(line)) > 0 && line[0] != ' ' && line[0] != '\t': // the exception
			t.within = false
		}
		t.torn = line[len(line)-1] != '\n'
	}
}

func newLines(cfg *Config, o *out, terminal bool) *lines {
	plain := cfg.Mode == Plain && !cfg.Timestamps && cfg.Prepend == ""
	return &lines{cfg: cfg, out: o, plain: plain, feed: !plain || terminal, lanes: map[laneKey]*lane{}}
}

func (ls *lines) lane(k laneKey) *lane {
	l := ls.lanes[k]
	if l == nil {
		l = &lane{key: k, tag: ls.cfg.tagger(k)}
		ls.lanes[k] = l
	}
	return l
}

func (ls *lines) put(p piece, now time.Time) {
	l := ls.lane(laneKey{p.id, p.stream})
	switch {
	case p.end:
		l.ended = true
	case p.whole && len(l.held) == 0 && (ls.current == nil || ls.current == l):
		ls.write(l, p, now)
		l.begun = 0
		ls.current = l.keeps()
	default:
		l.hold(p, now)
	}
	ls.try(l, now)
	ls.settle(now)
}

// hold keeps p until it may be written.
func (l *lane) hold(p piece, now time.Time) {
	end := len(p.data)
	if !p.whole {
		end = bytes.LastIndexByte(p.data, '\n') + 1
	}
	tail := len(p.data) - end
	if end > 0 {
		l.whole += l.beginHeld + end
		l.begun, l.beginHeld = 0, 0
	}
	if tail > 0 && l.begun == 0 {
		l.since = now
	}
	l.begun += tail
	l.beginHeld += tail
	l.held = append(l.held, p)
}

// overdue: the beginning of l's line, or its traceback, does not wait, nor keep others waiting, any longer.
func (l *lane) overdue(hold time.Duration, now time.Time) bool {
	return l.ended || l.begun > longLine || !now.Before(l.from().Add(hold))
}

// from is when that began.
func (l *lane) from() time.Time {
	if l.trace.within {
		return l.trace.at
	}
	return l.since
}

// keeps is l where it keeps the place after whole lines, in a traceback; else nil.
func (l *lane) keeps() *lane {
	if l.trace.within && !l.ended {
		return l
	}
	return nil
}

func (ls *lines) try(l *lane, now time.Time) {
	late := l.beginHeld > 0 && l.overdue(ls.cfg.Hold, now)
	if ls.current != nil && ls.current != l {
		if l.whole > 0 || late {
			ls.wait(l)
		} else if l.beginHeld > 0 {
			ls.keep(l)
		}
		return
	}
	if l.whole > 0 {
		ls.writeHeld(l, l.whole, now)
		l.whole = 0
		ls.current = l.keeps()
	}
	switch {
	case l.beginHeld == 0:
	case ls.current == l, late, ls.alone(l, now):
		ls.writeHeld(l, l.beginHeld, now)
		l.beginHeld = 0
		ls.current = l
	default:
		ls.keep(l)
	}
}

func (ls *lines) wait(l *lane) {
	if !l.isWaiting {
		l.isWaiting = true
		ls.waiting = append(ls.waiting, l)
	}
}

func (ls *lines) keep(l *lane) {
	if !l.isHolding {
		l.isHolding = true
		ls.holding = append(ls.holding, l)
	}
}

// settle lets those that wait write, once nothing keeps them from it any more.
func (ls *lines) settle(now time.Time) {
	for len(ls.waiting) > 0 {
		if c := ls.current; c != nil {
			if !c.overdue(ls.cfg.Hold, now) {
				return
			}
			ls.giveUp(c)
		}
		l := ls.waiting[0]
		ls.waiting = ls.waiting[1:]
		l.isWaiting = false
		ls.try(l, now)
	}
	ls.waiting = nil
}

// giveUp ends the unfinished line on the stream. What comes of it later is a new line.
func (ls *lines) giveUp(l *lane) {
	if ls.feed && l.begun > 0 {
		ls.out.buf = append(ls.out.buf, '\n')
		l.tag.state = atStart
	}
	ls.current = nil
	l.begun, l.trace.within = 0, false
}

func (ls *lines) expire(now time.Time) time.Time {
	holding := ls.holding
	ls.holding = nil
	for _, l := range holding {
		l.isHolding = false
		ls.try(l, now)
	}
	ls.settle(now)
	var next time.Time
	for _, l := range ls.holding {
		next = earlier(next, l.since.Add(ls.cfg.Hold))
	}
	if ls.current != nil && len(ls.waiting) > 0 {
		next = earlier(next, ls.current.from().Add(ls.cfg.Hold))
	}
	return next
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// close writes everything that is held as it is.
func (ls *lines) close() error {
	var now time.Time
	for _, l := range ls.lanes {
		l.ended = true
	}
	for _, l := range slices.Concat(ls.waiting, ls.holding) {
		ls.try(l, now)
	}
	ls.settle(now)
	return ls.out.close()
}

// alone: nobody but l has written for Hold.
func (ls *lines) alone(l *lane, now time.Time) bool {
	at := ls.lastAt
	if ls.last == l.key {
		at = ls.otherAt
	}
	return at.IsZero() || now.Sub(at) >= ls.cfg.Hold
}

// writeHeld writes the first n bytes of what l holds.
func (ls *lines) writeHeld(l *lane, n int, now time.Time) {
	for n > 0 {
		p := l.held[0]
		if len(p.data) > n {
			rest := p
			p.data, rest.data = p.data[:n], p.data[n:]
			if len(rest.data) < cap(rest.data)/2 {
				rest.data = bytes.Clone(rest.data)
			}
			l.held[0] = rest
		} else {
			l.held = l.held[1:]
		}
		n -= len(p.data)
		ls.write(l, p, now)
	}
	if len(l.held) == 0 {
		l.held = nil
	}
}

func (ls *lines) write(l *lane, p piece, now time.Time) {
	if ls.last != l.key || ls.lastAt.IsZero() {
		ls.other, ls.otherAt = ls.last, ls.lastAt
		ls.last = l.key
	}
	ls.lastAt = now
	if ls.cfg.Mode == Plain && l.key.stream == job.Stderr {
		l.trace.see(p.data, now)
	}
	if ls.plain {
		ls.out.exact(l.key, p.data)
		return
	}
	ls.out.buf = l.tag.append(ls.out.buf, p.data, p.time)
	ls.out.credit(l.key, len(p.data))
	ls.out.full()
}
