package member

import (
	"bytes"
	"fmt"
	"net/netip"
	"strings"

	"github.com/hashicorp/go-msgpack/v2/codec"
	"github.com/hashicorp/memberlist"
)

// describe takes a memberlist node apart and refuses what no agent of ours would send: another
// agent's name in front of its own incarnation, an address that is none, protocol versions that
// would make memberlist refuse every exchange of state afterwards.
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
	addr := netip.AddrPortFrom(ip.Unmap(), n.Port)
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

// sniff looks for suspect, alive and dead messages in a packet that memberlist sends.
// memberlist does not tell its delegates of suspicion, but it passes every change of state it
// believes on to others, and at least to the suspect itself; so what it sends is what it holds.
func (t *table) sniff(packet []byte) {
	if len(packet) > 5 && packet[0] == crcType {
		packet = packet[5:]
	}
	if len(packet) < 2 {
		return
	}
	if packet[0] != compoundType {
		t.sniffOne(packet)
		return
	}
	n, lengths := int(packet[1]), packet[2:] // a byte of count, two of length each, the parts
	if len(lengths) < 2*n {
		return
	}
	body := lengths[2*n:]
	for i := range n {
		size := int(lengths[2*i])<<8 | int(lengths[2*i+1])
		if size > len(body) {
			return
		}
		t.sniffOne(body[:size])
		body = body[size:]
	}
}

func (t *table) sniffOne(msg []byte) {
	if len(msg) < 2 || msg[0] < suspectType || msg[0] > deadType {
		return
	}
	var a accusation
	if codec.NewDecoder(bytes.NewReader(msg[1:]), &codec.MsgpackHandle{}).Decode(&a) != nil {
		return
	}
	switch msg[0] {
	case suspectType:
		t.suspected(a, msg)
	case aliveType:
		t.refuted(a)
	case deadType:
		t.dead(a)
	}
}
