package pmi

import (
	"fmt"
	"strconv"
	"strings"
)

// A message is what PMI-1 or PMI-2 says: both mean one Message, a name and pairs of key and value, and
// spell it in their own way.
//
//	PMI-1, a line                  cmd=get kvsname=K key=k\n           Message{Name: "get",     Pairs: {kvsname K} {key k}}
//	  but for spawn, lines         mcmd=spawn\n nprocs=2\n execname=a b=c\n … endcmd\n
//	PMI-2, length and payload      "    36cmd=kvs-get;jobid=K;key=k;"  Message{Name: "kvs-get", Pairs: {jobid K} {key k}}
//
// PMI-1 keeps values as they came. Clients since MPICH 4.1 understand a backslash as an escape; what one client of a job
// wrote, another of the same kind reads, so the server must not interpret it (it only does not cut a value at an
// escaped blank). Clients up to MPICH 4.0 read lines of at most MaxReply bytes; newer ones, of any length
// (MPICH src/pmi/src/pmi_wire.c, src/pmi/simple/simple_pmiutil.h).
//
// In PMI-2 a ";" inside a value is written twice by clients up to MPICH 4.0 and by Slurm's libpmi2. Newer clients write it
// once, which cannot be told from an end, and read none: so a doubled one is read as one, and no reply holds any. The
// first request on a connection, init, and a later one that starts anew, are PMI-1 lines.
//
// A bufio.Reader is for one goroutine; a Message is plain data.

// MaxPairs is the most pairs accepted in a request (MAX_PMI_ARGS of MPICH 4.1 and later).
const MaxPairs = 1000

// SyntaxError is input that is neither.
type SyntaxError struct {
	What string // what is wrong, without the rank
	Near string // the first bytes of the offending line or message
}

func (e *SyntaxError) Error() string {
	if e.Near == "" {
		return e.What
	}
	return fmt.Sprintf("%s near %q", e.What, e.Near)
}

func syntax(what, near string) error { return &SyntaxError{what, near[:min(len(near), 60)]} }

// Message is one request or reply.
type Message struct {
	Name  string // the value of cmd= or mcmd=
	Pairs []Pair // the rest, in order; keys may repeat (spawn)
	Raw   string // PMI-1 requests: the line without its end, for values that hold blanks
}

// Pair is one key=value.
type Pair struct{ Key, Value string }

// Add appends a pair.
func (m *Message) Add(key, value string) { m.Pairs = append(m.Pairs, Pair{key, value}) }

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

func validName(s string) bool {
	return s != "" && len(s) <= 64 && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-')
	})
}
