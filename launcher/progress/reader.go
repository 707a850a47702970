package progress

import (
	"bytes"
	"time"

	"github.com/mpiup/mpiup/internal/job"
)

// Point is what one line of a rank says. At is when the launcher read it.
type Point struct {
	ID     int
	At     time.Time
	Values []Value
}

// maxLanes bounds the streams whose begun lines are kept.
const maxLanes = 16 << 10

// Reader makes lines of what ranks write, and points of those that match. One for a run.
type Reader struct {
	Patterns []Pattern
	lanes    map[lane]*begun
}

type lane struct {
	id     int
	stream job.Stream
}

// begun is the beginning of a line.
type begun struct {
	text []byte // at most maxLine
	torn bool   // its beginning was lost: what comes until its end says nothing
}

// Torn says that bytes of a rank were left out: the line that they stood in is none.
func (r *Reader) Torn(id int, stream job.Stream) {
	if b := r.lane(id, stream); b != nil {
		b.text, b.torn = b.text[:0], true
	}
}

func (r *Reader) lane(id int, stream job.Stream) *begun {
	k := lane{id, stream}
	b := r.lanes[k]
	if b == nil && len(r.lanes) < maxLanes {
		if r.lanes == nil {
			r.lanes = map[lane]*begun{}
		}
		b = &begun{}
		r.lanes[k] = b
	}
	return b
}

// Read takes bytes of a rank, and hands each point in them to found.
func (r *Reader) Read(id int, stream job.Stream, data []byte, at time.Time, found func(Point)) {
	b := r.lane(id, stream)
	if b == nil {
		return
	}
	for len(data) > 0 {
		end := bytes.IndexAny(data, "\r\n")
		if end < 0 {
			b.text = append(b.text, data[:min(len(data), maxLine-len(b.text))]...)
			return
		}
		line := data[:end]
		if len(b.text) > 0 {
			b.text = append(b.text, line[:min(len(line), maxLine-len(b.text))]...)
			line = b.text
		}
		if !b.torn && len(line) > 0 {
			r.line(lane{id, stream}, line[:min(len(line), maxLine)], at, found)
		}
		b.text, b.torn = b.text[:0], false
		data = data[end+1:]
	}
}

// file is the lane of a rank's own file of lines (MPIUP_PROGRESS), which are read as NAME=VALUE too.
const file job.Stream = 2

func (r *Reader) line(of lane, line []byte, at time.Time, found func(Point)) {
	if bytes.IndexByte(line, 0x1b) >= 0 {
		line = withoutEscapes(line)
	}
	var values []Value
	if of.stream == file {
		values = pairs(string(line))
	}
	for _, p := range r.Patterns {
		for i := range p.parts {
			values = append(values, p.parts[i].match(line)...)
		}
	}
	if values != nil {
		found(Point{ID: of.id, At: at, Values: values})
	}
}

// withoutEscapes is a line without the escape sequences that colour it: ESC [, parameters, a letter.
func withoutEscapes(line []byte) []byte {
	plain := make([]byte, 0, len(line))
	for i := 0; i < len(line); i++ {
		if line[i] != 0x1b {
			plain = append(plain, line[i])
			continue
		}
		if i++; i >= len(line) || line[i] != '[' {
			continue
		}
		for i++; i < len(line) && (line[i] < 0x40 || line[i] > 0x7e); {
			i++
		}
	}
	return plain
}
