package socket

import (
	"context"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/mpiup/mpiup/internal/awake"
)

// Talks are connections that are being read, by whose they are. A process that has ended may have said more than was read by then: its last
// word decides how its end is judged. The zero value has none.
type Talks[K comparable] struct {
	mu   sync.Mutex
	open map[K][]*talk // guarded by mu
}

// talk is one connection.
type talk struct {
	conn  net.Conn
	ended chan struct{} // closed when all was read, and what was asked has been seen to
}

// Begin notes that a connection is read, until end is called.
func (t *Talks[K]) Begin(whose K, conn net.Conn) (end func()) {
	one := &talk{conn, make(chan struct{})}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open == nil {
		t.open = map[K][]*talk{}
	}
	t.open[whose] = append(t.open[whose], one)
	return sync.OnceFunc(func() {
		close(one.ended)
		t.mu.Lock()
		defer t.mu.Unlock()
		left := slices.DeleteFunc(t.open[whose], func(o *talk) bool { return o == one })
		if t.open[whose] = left; len(left) == 0 {
			delete(t.open, whose)
		}
	})
}

// quiet is how long a connection that somebody else holds open, too, has nothing unread until all is taken for said.
const quiet = 50 * time.Millisecond

// Settle returns when what a process that has ended said over its connections has been read, or ctx has ended. A connection of its own has
// ended with it; one that a process has which it had started stays open, and then nothing that lies there unread will do.
func (t *Talks[K]) Settle(ctx context.Context, whose K) {
	t.mu.Lock()
	open := slices.Clone(t.open[whose])
	t.mu.Unlock()
	for _, one := range open {
		for !one.settled(ctx) {
		}
	}
}

// settled waits for the end of a connection, or until nothing has come for a moment.
func (one *talk) settled(ctx context.Context) bool {
	moment, stop := awake.Within(ctx, quiet)
	defer stop()
	select {
	case <-one.ended:
		return true
	case <-moment.Done():
		return ctx.Err() != nil || Unread(one.conn) == 0
	}
}
