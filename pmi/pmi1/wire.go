// Package pmi1 reads and writes PMI-1 on the wire: one request and one reply per line, but for
// spawn, which is a block of lines.
//
//	cmd=put kvsname=K key=k value=v\n
//	cmd=put_result rc=0\n
//
//	mcmd=spawn\n nprocs=2\n execname=a b=c\n … endcmd\n
//
// Values are kept as they came. Clients since MPICH 4.1 understand a backslash as an escape;
// what one client of a job wrote, another of the same kind reads, so the server must not
// interpret it (it only does not cut a value at an escaped blank).
//
// Clients up to MPICH 4.0 read lines of at most MaxReply bytes; newer ones, of any length
// (MPICH src/pmi/src/pmi_wire.c, src/pmi/simple/simple_pmiutil.h).
//
// A Reader serves one goroutine. The package does not know what messages mean.
package pmi1

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/mpiup/mpiup/pmi/message"
)

const (
	// MaxReply is the longest reply, line end included, that every client reads in one piece
	// (PMIU_MAXLINE of MPICH 1 to 4.0).
	MaxReply = 1023
	// MaxLine is the longest line accepted from a client, in bytes with its end: a barrier of a
	// group names every rank.
	MaxLine = 256 << 10
	// MaxPairs is the most pairs accepted in a request (MAX_PMI_ARGS of MPICH 4.1 and later).
	MaxPairs = 1000
	// MaxSpawn is the most bytes accepted in one spawn request.
	MaxSpawn = 1 << 20
)

// SyntaxError is input that is not PMI-1.
type SyntaxError struct {
	What string // what is wrong, without the rank
	Near string // the first bytes of the offending line
}

func (e *SyntaxError) Error() string {
	if e.Near == "" {
		return e.What
	}
	return fmt.Sprintf("%s near %q", e.What, e.Near)
}

func syntax(what string, line []byte) error {
	return &SyntaxError{what, string(line[:min(len(line), 60)])}
}

// ReadMessage reads one request. io.EOF means that the stream ended between requests,
// io.ErrUnexpectedEOF inside one.
func ReadMessage(r *bufio.Reader) (*message.Message, error) {
	line, err := readLine(r)
	if err != nil {
		return nil, err
	}
	if bytes.HasPrefix(line, []byte("mcmd=")) {
		return readSpawn(r, line)
	}
	return Parse(string(line))
}

// readLine returns the next line without its end, as a copy.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(line)+len(part) > MaxLine {
			return nil, syntax(fmt.Sprintf("a line of more than %d bytes", MaxLine), append(line, part...))
		}
		line = append(line, part...)
		switch {
		case err == nil:
			return line[:len(line)-1], nil
		case errors.Is(err, bufio.ErrBufferFull):
		case err == io.EOF && len(line) > 0:
			return nil, io.ErrUnexpectedEOF
		default:
			return nil, err
		}
	}
}

// Parse parses one line without its end. A word without "=" continues the value before it: old
// clients put blanks into abort messages and service names as they are.
func Parse(line string) (*message.Message, error) {
	if strings.IndexByte(line, 0) >= 0 {
		return nil, syntax("a zero byte", []byte(line))
	}
	rest, ok := strings.CutPrefix(strings.TrimLeft(line, " "), "cmd=")
	if !ok {
		return nil, syntax("a line that does not begin with cmd=", []byte(line))
	}
	name, rest := cutWord(rest)
	if !validName(name) {
		return nil, syntax("a command without a proper name", []byte(line))
	}
	m := &message.Message{Name: name, Raw: line}
	var value []byte // of the last pair, if it has several words
	end := func() {
		if len(value) > 0 {
			m.Pairs[len(m.Pairs)-1].Value = string(value)
			value = value[:0]
		}
	}
	for rest != "" {
		var word string
		word, rest = cutWord(rest)
		key, first, isPair := strings.Cut(word, "=")
		switch {
		case word == "":
		case isPair && key != "":
			if len(m.Pairs) >= MaxPairs {
				return nil, syntax(fmt.Sprintf("more than %d pairs", MaxPairs), []byte(line))
			}
			end()
			m.Add(key, first)
		case len(m.Pairs) == 0:
			return nil, syntax("a word without =", []byte(line))
		default:
			if len(value) == 0 {
				value = append(value, m.Pairs[len(m.Pairs)-1].Value...)
			}
			value = append(append(value, ' '), word...)
		}
	}
	end()
	return m, nil
}

// cutWord cuts s at its first blank that no backslash escapes.
func cutWord(s string) (word, rest string) {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case ' ':
			return s[:i], strings.TrimLeft(s[i:], " ")
		}
	}
	return s, ""
}

func validName(s string) bool {
	return s != "" && len(s) <= 64 && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-')
	})
}

// Unescape undoes the backslashes of newer clients, for people to read.
func Unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// Append appends m as a line. The caller has seen to it that values hold no line end, and no
// blank that is not escaped.
func Append(b []byte, m *message.Message) []byte {
	b = append(b, "cmd="...)
	b = append(b, m.Name...)
	for _, p := range m.Pairs {
		b = append(b, ' ')
		b = append(b, p.Key...)
		b = append(b, '=')
		b = append(b, p.Value...)
	}
	return append(b, '\n')
}
