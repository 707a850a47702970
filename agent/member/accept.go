package member

import (
	"bytes"
	"fmt"
	"net/netip"
	"strings"

	"github.com/hashicorp/go-msgpack/v2/codec"
	"github.com/hashicorp/memberlist"
	"github.com/mpiup/mpiup/agent/member/vet"
)

// describe takes a memberlist node apart and refuses what no agent of ours would send: another agent's name in front
// of its own incarnation, or an address that is none. It also refuses protocol versions after which memberlist would
// refuse every exchange of state.
func describe(n *memberlist.Node) (meta, netip.AddrPort, error) {
	m, err := decodeMeta(n.Meta)
	if err != nil {
		return meta{}, netip.AddrPort{}, err
	}
	suffix, ok := strings.CutPrefix(n.Name, m.incarnation+".")
	if !ok || len(suffix) != idSuffix || !printable(suffix) {
		return meta{}, netip.AddrPort{}, fmt.Errorf("%w: id %.100q is not of incarnation %s", errMeta, n.Name, m.incarnation)
	}
	ip, ok := netip.AddrFromSlice(n.Addr)
	ip = ip.Unmap()
	addr := netip.AddrPortFrom(ip, n.Port)
	if !ok || n.Port == 0 || ip.IsUnspecified() || ip.IsMulticast() {
		return meta{}, netip.AddrPort{}, fmt.Errorf("%w: address %v port %d", errMeta, n.Addr, n.Port)
	}
	const ours = memberlist.ProtocolVersion2Compatible
	if n.PMin > ours || n.PMax < ours || n.PCur < n.PMin || n.PCur > n.PMax || n.DMin|n.DMax|n.DCur != 0 {
		return meta{}, netip.AddrPort{}, fmt.Errorf("%w: gossip protocol %d to %d, speaking %d", errMeta, n.PMin, n.PMax, n.PCur)
	}
	return m, addr, nil
}

// Message types of memberlist's wire format (its net.go), protocol versions 1 to 5.
const (
	suspectType  = 3
	aliveType    = 4
	deadType     = 5
	compoundType = 7
	crcType      = 12
)

// accusation is the common part of memberlist's suspect, alive and dead messages.
type accusation struct {
	Incarnation uint32
	Node        string
	From        string // empty in alive
}

// sniff looks at a packet that memberlist sends. memberlist does not tell its delegates of
// suspicion, but it passes every change of state it believes on to others, and at least to the
// suspect itself; so what it sends is what it holds.
func (t *table) sniff(packet []byte) {
	each(packet, func(kind byte, a accusation, msg []byte) {
		switch kind {
		case suspectType:
			t.suspected(a, msg)
		case aliveType:
			t.refuted(a)
		case deadType:
			t.dead(a)
		}
	})
}

// hear looks at a packet that came in, for accusations of ourselves. memberlist answers one with a refutation of a
// higher number, once. That may be lost in a cut that lets us hear but not speak. It passes over the same accusation
// when it comes again, and others would give us up while we answer every probe. So we answer each.
func (t *table) hear(packet []byte) {
	each(packet, func(kind byte, a accusation, _ []byte) {
		if kind != aliveType && a.Node == t.self && a.From != t.self {
			t.accused()
		}
	})
}

// each calls f for the suspect, alive and dead messages in a packet; others and malformed ones
// are passed over.
func each(packet []byte, f func(kind byte, a accusation, msg []byte)) {
	if len(packet) > 5 && packet[0] == crcType {
		packet = packet[5:]
	}
	one := func(msg []byte) {
		var a accusation
		if len(msg) < 2 || msg[0] < suspectType || msg[0] > deadType || vet.Message(msg) != nil {
			return
		}
		if codec.NewDecoder(bytes.NewReader(msg[1:]), &codec.MsgpackHandle{}).Decode(&a) == nil {
			f(msg[0], a, msg)
		}
	}
	if len(packet) < 2 || packet[0] != compoundType {
		one(packet)
		return
	}
	n, body := int(packet[1]), packet[2:] // a byte of count, two of length each, the parts
	if len(body) < 2*n {
		return
	}
	lengths, body := body[:2*n], body[2*n:]
	for i := range n {
		size := int(lengths[2*i])<<8 | int(lengths[2*i+1])
		if size > len(body) {
			return
		}
		one(body[:size])
		body = body[size:]
	}
}
