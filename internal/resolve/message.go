package resolve

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"golang.org/x/net/dns/dnsmessage"
)

// udpSize is the size of answer we say we take over UDP (EDNS0, RFC 6891; the value is that of
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

func newQuestion(id uint16, name string, t dnsmessage.Type, edns bool) (*question, error) {
	n, err := dnsmessage.NewName(name + ".")
	if err != nil {
		return nil, fmt.Errorf("name %s: %w", name, err)
	}
	b := dnsmessage.NewBuilder(make([]byte, 0, 300), dnsmessage.Header{ID: id, RecursionDesired: true})
	if err := b.StartQuestions(); err != nil {
		return nil, err
	}
	if err := b.Question(dnsmessage.Question{Name: n, Type: t, Class: dnsmessage.ClassINET}); err != nil {
		return nil, err
	}
	if edns {
		var h dnsmessage.ResourceHeader
		if err := h.SetEDNS0(udpSize, dnsmessage.RCodeSuccess, false); err != nil {
			return nil, err
		}
		if err := b.StartAdditionals(); err != nil {
			return nil, err
		}
		if err := b.OPTResource(h, dnsmessage.OPTResource{}); err != nil {
			return nil, err
		}
	}
	wire, err := b.Finish()
	return &question{id: id, name: name, typ: t, wire: wire}, err
}

// reply is what an answer says.
type reply struct {
	code      dnsmessage.RCode
	truncated bool
	addrs     []netip.Addr // of the type asked for, of the name or what it is an alias of
}

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
		a, err := nextAddr(&p, q.typ)
		if errors.Is(err, dnsmessage.ErrSectionDone) {
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
	}
	return rep, nil
}

// nextAddr reads the next answer; the zero Addr is a record of another type.
func nextAddr(p *dnsmessage.Parser, t dnsmessage.Type) (netip.Addr, error) {
	h, err := p.AnswerHeader()
	if err != nil {
		return netip.Addr{}, err
	}
	if h.Type != t || h.Class != dnsmessage.ClassINET {
		return netip.Addr{}, p.SkipAnswer()
	}
	if t == dnsmessage.TypeA {
		r, err := p.AResource()
		return netip.AddrFrom4(r.A), err
	}
	r, err := p.AAAAResource()
	return netip.AddrFrom16(r.AAAA).Unmap(), err
}
