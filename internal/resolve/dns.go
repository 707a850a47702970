package resolve

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/mpiup/mpiup/internal/awake"
)

// secondFamily is how long a lookup that has addresses of one family waits for the other.
const secondFamily = 250 * time.Millisecond

// silence: no server said anything usable in time, so asking more would only take longer.
type silence struct{ error }

func isSilence(err error) bool { return errors.As(err, new(silence)) }

// heard is what DNS said of a name.
type heard struct {
	addrs  []netip.Addr
	exists bool          // it has records, if not addresses
	denied bool          // a server said that one form of it does not exist or has no such records
	ttl    time.Duration // how long a cache may repeat this; 0: nothing says
}

// dns asks for the candidates of name in turn, in one way. As in the C library a failing server is
// noted and the next candidate asked; a silent one ends the walk. The error is nil if there are addresses, or, for a
// question of another type, if the name exists; else it is an *Error or ctx's.
func (r *Resolver) dns(ctx context.Context, name string, c *conf, w way) (heard, error) {
	var failed *Error
	var all heard
	cands := c.candidates(name, r.domain)
	for _, cand := range cands {
		h, err := r.put(ctx, cand, c, w)
		if len(h.addrs) > 0 || w.typ != addresses && h.exists {
			return h, nil
		}
		if ctx.Err() != nil {
			return heard{}, fmt.Errorf("%s: %w", name, ctx.Err())
		}
		if h.ttl > 0 && (all.ttl == 0 || h.ttl < all.ttl) {
			all.ttl = h.ttl
		}
		all.exists, all.denied = all.exists || h.exists, all.denied || err == nil
		if err != nil && failed == nil {
			failed = &Error{Name: name, Kind: ErrServer, Why: err.Error()}
		}
		if isSilence(err) {
			break
		}
	}
	if failed != nil {
		return all, failed
	}
	why := fmt.Sprintf("neither /etc/hosts nor DNS has it (asked %s for %s)", strings.Join(c.servers, ", "), cands[0])
	if len(cands) > 1 {
		why = fmt.Sprintf("neither /etc/hosts nor DNS has it (asked %s for %s and %d other forms)", strings.Join(c.servers, ", "), cands[0], len(cands)-1)
	}
	return all, &Error{Name: name, Kind: ErrNoName, Why: why, Searchless: len(c.search) == 0}
}

// put asks for one absolute name.
func (r *Resolver) put(ctx context.Context, name string, c *conf, w way) (heard, error) {
	if w.typ == addresses {
		return r.both(ctx, name, c, w)
	}
	rep, err := r.ask(ctx, name, w, c)
	return heard{exists: err == nil && rep.exists(), ttl: rep.ttl}, err
}

type answer struct {
	family int
	reply  reply
	err    error
}

// both asks for A and AAAA at once. No addresses and no error: the name has none. It returns
// when both questions have ended.
func (r *Resolver) both(ctx context.Context, name string, c *conf, w way) (heard, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	got := make(chan answer, 2)
	for f, t := range []dnsmessage.Type{dnsmessage.TypeA, dnsmessage.TypeAAAA} {
		go func() {
			rep, err := r.ask(ctx, name, way{t, w.do, w.cd}, c)
			got <- answer{f, rep, err}
		}()
	}
	first := <-got
	if len(first.reply.addrs) > 0 {
		t := time.AfterFunc(secondFamily, cancel)
		defer t.Stop()
	}
	second := <-got
	if first.family > second.family {
		first, second = second, first
	}
	h := heard{addrs: append(first.reply.addrs, second.reply.addrs...)}
	err := cmp.Or(first.err, second.err)
	for _, a := range []answer{first, second} {
		h.exists = h.exists || a.err == nil && a.reply.exists()
		// The TTL of "no IPv6 address" may be anything: that of the addresses there are counts.
		if t := a.reply.ttl; t > 0 && (len(h.addrs) == 0 || len(a.reply.addrs) > 0) && (h.ttl == 0 || t < h.ttl) {
			h.ttl = t
		}
	}
	return h, err
}

// ask puts one question to the servers in turn, as many rounds as the file says.
func (r *Resolver) ask(ctx context.Context, name string, w way, c *conf) (reply, error) {
	select {
	case r.questions <- struct{}{}:
		defer func() { <-r.questions }()
	case <-ctx.Done():
		return reply{}, ctx.Err()
	}
	var last error
	silent := true
	for range c.attempts {
		for _, server := range c.servers {
			rep, err := r.exchange(ctx, server, name, w, c)
			if err == nil {
				return rep, nil
			}
			if ctx.Err() != nil {
				return reply{}, ctx.Err()
			}
			silent = silent && isSilence(err)
			last = fmt.Errorf("DNS server %s: %w", server, err)
		}
		if !silent {
			break // it answered; a second round would hear the same
		}
	}
	if !silent {
		return reply{}, errors.New(last.Error())
	}
	return reply{}, last
}

// exchange is one question to one server: UDP, then TCP if the answer was cut, and once more
// without EDNS0 if the server does not know it.
func (r *Resolver) exchange(ctx context.Context, server, name string, w way, c *conf) (reply, error) {
	network := "udp"
	if c.tcp {
		network = "tcp"
	}
	edns := true
	var cut *reply
	for range 3 {
		rep, err := r.once(ctx, network, server, name, w, edns, c.timeout)
		switch {
		case err != nil && cut != nil:
			return *cut, nil // no TCP there: better a part than nothing
		case err != nil:
			return reply{}, silence{err}
		case edns && (rep.code == dnsmessage.RCodeFormatError || rep.code == dnsmessage.RCodeNotImplemented):
			edns = false
		case rep.truncated && network == "udp":
			network = "tcp"
			if len(rep.addrs) > 0 {
				cut = &rep
			}
		case rep.code == dnsmessage.RCodeSuccess, rep.code == dnsmessage.RCodeNameError:
			return rep, nil
		default:
			return reply{}, fmt.Errorf("answered %s for %s", rcode(rep.code), name)
		}
	}
	return reply{}, fmt.Errorf("gave no usable answer for %s", name)
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
func (r *Resolver) once(ctx context.Context, network, server, name string, w way, edns bool, d time.Duration) (reply, error) {
	ctx, cancel := awake.Within(ctx, d)
	defer cancel()
	conn, err := r.dial(ctx, network, server)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return reply{}, plain(err, network, d)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })()
	q, err := newQuestion(uint16(rand.Uint32()), name, w, edns)
	if err != nil {
		return reply{}, err
	}
	rep, err := roundTrip(conn, network, q)
	if ctx.Err() != nil && err != nil {
		err = context.Cause(ctx)
	}
	return rep, plain(err, network, d)
}

// plain is a failure of the network in words for users, who know neither Go's calls nor its sockets.
func plain(err error, network string, d time.Duration) error {
	network = strings.ToUpper(network)
	var timeout net.Error
	var errno syscall.Errno
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return fmt.Errorf("no answer over %s within %v", network, d)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("nothing listens there for %s (connection refused)", network)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("it closed the %s connection without an answer", network)
	case errors.As(err, &errno):
		return fmt.Errorf("it cannot be reached over %s (%w)", network, errno)
	}
	return err
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
