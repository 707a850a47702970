package loopback

import (
	"context"
	"net"
	"slices"
	"time"

	"github.com/mpiup/mpiup/internal/awake"
)

// enter gives a new connection a place. While there is none, the oldest guest gives way once it has
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
	now := time.Now()
	if len(lb.guests) < places {
		g := &guest{conn: conn, since: now}
		g.ctx, g.cancel = awake.Within(ctx, stay)
		lb.guests = append(lb.guests, g)
		return g, 0
	}
	oldest := lb.guests[0]
	if wait := oldest.since.Add(patience).Sub(now); wait > 0 {
		return nil, wait
	}
	if !oldest.out {
		oldest.out = true
		oldest.cancel()
		oldest.conn.Close()
	}
	return nil, patience // its goroutine leaves at once
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
