package iof

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mpiup/mpiup/internal/visible"
)

// records writes JSON lines to a stream. An unfinished line is kept at most Hold, and at most longLine.
type records struct {
	*out
	cfg     *Config
	lanes   map[laneKey]*record
	times   stamper
	holding []*record
}

// record is the line that a stream of a rank is at.
type record struct {
	key     laneKey
	head    []byte // of all its records; nil: not made yet
	text    []byte // so far
	at      time.Time
	since   time.Time
	holding bool
}

func (rs *records) put(p piece, now time.Time) {
	k := laneKey{p.id, p.stream}
	r := rs.lanes[k]
	if r == nil {
		r = &record{key: k}
		rs.lanes[k] = r
	}
	if p.end {
		rs.rest(r)
		return
	}
	for data := p.data; len(data) > 0; {
		if len(r.text) == 0 {
			r.at, r.since = p.time, now
		}
		line, rest, ended := bytes.Cut(data, []byte{'\n'})
		if room := longLine - len(r.text); len(line) > room {
			rs.write(r, line[:room], false)
			data = data[room:]
			continue
		}
		data = rest
		if ended {
			rs.write(r, line, true)
			continue
		}
		r.text = append(r.text, line...)
		rs.keep(r)
	}
}

func (rs *records) keep(r *record) {
	if !r.holding {
		r.holding = true
		rs.holding = append(rs.holding, r)
	}
}

func (rs *records) rest(r *record) {
	if len(r.text) > 0 {
		rs.write(r, nil, false)
	}
}

func (rs *records) expire(now time.Time) (next time.Time) {
	holding := rs.holding
	rs.holding = nil
	for _, r := range holding {
		r.holding = false
		due := r.since.Add(rs.cfg.Hold)
		switch {
		case len(r.text) == 0:
		case now.Before(due):
			rs.keep(r)
			next = earlier(next, due)
		default:
			rs.rest(r)
		}
	}
	return next
}

func (rs *records) close() error {
	for _, r := range rs.holding {
		rs.rest(r)
	}
	return rs.out.close()
}

// write writes the record of r.text and more.
func (rs *records) write(r *record, more []byte, whole bool) {
	text := more
	if len(r.text) > 0 {
		r.text = append(r.text, more...)
		text = r.text
	}
	if r.head == nil {
		r.head = rs.head(r.key)
	}
	b := append(rs.out.buf, `{"time":"`...)
	b = rs.times.append(b, r.at)
	b = append(b, r.head...)
	b = appendText(b, text)
	n := len(text)
	if whole {
		n++
		b = append(b, "}\n"...)
	} else {
		b = append(b, ",\"partial\":true}\n"...)
	}
	rs.out.buf = b
	rs.out.credit(r.key, n)
	rs.out.full()
	r.text = r.text[:0]
}

// head is what is the same in all records of a stream, from the end of the time to the text.
func (rs *records) head(k laneKey) []byte {
	b := []byte(`",`)
	p := rs.cfg.process(k.id)
	if p.Job > 0 {
		b = append(b, fmt.Sprintf(`"job":%d,`, p.Job)...)
	}
	b = append(append(b, `"rank":`...), strconv.Itoa(p.Rank)...)
	if rs.cfg.Host != nil {
		b = append(b, `,"host":`...)
		b = appendString(b, []byte(strings.ToValidUTF8(rs.cfg.Host(k.id), "\uFFFD")))
	}
	return append(b, fmt.Sprintf(`,"stream":"%v","text":`, k.stream)...)
}

// appendText appends text as a JSON string, and the field base64 if that loses bytes.
func appendText(b, text []byte) []byte {
	if utf8.Valid(text) {
		return appendString(b, text)
	}
	b = appendString(b, bytes.ToValidUTF8(text, []byte("\uFFFD")))
	b = append(b, `,"base64":"`...)
	b = base64.StdEncoding.AppendEncode(b, text)
	return append(b, '"')
}

// appendString appends UTF-8 as a JSON string (RFC 8259 section 7), in which all that does not print is an escape. It is called for every
// line of every rank, and encoding/json manages a tenth of the lines a second.
func appendString(b, s []byte) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	from := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= ' ' && c < 0x7f && c != '"' && c != '\\' {
			continue
		}
		if c >= 0x7f {
			r, n := utf8.DecodeRune(s[i:])
			if !strconv.IsPrint(r) {
				b = append(append(b, s[from:i]...), visible.Line(string(s[i:i+n]))...)
				from = i + n
			}
			i += n - 1
			continue
		}
		b = append(b, s[from:i]...)
		from = i + 1
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\r':
			b = append(b, '\\', 'r')
		case '\t':
			b = append(b, '\\', 't')
		default:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
	}
	return append(append(b, s[from:]...), '"')
}
