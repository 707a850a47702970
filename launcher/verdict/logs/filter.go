package logs

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mpiup/mpiup/internal/hostlist"
	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/launcher/verdict"
)

// Wanted says which lines of a log are wanted; the zero value wants all.
type Wanted struct {
	Ranks        idset.Set // empty: all, and what is no rank's
	Host         string    // "": all
	Stream       string    // "stdout" or "stderr"; "": both, and what is no rank's
	Since, Until time.Time // zero: without a bound
	Level        Level     // and above
}

// Filter picks lines of logs. It belongs to one goroutine, and keeps the last level of each of maxLanes processes, and one of all others.
type Filter struct {
	scanner
	want  Wanted
	time  time.Time // of the last line that had one
	lanes map[lane]*manner
	lacks [4]int // lines that were left out since they do not say what was asked for
	says  [4]bool
	unfit [5]int          // lines that say something else, and the last: that are of a lower level
	ranks map[int]bool    // that lines name, at most maxLanes
	hosts map[string]bool // and hosts
	any   bool
	kept  bool
	told  Told
}

// Told is what a line says of itself.
type Told struct {
	Rank         int    // -1: not named
	Host, Stream string // "": not named
	Time         time.Time
	Level        Level
	Indent, Text string // without tags, at most MaxLine bytes
}

// What a line may lack, and the way to logs that have it.
var lacking = [...]struct{ what, remedy string }{
	{"rank", "mpiup run --tag-output (or --output json) writes it, in the next run"},
	{"host", "mpiup run --tag-with host (or --output json) writes it, in the next run"},
	{"stream", "mpiup run --tag-with stream (or --output json) writes it, in the next run"},
	{"time", "mpiup run --timestamp (or --output json) writes it, in the next run, and kubectl logs --timestamps of this one"},
}

// NewFilter is a filter of the lines that are wanted.
func NewFilter(w Wanted) *Filter {
	return &Filter{want: w, lanes: map[lane]*manner{}, ranks: map[int]bool{}, hosts: map[string]bool{}}
}

// File begins another log.
func (f *Filter) File() { f.scanner, f.time, f.lanes = scanner{}, time.Time{}, map[lane]*manner{} }

// Kept says that the line that began last is wanted.
func (f *Filter) Kept() bool { return f.kept }

// Told is what the line that began last says; one without a time has that of the line before.
func (f *Filter) Told() Told { return f.told }

// Begin takes a line, or the beginning of a long one.
func (f *Filter) Begin(line []byte) {
	f.number++
	f.kept = f.keep(f.parse(strings.ToValidUTF8(string(line[:min(len(line), MaxLine)]), "\uFFFD")))
}

func (f *Filter) keep(l line) bool {
	l.own()
	if !l.time.IsZero() {
		f.time = l.time
	}
	level := f.manner(l).level(l)
	f.told = Told{Rank: l.who.rank, Host: l.who.place(), Stream: l.stream, Time: f.time, Level: level, Indent: l.indent, Text: l.text}
	w := &f.want
	asked := [...]struct{ is, says, fits bool }{
		{!w.Ranks.Empty(), l.who.rank >= 0, w.Ranks.Contains(l.who.rank)},
		{w.Host != "", l.who.place() != "", l.who.place() == w.Host},
		{w.Stream != "", l.stream != "", l.stream == w.Stream},
		{!w.Since.IsZero() || !w.Until.IsZero(), !f.time.IsZero(), !f.time.Before(w.Since) && (w.Until.IsZero() || f.time.Before(w.Until))},
	}
	if l.who.rank >= 0 && len(f.ranks) < maxLanes {
		f.ranks[l.who.rank] = true
	}
	if host := l.who.place(); host != "" && len(f.hosts) < maxLanes {
		f.hosts[cut(host)] = true
	}
	for i, a := range asked {
		f.says[i] = f.says[i] || a.says
	}
	for i, a := range asked {
		switch {
		case !a.is:
		case !a.says:
			f.lacks[i]++
			return false
		case !a.fits:
			f.unfit[i]++
			return false
		}
	}
	if level < w.Level {
		f.unfit[len(asked)]++
		return false
	}
	f.any = true
	return true
}

// Nothing says why no line is wanted of a log whose lines say what was asked for; "": one is wanted, or Lacking tells.
func (f *Filter) Nothing() string {
	if f.any || f.Lacking() != "" {
		return ""
	}
	for i, n := range slices.Backward(f.unfit[:]) { // the lines that fit best
		if n == 0 {
			continue
		}
		switch i {
		case 0:
			return fmt.Sprintf("no line is of %s: the log has lines of %s",
				f.want.Ranks.Named("rank"), idset.Possible(slices.Collect(maps.Keys(f.ranks))...).Named("rank"))
		case 1:
			return fmt.Sprintf("no line says that it is of host %s: those that name a host are of %s; mpiup run --tag-with host writes it into each, in the next run", f.want.Host, hostlist.Listed(slices.Sorted(maps.Keys(f.hosts))))
		case 2:
			return "no line is on " + f.want.Stream
		case 3:
			return "no line is of that time"
		}
		return "no line is of level " + Levels[f.want.Level] + " or above"
	}
	return ""
}

// Lacking is what no line said though it was asked for, as a sentence; "": nothing.
func (f *Filter) Lacking() string {
	for i, n := range f.lacks {
		if n > 0 && !f.says[i] {
			return fmt.Sprintf("no line names its %s; %s", lacking[i].what, lacking[i].remedy)
		}
	}
	return ""
}

func (f *Filter) manner(l line) *manner {
	key := lane{rank: l.who.rank, pod: l.who.pod}
	if l.stream == "stderr" {
		key.file = 1
	}
	if f.lanes[key] == nil && len(f.lanes) >= maxLanes {
		key = lane{rank: -1}
	}
	m := f.lanes[key]
	if m == nil {
		m = &manner{last: Info}
		f.lanes[key] = m
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
