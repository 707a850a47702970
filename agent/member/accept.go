package member

import (
	"bytes"
	"fmt"
	"net/netip"
	"strings"

	"github.com/hashicorp/go-msgpack/v2/codec"
	"github.com/hashicorp/memberlist"
)

// describe takes a memberlist node apart and refuses what no agent of ours would send: another agent's name in front
// of its own incarnation, or an address that is none. It also refuses protocol versions after which memberlist would
// refuse every exchange of state.
func describe(n *memberlist.Node) (meta, error) {
	m, err := decodeMeta(n.Meta)
	if err != nil {
		return meta{}, err
	}
	suffix, ok := strings.CutPrefix(n.Name, m.Incarnation+".")
	if !ok || len(suffix) != idSuffix || !printable(suffix) {
		return meta{}, fmt.Errorf("%w: id %.100q is not of incarnation %s", errMeta, n.Name, m.Incarnation)
	}
	ip, ok := netip.AddrFromSlice(n.Addr)
	ip = ip.Unmap()
	m.Addr = netip.AddrPortFrom(ip, n.Port)
	if !ok || n.Port == 0 || ip.IsUnspecified() || ip.IsMulticast() {
		return meta{}, fmt.Errorf("%w: address %v port %d", errMeta, n.Addr, n.Port)
	}
	const ours = memberlist.ProtocolVersion2Compatible
	if n.PMin > ours || n.PMax < ours || n.PCur < n.PMin || n.PCur > n.PMax || n.DMin|n.DMax|n.DCur != 0 {
		return meta{}, fmt.Errorf("%w: gossip protocol %d to %d, speaking %d", errMeta, n.PMin, n.PMax, n.PCur)
	}
	return m, nil
}

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
		case SuspectType:
			t.suspected(a, msg)
		case AliveType:
			t.refuted(a)
		case DeadType:
			t.dead(a)
		}
	})
}

// hear looks at a packet that came in, for deaths that others tell of, and accusations of ourselves. memberlist answers one with a refutation of a
// higher number, once. That may be lost in a cut that lets us hear but not speak. It passes over the same accusation
// when it comes again, and others would give us up while we answer every probe. So we answer each.
func (t *table) hear(packet []byte) {
	each(packet, func(kind byte, a accusation, _ []byte) {
		switch {
		case kind != AliveType && a.Node == t.self && a.From != t.self:
			t.accused()
		case kind == DeadType:
			t.dead(a) // before memberlist believes it, and shows it as one that has left
		}
	})
}

// each calls f for the suspect, alive and dead messages in a packet; others and malformed ones
// are passed over.
func each(packet []byte, f func(kind byte, a accusation, msg []byte)) {
	_ = eachMessage(packet, func(msg []byte) error { // one that is cut off says nothing
		var a accusation
		if len(msg) < 2 || msg[0] < SuspectType || msg[0] > DeadType || vetMessage(msg) != nil {
			return nil
		}
		if codec.NewDecoder(bytes.NewReader(msg[1:]), &codec.MsgpackHandle{}).Decode(&a) == nil {
			f(msg[0], a, msg)
		}
		return nil
	})
}
