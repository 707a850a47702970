package reach

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/mpiup/mpiup/launcher/link"
)

// atOnce is how many hosts a launcher works on at a time: that many handshakes keep its processors busy, and with more all of them
// wait for each other. 16, 32 and 64 took the same time, within the noise of a busy machine.
const atOnce = 32

// Bounds of the time for which a turn is one's own.
const (
	leastLent = 250 * time.Millisecond
	firstLent = 2 * time.Second // nothing is known yet of how long hosts take
	mostLent  = 5 * time.Second
)

// turns are the right to work on a host, one after another in the order of asking. A host that takes much longer than
// others did keeps them waiting no longer: its attempt goes on beside theirs.
type turns struct {
	slots chan struct{}

	mu    sync.Mutex
	usual time.Duration // that a host takes; 0: none has answered, guarded by mu
}

func newTurns() *turns { return &turns{slots: make(chan struct{}, atOnce)} }

// full says that who asks now has to wait.
func (t *turns) full() bool { return len(t.slots) == cap(t.slots) }

// take waits for a turn; false: ctx has ended. done gives it back, and says whether the host answered.
func (t *turns) take(ctx context.Context) (done func(answered bool), ok bool) {
	select {
	case t.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, false
	}
	begun, lent, back := time.Now(), t.lent(), sync.OnceFunc(func() { <-t.slots })
	late := time.AfterFunc(lent, func() { t.note(lent, false); back() })
	return func(answered bool) {
		late.Stop()
		back()
		if answered {
			t.note(time.Since(begun), true)
		}
	}, true
}

// lent is for how long a turn is one's own.
func (t *turns) lent() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.usual == 0 {
		return firstLent
	}
	return min(max(4*t.usual, leastLent), mostLent)
}

// note counts how long a host took, or that one takes longer: where all get slower, there is little CPU, and more at once is no help.
func (t *turns) note(took time.Duration, answered bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.usual > 0 && took > t.usual:
		t.usual += (took - t.usual) / 2
	case t.usual > 0:
		t.usual += (took - t.usual) / 16
	case answered:
		t.usual = took
	}
}

// itsTurn is the cause of a host that nobody has asked yet because of us.
var itsTurn = &link.Cause{Stage: link.StageResolve, Err: fmt.Errorf("it was not asked yet: this launcher asks %d hosts at a time", atOnce)}
