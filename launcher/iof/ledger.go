package iof

import (
	"sync"

	"github.com/mpiup/mpiup/internal/job"
)

// ledger gives bytes back when they have left: everywhere, where a stream goes to two places.
type ledger struct {
	written func(id, n int)
	both    [2]bool // by Stream: goes to a file and to a stream of the launcher

	mu   sync.Mutex
	lead map[laneKey]int // bytes by which the launcher's stream is ahead of the file, guarded by mu
}

type laneKey struct {
	id     int // of the process
	stream job.Stream
}

// done: the launcher's own stream has written n bytes.
func (l *ledger) done(k laneKey, n int) { l.count(k, n) }

// filed: the file has.
func (l *ledger) filed(k laneKey, n int) { l.count(k, -n) }

func (l *ledger) count(k laneKey, n int) {
	if !l.both[k.stream] {
		l.written(k.id, max(n, -n))
		return
	}
	l.mu.Lock()
	before := l.lead[k]
	l.lead[k] = before + n
	l.mu.Unlock()
	// What the later of the two has written, of what the other had before.
	back := 0
	switch {
	case n > 0 && before < 0:
		back = min(n, -before)
	case n < 0 && before > 0:
		back = min(-n, before)
	}
	if back > 0 {
		l.written(k.id, back)
	}
}
