package member

// The vetting keeps from memberlist what would cost it much more memory than its bytes are long. Its decoder
// (go-msgpack 2.1) makes room for as many bytes as a length says before it reads any. memberlist does so for as
// many nodes as a header says. 36 bytes of one packet cost 2 GiB, 12 of a stream 100 MiB
// (TestPackets, TestStreamsThatEnd).
//
//	packet:  [crc32] message, or a compound of messages         vetPacket says whether it may be read
//	stream:  type, header {Nodes UserStateLen Join}, nodes, user state      a vetReader lets it through item by item
//	message: a type and one msgpack value, whose lengths must be of bytes that are there
//
// It lets only through what our agents send: no labels, no compressed or encrypted messages, no user messages in
// streams (memberlist's net.go, protocol versions 1 to 5). vetPacket is a function of its bytes; a vetReader belongs to
// one goroutine. Nobody here looks at what messages mean.

// Message types of memberlist's net.go, protocol versions 1 to 5.
const (
	pingType     = 0
	ackType      = 2
	SuspectType  = 3
	AliveType    = 4
	DeadType     = 5 // and all below: ping, indirect ping, ack, suspect, alive
	pushPullType = 6
	compoundType = 7
	userType     = 8 // whose bytes memberlist hands on as they are
	nackType     = 11
	crcType      = 12
	errType      = 13
)

// vetPacket says why a packet is not handed on; nil: it may be.
func vetPacket(b []byte) error { return eachMessage(b, vetMessage) }

// eachMessage calls f for the messages in a packet until f fails. No compound is in a compound: memberlist would read it as
// deep as it is. It passes over parts that are cut off, as memberlist does.
func eachMessage(packet []byte, f func(message []byte) error) error {
	b := packet
	if len(b) > 5 && b[0] == crcType {
		b = b[5:]
	}
	if len(b) == 0 {
		return ErrShort
	}
	if b[0] != compoundType {
		return f(b)
	}
	if len(b) < 2 {
		return ErrShort
	}
	n, body := int(b[1]), b[2:] // a byte of count, two of length each, the parts
	if len(body) < 2*n {
		return ErrShort
	}
	lengths, body := body[:2*n], body[2*n:]
	for i := range n {
		size := int(lengths[2*i])<<8 | int(lengths[2*i+1])
		if size > len(body) {
			return nil
		}
		if err := f(body[:size]); err != nil {
			return err
		}
		body = body[size:]
	}
	return nil
}

// vetMessage is Packet for one message: its type and a value.
func vetMessage(b []byte) error {
	switch {
	case len(b) == 0:
		return ErrShort
	case b[0] == userType:
		return nil
	case b[0] > DeadType && b[0] != nackType:
		return ErrUnknown
	}
	var m message
	for b = b[1:]; ; {
		t, err := tokenAt(b)
		if err != nil {
			return err
		}
		if t.head+t.text > len(b) {
			return ErrShort
		}
		complete, err := m.take(t)
		if complete || err != nil {
			return err
		}
		b = b[t.head+t.text:]
	}
}
