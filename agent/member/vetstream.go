package member

import (
	"bufio"
	"io"
)

// Limits of an exchange of state. A member costs memberlist some 100 bytes before the first is read.
const (
	maxNodes = 16 << 10
	maxState = 2 << 20 // bytes of user state: what launchers claim
)

// vetReader reads a stream's exchange, and ends it with an error before what is not let through.
type vetReader struct {
	from *bufio.Reader
	out  []byte // let through and not read yet
	err  error

	begun bool
	next  func(token, []byte) error // what the next token belongs to; nil: all that follows is let through
	item  message
	key   string // of the header's field that is being read
	nodes uint64
	state uint64
	left  uint64 // bytes of user state that are still to come, once next is nil
}

// newVetReader vets what comes from r.
func newVetReader(r io.Reader) *vetReader { return &vetReader{from: bufio.NewReader(r)} }

// Read is io.Reader's.
func (r *vetReader) Read(b []byte) (int, error) {
	for len(r.out) == 0 && r.err == nil {
		r.err = r.step()
	}
	if len(r.out) > 0 {
		n := copy(b, r.out)
		r.out = r.out[n:]
		return n, nil
	}
	return 0, r.err
}

// step lets the next token, or piece of user state, through.
func (r *vetReader) step() error {
	switch {
	case !r.begun:
		return r.begin()
	case r.next == nil && r.left == 0:
		return io.EOF
	case r.next == nil:
		piece := make([]byte, min(r.left, 4<<10))
		n, err := r.from.Read(piece)
		r.out, r.left = piece[:n], r.left-uint64(n)
		return err
	}
	t, err := r.peek()
	if err != nil {
		return err
	}
	whole := make([]byte, t.head+t.text)
	if _, err := io.ReadFull(r.from, whole); err != nil {
		return err
	}
	if err := r.next(t, whole[t.head:]); err != nil {
		return err
	}
	r.out = whole
	return nil
}

// peek is the next token. No byte behind its head is waited for: it may be the last.
func (r *vetReader) peek() (token, error) {
	for n := 1; ; n++ {
		head, err := r.from.Peek(n)
		if err != nil {
			return token{}, err
		}
		if t, err := tokenAt(head); err != ErrShort {
			return t, err
		}
	}
}

func (r *vetReader) begin() error {
	kind, err := r.from.ReadByte()
	if err != nil {
		return err
	}
	switch kind {
	case pushPullType:
		r.next = r.header
	case pingType, ackType, errType:
		r.nodes = 1 // one value, as a node is
		r.next = r.node
	default:
		return ErrUnknown
	}
	r.begun, r.out = true, []byte{kind}
	return nil
}

// header takes the tokens of {Nodes, UserStateLen, Join}: nothing else, nothing nested, so that what is read here is
// what memberlist reads.
func (r *vetReader) header(t token, text []byte) error {
	complete, err := r.item.take(t)
	switch {
	case err != nil:
		return err
	case r.item.seen == 1:
		if !t.isMap || t.values > 6 {
			return ErrUnknown
		}
	case t.values > 0 || t.head+t.text > 64:
		return ErrLong
	case r.key == "":
		if r.key = string(text); !t.isText || r.key != "Nodes" && r.key != "UserStateLen" && r.key != "Join" {
			return ErrUnknown
		}
	default:
		if t.isText || r.key != "Join" && !t.isInt {
			return ErrUnknown
		}
		switch r.key {
		case "Nodes":
			r.nodes = t.number
		case "UserStateLen":
			r.state = t.number
		}
		r.key = ""
	}
	if r.nodes > maxNodes || r.state > maxState {
		return ErrLong
	}
	if complete {
		r.follow(r.node)
	}
	return nil
}

// node takes the tokens of one node, or of the one value of another kind of stream.
func (r *vetReader) node(t token, _ []byte) error {
	complete, err := r.item.take(t)
	if complete {
		r.nodes--
		r.follow(r.node)
	}
	return err
}

// follow begins the next node; after the last comes the user state.
func (r *vetReader) follow(next func(token, []byte) error) {
	r.item, r.next = message{}, next
	if r.nodes == 0 {
		r.next, r.left = nil, r.state
	}
}
