package iof

import (
	"bytes"
	"encoding/json"
	"time"
	"unicode/utf8"
)

// records writes JSON lines. An unfinished line is kept at most Hold, and at most longLine.
type records struct {
	cfg     *Config
	out     *out
	lanes   map[laneKey]*record
	holding []*record
}

// record is the line that a stream of a rank is at.
type record struct {
	key     laneKey
	text    []byte // so far
	at      time.Time
	since   time.Time
	holding bool
}

func newRecords(cfg *Config, o *out) *records {
	return &records{cfg: cfg, out: o, lanes: map[laneKey]*record{}}
}

func (rs *records) open()      { rs.out.open() }
func (rs *records) flush()     { rs.out.flush() }
func (rs *records) interrupt() { rs.out.interrupt() }

func (rs *records) put(p piece, now time.Time) {
	k := laneKey{p.rank, p.stream}
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

// rest writes an unfinished line.
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

// jsonLine is the form of a record; the order of fields is part of the interface.
type jsonLine struct {
	Time    string `json:"time"`
	Rank    int    `json:"rank"`
	Host    string `json:"host,omitempty"`
	Stream  string `json:"stream"`
	Text    string `json:"text"`
	Partial bool   `json:"partial,omitempty"`
	Base64  []byte `json:"base64,omitempty"` // the bytes of text, when they are not UTF-8
}

// write writes the record of r.text and more.
func (rs *records) write(r *record, more []byte, whole bool) {
	text := more
	if len(r.text) > 0 {
		text = append(r.text, more...)
	}
	l := jsonLine{
		Time: r.at.UTC().Format(stampLayout), Rank: r.key.rank, Stream: r.key.stream.String(),
		Text: string(text), Partial: !whole,
	}
	if rs.cfg.Host != nil {
		l.Host = rs.cfg.Host(r.key.rank)
	}
	if !utf8.Valid(text) {
		l.Text, l.Base64 = string(bytes.ToValidUTF8(text, []byte("\uFFFD"))), text
	}
	n := len(text)
	if whole {
		n++
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(l); err != nil {
		panic(err) // strings, numbers and bytes only
	}
	rs.out.buf = append(rs.out.buf, b.Bytes()...)
	rs.out.credit(r.key, n)
	rs.out.full()
	r.text = r.text[:0]
}
