package member

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/mpiup/mpiup/internal/awake"
)

// link is one connection for packets, dialled or accepted. While idle it costs one goroutine,
// its reader; a writer lives as long as there is something to write.
type link struct {
	t       *Transport
	peer    netip.AddrPort // whom frames go to; zero for an accepted one that is only read
	dialled bool

	mu      sync.Mutex
	conn    net.Conn  // guarded by mu until ready, then fixed; nil while dialling
	queue   [][]byte  // guarded by mu; framed packets
	writing bool      // guarded by mu
	closed  bool      // guarded by mu
	used    time.Time // guarded by mu; a frame went either way
	spare   bool      // guarded by mu; the peer is sent to on another one
}

func (l *link) lastUsed() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.used
}

// tired: no frame went for so long that the link is not worth keeping.
func (l *link) tired(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	idle := now.Sub(l.used)
	return idle > idleTime || l.spare && idle > spareIdle
}

func (l *link) setSpare() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.spare = true
}

// Send queues packet b for addr, on the connection there is or one being made from now on.
func (t *Transport) Send(b []byte, addr netip.AddrPort) {
	frame := append(binary.BigEndian.AppendUint16(make([]byte, 0, 2+len(b)), uint16(len(b))), b...)
	t.mu.Lock()
	l := t.links[addr]
	if l == nil {
		l = t.newLink(addr)
	}
	t.mu.Unlock()
	if l != nil {
		l.enqueue(frame)
	}
}

// newLink starts to dial addr, unless that failed a moment ago or too much is under way. t.mu
// is held.
func (t *Transport) newLink(addr netip.AddrPort) *link {
	if t.ctx == nil || t.ctx.Err() != nil || t.dials >= maxDials || time.Since(t.failed[addr]) < dialTime/4 {
		return nil
	}
	if len(t.links) >= maxLinks {
		t.evict()
	}
	l := &link{t: t, peer: addr, dialled: true, used: time.Now()}
	t.links[addr] = l
	t.dials++
	t.wg.Add(1)
	go l.connect(t.ctx)
	return l
}

// evict hangs up on the connection that was not used for longest. t.mu is held.
func (t *Transport) evict() {
	var oldest *link
	for _, l := range t.links {
		if _, live := t.all[l]; live && (oldest == nil || l.lastUsed().Before(oldest.lastUsed())) {
			oldest = l
		}
	}
	if oldest != nil {
		delete(t.links, oldest.peer)
		hangUp(oldest.conn)
	}
}

// connect dials, says hello and reads until the connection ends.
func (l *link) connect(ctx context.Context) {
	defer l.t.wg.Done()
	dialCtx, cancel := awake.Within(ctx, dialTime)
	conn, err := l.t.cfg.Connect(dialCtx, l.peer)
	cancel()
	if err == nil {
		userTimeout(conn)
		me, _ := l.t.cfg.Self.MarshalBinary()
		if err = send(conn, append([]byte{'P', byte(len(me))}, me...), dialTime); err != nil {
			hangUp(conn)
		}
	}
	l.t.mu.Lock()
	l.t.dials--
	if err != nil {
		l.t.failed[l.peer] = time.Now()
		if l.t.links[l.peer] == l {
			delete(l.t.links, l.peer)
		}
	}
	l.t.mu.Unlock()
	if err != nil {
		l.t.cfg.Log.Debug("gossip connection", "to", l.peer, "err", err)
		return
	}
	l.t.wg.Add(1) // we hold a count, so this cannot race with Wait
	go func() {   // on a new stack: this one has grown in the handshake, and links live long
		defer l.t.wg.Done()
		l.run(conn)
	}()
}

