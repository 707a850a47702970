package iof

import (
	"bytes"
	"fmt"
	"strconv"
	"time"

	"github.com/mpiup/mpiup/internal/visible"
)

// stampLayout is RFC 3339 with milliseconds.
const stampLayout = "2006-01-02T15:04:05.000Z07:00"

// openMPILayout is that of ctime(3), in local time (orte/mca/iof/base/iof_base_output.c of 4.1;
// src/common/pmix_iof.c of PMIx 5).
const openMPILayout = time.ANSIC

// stamper formats times; lines that came in one piece have the same.
type stamper struct {
	style Style
	at    time.Time
	text  []byte
}

func (s *stamper) append(dst []byte, at time.Time) []byte {
	switch {
	case len(s.text) > 0 && at == s.at:
	case s.style == OpenMPI5Style:
		s.at, s.text = at, at.Local().AppendFormat(s.text[:0], "["+openMPILayout+"]")
	case s.style == OpenMPIStyle:
		s.at, s.text = at, at.Local().AppendFormat(s.text[:0], openMPILayout)
	default:
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
	tag   []byte   // "[rank] ", "[job.rank] ", "[rank host stream] " or what Open MPI has; empty: none
	rest  []string // of the tag, each behind the seconds since begun
	begun time.Time
	stamp bool // the time before the tag
	times stamper
	state lineState
}

type lineState int

const (
	atStart  lineState = iota // nothing of the line is there
	within                    // something is
	atReturn                  // after '\r'
)

// tagger is that of one stream of a process.
func (c *Config) tagger(k laneKey) tagger {
	t := tagger{stamp: c.Timestamps, times: stamper{style: c.Style}}
	switch {
	case c.Prepend != "" && c.Mode == Plain:
		parts := c.fill(c.Prepend, k.id, visible.Line)
		t.tag, t.rest, t.begun = []byte(parts[0]), parts[1:], c.Begun
	case c.Style == OpenMPIStyle || c.Style == OpenMPI5Style:
		t.tag = c.openMPITag(k)
	case c.Mode == Tag:
		t.tag = append([]byte("["), c.process(k.id).Tag()...)
		if c.TagHost && c.Host != nil {
			t.tag = append(append(t.tag, ' '), visible.Line(c.Host(k.id))...)
		}
		if c.TagStream {
			t.tag = append(append(t.tag, ' '), k.stream.String()...)
		}
		t.tag = append(t.tag, "] "...)
	}
	return t
}

// openMPITag is Open MPI's tag of one stream of a process. With two of 5's forms the stream stands behind the time, too.
func (c *Config) openMPITag(k laneKey) (tag []byte) {
	stream := fmt.Sprintf("<%v>:", k.stream) // of what was merged, too
	if c.Style == OpenMPI5Style {
		stream += " "
	}
	p := c.process(k.id)

	switch {
	case c.Mode != Tag && !c.Timestamps:
		return nil
	case c.Mode != Tag:
	case c.Form == TagRank:
		tag = fmt.Appendf(tag, "[%d]", p.Rank)
	case c.Form == TagDetailed:
		if c.Timestamps {
			tag = append(tag, stream...)
		}
		tag = fmt.Appendf(tag, "[%d,%d][%s]", p.Job+1, p.Rank, c.whereOf(k.id))
	case c.Form == TagFullname:
		if c.Timestamps {
			tag = append(tag, stream...)
		}
		tag = fmt.Appendf(tag, "[%s@%d,%d]", c.JobName, p.Job+1, p.Rank)
	default:
		tag = fmt.Appendf(tag, "[%d,%d]", p.Job+1, p.Rank)
	}
	return append(tag, stream...)
}

// whereOf is "worker-1:77", a process's host and number there.
func (c *Config) whereOf(id int) (where string) {
	if c.Host != nil {
		where = visible.Line(c.Host(id))
	}
	if c.PID != nil {
		where += ":" + strconv.Itoa(c.PID(id))
	}
	return where
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
				if g.times.style == OwnStyle {
					dst = append(dst, ' ')
				}
			}
			dst = append(dst, g.tag...)
			for _, rest := range g.rest {
				dst = strconv.AppendInt(dst, int64(max(at.Sub(g.begun), 0)/time.Second), 10)
				dst = append(dst, rest...)
			}
		}
		n, state := line(data, g.times.style == OwnStyle)
		dst = append(dst, data[:n]...)
		data = data[n:]
		g.state = state
	}
	return dst
}

// line returns how many bytes of data belong to the line it begins with, and what follows. A '\r'
// ends it where returns do.
func line(data []byte, returns bool) (n int, after lineState) {
	n, after = len(data), within
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		n, after = i+1, atStart
	}
	if i := bytes.IndexByte(data[:n], '\r'); i >= 0 && returns {
		n, after = i+1, atReturn
	}
	return n, after
}
