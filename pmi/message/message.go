// Package message is the parsed form that PMI-1 and PMI-2 share: a name and pairs of key and
// value, in the order of the wire. Packages pmi1 and pmi2 read and write it; package pmi
// answers it.
//
//	cmd=get kvsname=K key=k\n           Message{Name: "get",     Pairs: {kvsname K} {key k}}
//	    36cmd=kvs-get;jobid=K;key=k;    Message{Name: "kvs-get", Pairs: {jobid K} {key k}}
//
// A Message is plain data and safe for concurrent reading. It knows no message's meaning.
package message

import "strconv"

// Message is one request or reply.
type Message struct {
	Name  string // the value of cmd= or mcmd=
	Pairs []Pair // the rest, in order; keys may repeat (spawn)
	Raw   string // PMI-1 requests: the line without its end, for values that hold blanks
}

// Pair is one key=value.
type Pair struct{ Key, Value string }

// New builds a message from a name and alternating keys and values.
func New(name string, kv ...string) *Message {
	m := &Message{Name: name, Pairs: make([]Pair, 0, len(kv)/2+1)}
	for i := 0; i+1 < len(kv); i += 2 {
		m.Add(kv[i], kv[i+1])
	}
	return m
}

// Add appends a pair.
func (m *Message) Add(key, value string) { m.Pairs = append(m.Pairs, Pair{key, value}) }

// AddInt appends a pair with a decimal value.
func (m *Message) AddInt(key string, value int) { m.Add(key, strconv.Itoa(value)) }

// Get returns the first value of key, and whether there is one.
func (m *Message) Get(key string) (string, bool) {
	for _, p := range m.Pairs {
		if p.Key == key {
			return p.Value, true
		}
	}
	return "", false
}

// Value returns the first value of key, or "".
func (m *Message) Value(key string) string {
	v, _ := m.Get(key)
	return v
}

// Int returns the first value of key as a decimal number; ok is false when there is none.
func (m *Message) Int(key string) (n int, ok bool) {
	v, ok := m.Get(key)
	if !ok {
		return 0, false
	}
	n, err := strconv.Atoi(v)
	return n, err == nil
}
