package loopback

import (
	"context"
	"net"
	"slices"
	"time"

	"github.com/mpiup/mpiup/internal/awake"
	"github.com/mpiup/mpiup/internal/socket"
)

// enter gives a new connection a place. While there is none, the guest that has been silent for longest gives way once it has
// had its patience. nil: ctx ended.
func (lb *Lobby) enter(ctx context.Context, conn net.Conn) *guest {
	for ctx.Err() == nil {
		g, wait := lb.take(ctx, conn)
		if g != nil {
			return g
		}
		t := time.NewTimer(wait)
		select {
		case <-lb.left:
		case <-t.C:
		case <-ctx.Done():
		}
		t.Stop()
	}
	return nil
}

// take is a free place, or how long to wait for one at most.
func (lb *Lobby) take(ctx context.Context, conn net.Conn) (*guest, time.Duration) {
	lb.mu.Lock()
	defer lb.mu.Unlock()
	if len(lb.guests) < places {
		g := &guest{conn: conn}
		g.ctx, g.cancel = awake.Within(ctx, stay)
		lb.guests = append(lb.guests, g)
		return g, 0
	}
	silent := lb.silent()
	if silent == nil {
		return nil, patience
	}
	if wait := time.Until(silent.since.Add(patience)); wait > 0 {
		return nil, wait
	}
	if !silent.out {
		silent.out = true
		silent.cancel()
		silent.conn.Close()
	}
	return nil, patience // its goroutine leaves at once
}

// listen notes that it is the guest's turn to speak.
func (lb *Lobby) listen(g *guest) {
	lb.mu.Lock()
	defer lb.mu.Unlock()
	g.since = time.Now()
}

// silent is the guest that has said nothing for longest; nil: we are late with all of them. mu is held.
func (lb *Lobby) silent() (longest *guest) {
	for _, g := range lb.guests {
		if g.since.IsZero() || longest != nil && !g.since.Before(longest.since) || !g.out && socket.Unread(g.conn) > 0 {
			continue
		}
		longest = g
	}
	return longest
}

// leave frees a guest's place, and says whether it had to give way.
func (lb *Lobby) leave(g *guest) (out bool) {
	g.cancel()
	lb.mu.Lock()
	defer lb.mu.Unlock()
	i := slices.Index(lb.guests, g)
	lb.guests = slices.Delete(lb.guests, i, i+1)
	select {
	case lb.left <- struct{}{}:
	default:
	}
	return g.out
}
