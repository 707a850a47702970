package pmi

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
)

const (
	// MaxReply is the longest reply, line end included, that every client reads in one piece
	// (PMIU_MAXLINE of MPICH 1 to 4.0).
	MaxReply = 1023
	// MaxLine is the longest line accepted from a client, in bytes with its end: a barrier of a
	// group names every rank.
	MaxLine = 256 << 10
	// MaxSpawn is the most bytes accepted in one spawn request.
	MaxSpawn = 1 << 20
)

// ReadPMI1 reads one request. io.EOF means that the stream ended between requests,
// io.ErrUnexpectedEOF inside one.
func ReadPMI1(r *bufio.Reader) (*Message, error) {
	line, err := readLine(r)
	if err != nil {
		return nil, err
	}
	if bytes.HasPrefix(line, []byte("mcmd=")) {
		return readSpawn(r, line)
	}
	return ParsePMI1(string(line))
}

// readLine returns the next line without its end, as a copy.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(line)+len(part) > MaxLine {
			return nil, syntax(fmt.Sprintf("a line of more than %d bytes", MaxLine), string(append(line, part...)))
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

// ParsePMI1 parses one line without its end. A word without "=" continues the value before it: old
// clients put blanks into abort messages and service names as they are.
func ParsePMI1(line string) (*Message, error) {
	if strings.IndexByte(line, 0) >= 0 {
		return nil, syntax("a zero byte", line)
	}
	rest, ok := strings.CutPrefix(strings.TrimLeft(line, " "), "cmd=")
	if !ok {
		return nil, syntax("a line that does not begin with cmd=", line)
	}
	name, rest := cutWord(rest)
	if !validName(name) {
		return nil, syntax("a command without a proper name", line)
	}
	m := &Message{Name: name, Raw: line}
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
				return nil, syntax(fmt.Sprintf("more than %d pairs", MaxPairs), line)
			}
			end()
			m.Add(key, first)
		case len(m.Pairs) == 0:
			return nil, syntax("a word without =", line)
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

// AppendPMI1 appends m as a line. The caller has seen to it that values hold no line end, and no
// blank that is not escaped.
func AppendPMI1(b []byte, m *Message) []byte {
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
