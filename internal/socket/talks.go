package socket

import (
	"context"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mpiup/mpiup/internal/awake"
)

// Talks are connections that are being read, by whose they are. A process that has ended may have said more than was read by then: its last
// word decides how its end is judged. The zero value has none.
type Talks[K comparable] struct {
	mu   sync.Mutex
	open map[K][]*Talk // guarded by mu
}

// Talk is one connection.
type Talk struct {
	conn  net.Conn
	end   func()
	ended chan struct{} // closed when all was read, and what was asked has been seen to
	held  atomic.Bool
}

// End says that all that was said has been read and seen to. It may be called again.
func (o *Talk) End() { o.end() }

// Hold says whether the connection's reader is held up by what may wait for others: who has ended has no last word behind that.
func (o *Talk) Hold(held bool) { o.held.Store(held) }

// Begin notes that a connection is read, until its End.
func (t *Talks[K]) Begin(whose K, conn net.Conn) *Talk {
	one := &Talk{conn: conn, ended: make(chan struct{})}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open == nil {
		t.open = map[K][]*Talk{}
	}
	t.open[whose] = append(t.open[whose], one)
	one.end = sync.OnceFunc(func() {
		close(one.ended)
		t.mu.Lock()
		defer t.mu.Unlock()
		left := slices.DeleteFunc(t.open[whose], func(o *Talk) bool { return o == one })
		if t.open[whose] = left; len(left) == 0 {
			delete(t.open, whose)
		}
	})
	return one
}

// quiet is how long a connection that somebody else holds open, too, has nothing unread until all is taken for said.
const quiet = 50 * time.Millisecond

// Settle returns when what a process that has ended said over its connections has been read, or ctx has ended. A connection of its own has
// ended with it, and is read to its end; one that a process has which it had started stays open, and then nothing that lies there unread will
// do.
func (t *Talks[K]) Settle(ctx context.Context, whose K) {
	t.mu.Lock()
	open := slices.Clone(t.open[whose])
	t.mu.Unlock()
	for _, one := range open {
		for !one.settled(ctx) {
		}
	}
}

// settled waits for the end of a connection, or until nothing more is to come over it.
func (o *Talk) settled(ctx context.Context) bool {
	moment, stop := awake.Within(ctx, quiet)
	defer stop()
	select {
	case <-o.ended:
		return true
	case <-moment.Done():
		return ctx.Err() != nil || o.held.Load() || Unread(o.conn) == 0 && !HungUp(o.conn)
	}
}
