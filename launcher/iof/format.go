package iof

import (
	"bytes"
	"time"
)

// stampLayout is RFC 3339 with milliseconds.
const stampLayout = "2006-01-02T15:04:05.000Z07:00"

// stamper formats times; lines that came in one piece have the same.
type stamper struct {
	at   time.Time
	text []byte
}

func (s *stamper) append(dst []byte, at time.Time) []byte {
	if len(s.text) == 0 || at != s.at {
		s.at, s.text = at, at.UTC().AppendFormat(s.text[:0], stampLayout)
	}
	return append(dst, s.text...)
}

// tagger puts tags and timestamps before lines. The result does not depend on how the bytes
// are split between calls, but for the times that come with them.
//
//	start ──byte: tag──▶ within ──'\n'──▶ start
//	                       └─────'\r'──▶ return ──'\n'──▶ start
//	                                       └────byte: tag──▶ within
type tagger struct {
	tag   []byte // "[rank] " or "[job.rank] ", empty: none
	stamp bool   // the time before the tag
	times stamper
	state lineState
}

type lineState int

const (
	atStart  lineState = iota // nothing of the line is there
	within                    // something is
	atReturn                  // after '\r'
)

func newTagger(name string, tag, stamp bool) tagger {
	t := tagger{stamp: stamp}
	if tag {
		t.tag = []byte("[" + name + "] ")
	}
	return t
}

// append appends data with its tags to dst. at is the time for lines that begin in data.
func (g *tagger) append(dst, data []byte, at time.Time) []byte {
	for len(data) > 0 {
		if g.state == atReturn && data[0] == '\n' {
			dst = append(dst, '\n')
			data = data[1:]
			g.state = atStart
			continue
		}
		if g.state != within {
			if g.stamp {
				dst = g.times.append(dst, at)
				dst = append(dst, ' ')
			}
			dst = append(dst, g.tag...)
		}
		n, state := line(data)
		dst = append(dst, data[:n]...)
		data = data[n:]
		g.state = state
	}
	return dst
}

// line returns how many bytes of data belong to the line it begins with, and what follows.
func line(data []byte) (n int, after lineState) {
	n, after = len(data), within
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		n, after = i+1, atStart
	}
	if i := bytes.IndexByte(data[:n], '\r'); i >= 0 {
		n, after = i+1, atReturn
	}
	return n, after
}
