package pmi

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

const (
	lengthDigits = 6
	// MaxPayload is the longest payload accepted, and written, in bytes (PMII_COMMANDLEN_SIZE
	// and PMII_MAX_COMMAND_LEN of MPICH src/pmi/pmi2/simple/simple2pmi.h).
	MaxPayload = 64 << 10
)

// ReadPMI2 reads one request. io.EOF means that the stream ended between requests,
// io.ErrUnexpectedEOF inside one.
func ReadPMI2(r *bufio.Reader) (*Message, error) {
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
	return ParsePMI2(string(payload))
}

// ParsePMI2 parses a payload.
func ParsePMI2(payload string) (*Message, error) {
	if strings.IndexByte(payload, 0) >= 0 {
		return nil, syntax("a zero byte", payload)
	}
	m := &Message{}
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

// AppendPMI2 appends m with its length. The caller keeps it under MaxPayload, with no ";" in it.
func AppendPMI2(b []byte, m *Message) []byte {
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
