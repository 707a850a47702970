package job

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// Trace is a place in a trace, as W3C's Trace Context has it in TRACEPARENT and TRACESTATE. The zero value is none.
type Trace struct {
	ID    [16]byte
	Span  [8]byte
	Flags byte   // 1: whoever records spans records these
	State string // of other systems, which is handed on
}

// maxTraceState is what W3C asks to hand on, and this passes on.
const maxTraceState = 512

// ParseTrace reads TRACEPARENT's and TRACESTATE's values. Versions that come after 00 begin alike, says the specification (3.2.4).
func ParseTrace(parent, state string) (t Trace, err error) {
	parts := strings.Split(parent, "-")
	var version, flags []byte
	if len(parts) >= 4 {
		var e [4]error
		version, e[0] = small(parts[0], 1)
		id, e1 := small(parts[1], len(t.ID))
		span, e2 := small(parts[2], len(t.Span))
		flags, e[3] = small(parts[3], 1)
		e[1], e[2] = e1, e2
		err = errors.Join(e[:]...)
		copy(t.ID[:], id)
		copy(t.Span[:], span)
	}
	if err != nil || version == nil || version[0] == 0xff || version[0] == 0 && len(parts) > 4 || t.ID == [16]byte{} || t.Span == [8]byte{} {
		return Trace{}, fmt.Errorf("%.80q is no traceparent as in 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", parent)
	}
	t.Flags = flags[0]
	if len(state) <= maxTraceState && strings.IndexFunc(state, func(c rune) bool { return c < ' ' || c > '~' }) < 0 {
		t.State = state
	}
	return t, nil
}

// small reads n bytes in small hexadecimal digits.
func small(text string, n int) ([]byte, error) {
	b, err := hex.DecodeString(text)
	if err == nil && (len(b) != n || strings.ToLower(text) != text) {
		err = errors.New("not so many small hexadecimal digits")
	}
	return b, err
}

// IsZero says that there is no trace.
func (t Trace) IsZero() bool { return t == Trace{} }

// String is TRACEPARENT's value; "" of none.
func (t Trace) String() string {
	if t.IsZero() {
		return ""
	}
	return fmt.Sprintf("00-%x-%x-%02x", t.ID, t.Span, t.Flags)
}

// Child is the place below this one that a name means: the same for whoever asks, so that nobody has to be told of it.
func (t Trace) Child(name string, numbers ...int) Trace {
	if t.IsZero() {
		return t
	}
	sum := sha256.Sum256(fmt.Append(nil, t.String(), name, numbers))
	copy(t.Span[:], sum[:])
	if t.Span == [8]byte{} {
		t.Span[0] = 1
	}
	return t
}

// Attempt is that of the ranks' start of a number, from 0.
func (t Trace) Attempt(number int) Trace { return t.Child("attempt", number) }

// Rank is that of a rank of an attempt, which TRACEPARENT tells it.
func (t Trace) Rank(job, rank int) Trace { return t.Child("rank", job, rank) }
