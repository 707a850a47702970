package resolve

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// udpSize is the size of answers that questions say we take over UDP (EDNS0, RFC 6891; the value is that of
// the DNS flag day 2020). It holds about 70 A records; more come over TCP.
const udpSize = 1232

// maxAddrs bounds the addresses taken from one answer.
const maxAddrs = 4096

// question is one DNS question and its bytes.
type question struct {
	id   uint16
	name string // absolute, without the last dot
	typ  dnsmessage.Type
	wire []byte
}

func newQuestion(id uint16, name string, w way, edns bool) (*question, error) {
	n, err := dnsmessage.NewName(name + ".")
	if err != nil {
		return nil, fmt.Errorf("name %s: %w", name, err)
	}
	m := dnsmessage.Message{Header: dnsmessage.Header{ID: id, RecursionDesired: true, CheckingDisabled: w.cd},
		Questions: []dnsmessage.Question{{Name: n, Type: w.typ, Class: dnsmessage.ClassINET}}}
	if edns {
		var h dnsmessage.ResourceHeader
		if err := h.SetEDNS0(udpSize, dnsmessage.RCodeSuccess, w.do); err != nil {
			return nil, err
		}
		m.Additionals = []dnsmessage.Resource{{Header: h, Body: &dnsmessage.OPTResource{}}}
	}
	wire, err := m.Pack()
	return &question{id: id, name: name, typ: w.typ, wire: wire}, err
}

// reply is what an answer says.
type reply struct {
	code      dnsmessage.RCode
	truncated bool
	addrs     []netip.Addr  // of the type asked for, of the name or what it is an alias of
	ttl       time.Duration // how long a cache may repeat it; 0: it does not say
}

// exists says that the name has records of some type, or that there are names below it.
func (r reply) exists() bool { return r.code == dnsmessage.RCodeSuccess }

// lasts takes a TTL into account: the shortest of an answer counts.
func (r *reply) lasts(seconds uint32) {
	if d := time.Duration(min(seconds, maxTTL)) * time.Second; r.ttl == 0 || d < r.ttl {
		r.ttl = d
	}
}

// maxTTL bounds a TTL, in seconds: a day. What waits for longer than that has given up before.
const maxTTL = 24 * 60 * 60

var errNotOurs = errors.New("not an answer to this question")

// parse reads a message that should answer q. A cut message gives the addresses before the
// cut. The resolver asked has followed aliases itself, so every address in the answer section
// is the name's (as the C library and Go take it).
func (q *question) parse(msg []byte) (reply, error) {
	var p dnsmessage.Parser
	h, err := p.Start(msg)
	if err != nil {
		return reply{}, err
	}
	if h.ID != q.id || !h.Response {
		return reply{}, errNotOurs
	}
	asked, err := p.Question()
	if err != nil {
		if h.RCode != dnsmessage.RCodeSuccess { // some servers leave it out with FORMERR
			return reply{code: h.RCode}, nil
		}
		return reply{}, err
	}
	if !strings.EqualFold(asked.Name.String(), q.name+".") || asked.Type != q.typ || asked.Class != dnsmessage.ClassINET {
		return reply{}, errNotOurs
	}
	if err := p.SkipAllQuestions(); err != nil {
		return reply{}, err
	}
	rep := reply{code: h.RCode, truncated: h.Truncated}
	for len(rep.addrs) < maxAddrs {
		a, ttl, err := nextAddr(&p, q.typ)
		if errors.Is(err, dnsmessage.ErrSectionDone) {
			rep.denial(&p)
			return rep, nil
		}
		if err != nil {
			if rep.truncated {
				return rep, nil
			}
			return reply{}, err
		}
		if a.IsValid() {
			rep.addrs = append(rep.addrs, a)
		}
		rep.lasts(ttl)
	}
	return rep, nil
}

// denial reads how long an answer without records stays true for caches. The zone's SOA beside it says so (RFC 2308,
// 5), and a cache counts its TTL down. It passes over a section that it cannot read.
func (r *reply) denial(p *dnsmessage.Parser) {
	for range 8 {
		h, err := p.AuthorityHeader()
		if err != nil {
			return
		}
		if h.Type != dnsmessage.TypeSOA {
			if p.SkipAuthority() != nil {
				return
			}
			continue
		}
		if soa, err := p.SOAResource(); err == nil && len(r.addrs) == 0 {
			r.lasts(min(h.TTL, soa.MinTTL))
		}
		return
	}
}

// nextAddr reads the next answer; the zero Addr is a record of another type.
func nextAddr(p *dnsmessage.Parser, t dnsmessage.Type) (netip.Addr, uint32, error) {
	h, err := p.AnswerHeader()
	if err != nil {
		return netip.Addr{}, 0, err
	}
	switch {
	case h.Class != dnsmessage.ClassINET || h.Type != t:
	case t == dnsmessage.TypeA:
		r, err := p.AResource()
		return netip.AddrFrom4(r.A), h.TTL, err
	case t == dnsmessage.TypeAAAA:
		r, err := p.AAAAResource()
		return netip.AddrFrom16(r.AAAA).Unmap(), h.TTL, err
	}
	return netip.Addr{}, h.TTL, p.SkipAnswer()
}