// run registers the connection, flushes what waited for it, reads to its end.
func (l *link) run(conn net.Conn) {
	t := l.t
	t.mu.Lock()
	if t.ctx.Err() != nil {
		t.mu.Unlock()
		hangUp(conn)
		return
	}
	l.mu.Lock()
	l.conn = conn
	l.mu.Unlock()
	t.all[l] = struct{}{}
	use := t.prefer(l)
	t.mu.Unlock()
	if use != nil && use != l { // the peer was quicker: what waited here goes there
		for _, f := range l.takeQueue() {
			use.enqueue(f)
		}
	}
	l.enqueue(nil)
	l.read()

	l.mu.Lock()
	l.closed, l.queue = true, nil
	l.mu.Unlock()
	hangUp(conn)
	t.mu.Lock()
	delete(t.all, l)
	if l.peer.IsValid() && t.links[l.peer] == l {
		delete(t.links, l.peer)
	}
	t.mu.Unlock()
}

// prefer decides on which of two connections to one peer we send: on that dialled by the lower address. So both ends
// take the same one, and the other falls idle. t.mu is held.
func (t *Transport) prefer(l *link) *link {
	if !l.peer.IsValid() {
		return nil
	}
	old := t.links[l.peer]
	_, live := t.all[old]
	if old != nil && old != l && live && l.dialled != (t.cfg.Self.Compare(l.peer) < 0) {
		l.setSpare()
		return old
	}
	switch {
	case old == nil || old == l:
	case live:
		old.setSpare()
	default: // still dialling
		l.adopt(old)
	}
	t.links[l.peer] = l
	return l
}

// adopt takes over what waits on a connection that is still being made.
func (l *link) adopt(old *link) {
	frames := old.takeQueue()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = append(frames, l.queue...)
}

func (l *link) takeQueue() [][]byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	q := l.queue
	l.queue = nil
	return q
}

// enqueue adds a frame (nil: none) and sees to it that somebody writes.
func (l *link) enqueue(frame []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if frame != nil && !l.closed && len(l.queue) < linkQueue {
		l.queue = append(l.queue, frame)
	}
	if len(l.queue) == 0 || l.writing || l.conn == nil || l.closed {
		return
	}
	l.writing = true
	l.t.wg.Add(1) // the reader holds a count meanwhile, so this cannot race with Wait
	go l.write()
}

func (l *link) write() {
	defer l.t.wg.Done()
	for {
		l.mu.Lock()
		if len(l.queue) == 0 || l.closed {
			l.writing = false
			l.mu.Unlock()
			return
		}
		var batch []byte
		for _, f := range l.queue {
			batch = append(batch, f...)
		}
		l.queue, l.used = nil, time.Now()
		l.mu.Unlock()
		if err := send(l.conn, batch, 2*dialTime); err != nil {
			hangUp(l.conn) // the reader clears up
			l.mu.Lock()
			l.closed = true
			l.mu.Unlock()
		}
	}
}

// send writes b, for d at most.
func send(conn net.Conn, b []byte, d time.Duration) error {
	lift := awake.Until(conn.SetWriteDeadline, d)
	_, err := conn.Write(b)
	return errors.Join(err, lift())
}

// read hands packets to memberlist until the connection ends.
func (l *link) read() {
	from := net.TCPAddrFromAddrPort(l.peer)
	if !l.peer.IsValid() {
		from, _ = l.conn.RemoteAddr().(*net.TCPAddr)
	}
	if from == nil {
		from = &net.TCPAddr{}
	}
	r := bufio.NewReaderSize(l.conn, 512)
	for {
		var size [2]byte
		if _, err := io.ReadFull(r, size[:]); err != nil {
			return
		}
		n := int(binary.BigEndian.Uint16(size[:]))
		if n == 0 || n > maxPacket {
			l.t.cfg.Log.Debug("gossip frame refused", "from", from, "bytes", n)
			return
		}
		b := make([]byte, n)
		if _, err := io.ReadFull(r, b); err != nil {
			return
		}
		now := time.Now()
		l.mu.Lock()
		l.used = now
		l.mu.Unlock()
		if err := vetPacket(b); err != nil {
			l.t.cfg.Log.Debug("gossip packet refused", "from", from, "cause", err)
			continue
		}
		l.t.cfg.Heard(b)
		select {
		case l.t.packets <- &memberlist.Packet{Buf: b, From: from, Timestamp: now}:
		default:
		}
	}
}
