// Package pmi2 reads and writes PMI-2 on the wire: six characters of decimal length, then so
// many bytes of pairs.
//
//	┌────────┬───────────────────────────────┐
//	│ "%6u"  │ cmd=NAME;key=value;…;          │
//	└────────┴───────────────────────────────┘
//
// A ";" inside a value is written twice by clients up to MPICH 4.0 and by Slurm's libpmi2. Newer
// clients write it once, which cannot be told from an end, and read none: so a doubled one is
// read as one, and no reply holds any. The first request on a connection, init, and a later one
// that starts anew, are PMI-1 lines (package pmi1).
//
// A Reader serves one goroutine. The package does not know what messages mean.
package pmi2

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/mpiup/mpiup/pmi/message"
)

const (
	lengthDigits = 6
	// MaxPayload is the longest payload accepted, and written, in bytes (PMII_COMMANDLEN_SIZE
	// and PMII_MAX_COMMAND_LEN of MPICH src/pmi/pmi2/simple/simple2pmi.h).
	MaxPayload = 64 << 10
	// MaxPairs is the most pairs accepted in a request.
	MaxPairs = 1000
)

// SyntaxError is input that is not PMI-2.
type SyntaxError struct {
	What string // what is wrong, without the rank
	Near string // the first bytes of the offending message
}

func (e *SyntaxError) Error() string {
	if e.Near == "" {
		return e.What
	}
	return fmt.Sprintf("%s near %q", e.What, e.Near)
}

func syntax(what, near string) error { return &SyntaxError{what, near[:min(len(near), 60)]} }

// ReadMessage reads one request. io.EOF means that the stream ended between requests,
// io.ErrUnexpectedEOF inside one.
func ReadMessage(r *bufio.Reader) (*message.Message, error) {
	var head [lengthDigits]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n, err := strconv.ParseUint(strings.Trim(string(head[:]), " "), 10, 32)
	if err != nil {
		return nil, syntax("a message that does not begin with six characters of length", string(head[:]))
	}
	if n > MaxPayload {
		return nil, syntax(fmt.Sprintf("a message of %d bytes where %d are allowed", n, MaxPayload), "")
	}
	payload := make([]byte, n)
	if _, err := io.ReadFull(r, payload); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	return Parse(string(payload))
}

// Parse parses a payload.
func Parse(payload string) (*message.Message, error) {
	if strings.IndexByte(payload, 0) >= 0 {
		return nil, syntax("a zero byte", payload)
	}
	m := &message.Message{}
	for rest := payload; rest != ""; {
		var field string
		field, rest = cutField(rest)
		key, value, _ := strings.Cut(field, "=") // newer clients may leave out "=" and value
		key = strings.Trim(key, " ")
		switch {
		case strings.Trim(field, " ") == "":
			continue
		case key == "":
			return nil, syntax("a field without a key", payload)
		case m.Name == "" && key == "cmd":
			m.Name = value
			continue
		case m.Name == "":
			return nil, syntax("a message that does not begin with cmd=", payload)
		}
		if len(m.Pairs) >= MaxPairs {
			return nil, syntax(fmt.Sprintf("more than %d pairs", MaxPairs), payload)
		}
		m.Add(key, value)
	}
	if !validName(m.Name) {
		return nil, syntax("a command without a proper name", payload)
	}
	return m, nil
}

// cutField cuts s at its first ";" that is not doubled; a doubled one becomes one.
func cutField(s string) (field, rest string) {
	var b strings.Builder
	for {
		i := strings.IndexByte(s, ';')
		if i < 0 {
			b.WriteString(s)
			return b.String(), ""
		}
		b.WriteString(s[:i])
		if i+1 >= len(s) || s[i+1] != ';' {
			return b.String(), s[i+1:]
		}
		b.WriteByte(';')
		s = s[i+2:]
	}
}

func validName(s string) bool {
	return s != "" && len(s) <= 64 && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-')
	})
}

// Append appends m with its length. The caller keeps it under MaxPayload, with no ";" in it.
func Append(b []byte, m *message.Message) []byte {
	start := len(b)
	b = append(b, "      cmd="...)
	b = append(b, m.Name...)
	b = append(b, ';')
	for _, p := range m.Pairs {
		b = append(b, p.Key...)
		b = append(b, '=')
		b = append(b, p.Value...)
		b = append(b, ';')
	}
	length := strconv.Itoa(len(b) - start - lengthDigits)
	copy(b[start+lengthDigits-len(length):], length)
	return b
}
