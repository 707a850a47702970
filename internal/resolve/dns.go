package resolve

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// secondFamily is how long a lookup that has addresses of one family waits for the other.
const secondFamily = 250 * time.Millisecond

// errSilent: no server said anything usable in time, so asking more would only take longer.
var errSilent = errors.New("silent")

// failure is a server's answer that says neither yes nor no, or none at all.
type failure struct {
	what   string
	silent bool
}

func (f *failure) Error() string { return f.what }

func (f *failure) Is(target error) bool { return f.silent && target == errSilent }

// dns asks for the candidates of name in turn. As in the C library a failing server is noted
// and the next candidate asked, a silent one ends the walk.
func (r *Resolver) dns(ctx context.Context, name string, c *conf) ([]netip.Addr, error) {
	var failed *Error
	cands := c.candidates(name)
	for _, cand := range cands {
		addrs, err := r.both(ctx, cand, c)
		if len(addrs) > 0 {
			return addrs, nil
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("%s: %w", name, ctx.Err())
		}
		if err != nil && failed == nil {
			failed = &Error{Name: name, Kind: ErrServer, Why: err.Error()}
		}
		if errors.Is(err, errSilent) {
			break
		}
	}
	if failed != nil {
		return nil, failed
	}
	why := fmt.Sprintf("neither /etc/hosts nor DNS has it (asked %s for %s)", strings.Join(c.servers, ", "), cands[0])
	if len(cands) > 1 {
		why = fmt.Sprintf("neither /etc/hosts nor DNS has it (asked %s for %s and %d other forms)", strings.Join(c.servers, ", "), cands[0], len(cands)-1)
	}
	return nil, &Error{Name: name, Kind: ErrNoName, Why: why}
}

type answer struct {
	family int
	addrs  []netip.Addr
	err    error
}

// both asks for A and AAAA at once. No addresses and no error: the name has none. It returns
// when both questions have ended.
func (r *Resolver) both(ctx context.Context, name string, c *conf) ([]netip.Addr, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	got := make(chan answer, 2)
	for f, t := range []dnsmessage.Type{dnsmessage.TypeA, dnsmessage.TypeAAAA} {
		go func() {
			addrs, err := r.ask(ctx, name, t, c)
			got <- answer{f, addrs, err}
		}()
	}
	first := <-got
	if len(first.addrs) > 0 {
		t := time.AfterFunc(secondFamily, cancel)
		defer t.Stop()
	}
	second := <-got
	if first.family > second.family {
		first, second = second, first
	}
	if first.err == nil {
		first.err = second.err
	}
	return append(first.addrs, second.addrs...), first.err
}

// ask puts one question to the servers in turn, as many rounds as the file says.
func (r *Resolver) ask(ctx context.Context, name string, t dnsmessage.Type, c *conf) ([]netip.Addr, error) {
	select {
	case r.questions <- struct{}{}:
		defer func() { <-r.questions }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	var last error
	silent := true
	for range c.attempts {
		for _, server := range c.servers {
			addrs, err := r.exchange(ctx, server, name, t, c)
			if err == nil {
				return addrs, nil
			}
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			silent = silent && errors.Is(err, errSilent)
			last = fmt.Errorf("DNS server %s: %w", server, err)
		}
		if !silent {
			break // it answered; a second round would hear the same
		}
	}
	if !silent {
		return nil, &failure{what: last.Error()}
	}
	return nil, last
}

// exchange is one question to one server: UDP, then TCP if the answer was cut, and once more
// without EDNS0 if the server does not know it.
func (r *Resolver) exchange(ctx context.Context, server, name string, t dnsmessage.Type, c *conf) ([]netip.Addr, error) {
	network := "udp"
	if c.tcp {
		network = "tcp"
	}
	edns := true
	var cut []netip.Addr
	for range 3 {
		rep, err := r.once(ctx, network, server, name, t, edns, c.timeout)
		switch {
		case err != nil && len(cut) > 0:
			return cut, nil // no TCP there: better a part than nothing
		case err != nil:
			return nil, &failure{what: err.Error(), silent: true}
		case edns && (rep.code == dnsmessage.RCodeFormatError || rep.code == dnsmessage.RCodeNotImplemented):
			edns = false
		case rep.truncated && network == "udp":
			cut, network = rep.addrs, "tcp"
		case rep.code == dnsmessage.RCodeSuccess, rep.code == dnsmessage.RCodeNameError:
			return rep.addrs, nil
		default:
			return nil, &failure{what: fmt.Sprintf("answered %s for %s", rcode(rep.code), name)}
		}
	}
	return nil, &failure{what: "gave no usable answer for " + name}
}

func rcode(c dnsmessage.RCode) string {
	switch c {
	case dnsmessage.RCodeServerFailure:
		return "SERVFAIL (it cannot reach the servers it asks itself)"
	case dnsmessage.RCodeRefused:
		return "REFUSED"
	case dnsmessage.RCodeFormatError:
		return "FORMERR"
	}
	return fmt.Sprintf("code %d", uint16(c))
}

// once sends one message and waits for its reply for at most d.
func (r *Resolver) once(ctx context.Context, network, server, name string, t dnsmessage.Type, edns bool, d time.Duration) (reply, error) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	conn, err := r.dial(ctx, network, server)
	if err != nil {
		return reply{}, fmt.Errorf("connect over %s: %w", network, err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })()
	q, err := newQuestion(uint16(rand.Uint32()), name, t, edns)
	if err != nil {
		return reply{}, err
	}
	rep, err := roundTrip(conn, network, q)
	if ctx.Err() != nil && err != nil {
		return reply{}, fmt.Errorf("no answer over %s within %v", network, d)
	}
	return rep, err
}

func roundTrip(conn net.Conn, network string, q *question) (reply, error) {
	if network == "tcp" { // RFC 1035, 4.2.2: two bytes of length before each message
		framed := binary.BigEndian.AppendUint16(make([]byte, 0, 2+len(q.wire)), uint16(len(q.wire)))
		if _, err := conn.Write(append(framed, q.wire...)); err != nil {
			return reply{}, err
		}
		var size [2]byte
		if _, err := io.ReadFull(conn, size[:]); err != nil {
			return reply{}, err
		}
		msg := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(conn, msg); err != nil {
			return reply{}, err
		}
		return q.parse(msg)
	}
	if _, err := conn.Write(q.wire); err != nil {
		return reply{}, err
	}
	msg := make([]byte, udpSize)
	for {
		n, err := conn.Read(msg)
		if err != nil {
			return reply{}, err
		}
		rep, err := q.parse(msg[:n])
		if err == nil {
			return rep, nil
		} // not an answer to this question: a late or forged one; wait on
	}
}
