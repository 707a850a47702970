package logs

import (
	"strings"
	"time"

	"github.com/mpiup/mpiup/launcher/verdict"
)

// Teller tells what each line of a log says of itself. It belongs to one goroutine, and keeps the last level of each of maxLanes processes, and one
// of all others. The zero value is ready, and is of one log.
type Teller struct {
	scanner
	time  time.Time // of the last line that had one
	lanes map[lane]*manner
}

// Told is what a line says of itself.
type Told struct {
	Rank         int    // -1: not named
	Host, Stream string // "": not named
	Time         time.Time
	Level        Level
	Indent, Text string // without tags, at most MaxLine bytes
}

// Tell takes a line, or the beginning of a long one. A line without a time has that of the line before.
func (t *Teller) Tell(text []byte) Told {
	t.number++
	l := t.parse(strings.ToValidUTF8(string(text[:min(len(text), MaxLine)]), "\uFFFD"))
	l.own()
	if !l.time.IsZero() {
		t.time = l.time
	}
	return Told{Rank: l.who.rank, Host: l.who.place(), Stream: l.stream, Time: t.time, Level: t.manner(l).level(l), Indent: l.indent, Text: l.text}
}

func (t *Teller) manner(l line) *manner {
	key := lane{rank: l.who.rank, pod: l.who.pod}
	if l.stream == "stderr" {
		key.file = 1
	}
	if t.lanes == nil {
		t.lanes = map[lane]*manner{}
	}
	if t.lanes[key] == nil && len(t.lanes) >= maxLanes {
		key = lane{rank: -1}
	}
	m := t.lanes[key]
	if m == nil {
		m = &manner{last: Info}
		t.lanes[key] = m
	}
	return m
}

// Level is how much a line matters by its own word.
type Level uint8

// The levels.
const (
	Debug Level = iota
	Info
	Warn
	Error
)

// Levels are the words for levels, in their order.
var Levels = []string{"debug", "info", "warn", "error"}

// manner is what a process has written last.
type manner struct {
	last  Level
	trace bool // a Python traceback goes on
}

// level is a line's level: what it says itself, else error for what a failure is known by, else for an indented one that of the
// line before, else info. A line that a logger wrote amid a traceback ends none.
func (m *manner) level(l line) Level {
	switch {
	case strings.HasSuffix(l.text, "Traceback (most recent call last):"):
		m.trace, m.last = true, Error
	case m.trace && l.indent != "", m.trace && l.text == "":
		m.last = Error
	case m.trace && between(l.text):
		level, _ := stated(l.text)
		return level
	case m.trace: // the exception itself
		m.trace, m.last = false, Error
	default:
		if level, ok := stated(l.text); ok {
			m.last = level
		} else if warns(l.text) {
			m.last = Warn
		} else if s, ok := verdict.Recognise(l.text); ok && s.Weight() > verdict.Wait || looksRaised(l.text) {
			m.last = Error
		} else if l.indent == "" {
			m.last = Info
		}
	}
	return m.last
}

const maxLevelAt = 100 // bytes into a line where its level stands, if anywhere

// levelOf is the level of a word or letter for one.
var levelOf = map[string]Level{"trace": Debug, "debug": Debug, "diag": Debug, "info": Info, "notice": Info, "I": Info, "warn": Warn, "warning": Warn,
	"W": Warn, "error": Error, "critical": Error, "fatal": Error, "panic": Error, "E": Error, "F": Error}

// stated is the level that a line states.
func stated(text string) (Level, bool) {
	text = text[:min(len(text), maxLevelAt)]
	if m := levelLetter().Find(text); m != nil {
		return levelOf[m[1]+m[2]], true
	}
	re := levelWord().In(text)
	if re == nil {
		return Info, false
	}
	for _, m := range re.FindAllStringSubmatchIndex(text, -1) {
		word := text[m[4]:m[5]]
		lower := strings.ToLower(word)
		// A small word is a level only where it is marked as one: "an error" is none.
		if word == lower && m[2] < 0 && m[4] > 0 && !strings.ContainsRune(`=["`, rune(text[m[4]-1])) && !strings.HasPrefix(text, "mpiup: "+word+":") {
			continue
		}
		return levelOf[lower], true
	}
	return Info, false
}

// own takes the time of a line that mpiup wrote itself.
func (l *line) own() {
	if m := ownLog().FindStringSubmatch(l.text); m != nil && l.time.IsZero() {
		l.time, _ = when(m[1] + m[2])
	}
}
