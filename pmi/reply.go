package pmi

import (
	"strconv"
	"strings"
)

// reply is the answer to one request in its dialect. Every reply carries rc: PMI-2 clients up to
// MPICH 4.0 fail without.
type reply struct {
	v2     bool
	silent bool // abort: nobody reads an answer
	later  bool // somebody else answers
	name   string
	pairs  []Pair
}

func (r *reply) add(key, value string) {
	r.pairs = append(r.pairs, Pair{Key: key, Value: value})
}

func (r *reply) addInt(key string, n int) { r.add(key, strconv.Itoa(n)) }

func (r *reply) ok() { r.add("rc", "0") }

// refuse is an error that the client can read: rc, and a text in the dialect's own field.
func (r *reply) refuse(rc int, text string) {
	r.addInt("rc", rc)
	if r.v2 {
		r.add("errmsg", plain(text, ' '))
	} else {
		r.add("msg", plain(text, '_'))
	}
}

// plain makes text safe as a value: bounded, printable, without the dialects' separators.
func plain(text string, blank rune) string {
	text = strings.Map(func(c rune) rune {
		switch {
		case c == ' ':
			return blank
		case c == ';' || c == '\\' || c < ' ' || c > '~':
			return '_'
		}
		return c
	}, text)
	return text[:min(len(text), 200)]
}

func (r *reply) message() *Message { return &Message{Name: r.name, Pairs: r.pairs} }

func (r *reply) append(b []byte) []byte {
	if r.v2 {
		return AppendPMI2(b, r.message())
	}
	return AppendPMI1(b, r.message())
}

// text is the reply for a log.
func (r *reply) text() string {
	switch {
	case r.silent:
		return ""
	case r.later:
		return "later"
	}
	return strings.TrimSpace(string(r.append(nil)))
}

// value1 makes a stored value fit for a PMI-1 line: a blank that came in unescaped (through
// PMI-2, or from an old client) is escaped for newer clients; old ones read up to the blank.
func value1(v string) string {
	if !strings.Contains(v, " ") {
		return v
	}
	var b strings.Builder
	for i := 0; i < len(v); i++ {
		switch {
		case v[i] == '\\' && i+1 < len(v):
			b.WriteByte(v[i])
			i++
		case v[i] == ' ':
			b.WriteByte('\\')
		}
		b.WriteByte(v[i])
	}
	return b.String()
}
